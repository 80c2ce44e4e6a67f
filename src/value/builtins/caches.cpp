/// Functions with `functools.lru_cache`. A call returns the cached result where there is one. Where there is none, the
/// function is inlined, and its result goes into the cache after the graph. Guards look the arguments up again.
#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/call_caches.h"
#include "effect/plan.h"
#include "source/cached_call.h"
#include "source/query.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/object.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnknownFunction, "a function with functools.lru_cache " + why);
}

bool is_parameter(const Value* value) {
    static PyTypeObject* const parameter = imported_class("torch.nn", "Parameter");
    return value->type() == parameter;
}

/// Tensors hash and compare by identity in the keys of a cache, unless two of them have the same hash.
bool is_plain_tensor(const Value* value) {
    static PyTypeObject* const tensor = imported_class("torch", "Tensor");
    return value->kind == Kind::Tensor && (value->type() == tensor || is_parameter(value));
}

/// Whether the program has not defined how an object hashes and compares: by its identity.
bool compares_by_identity(const Value* value) {
    if (is_plain_tensor(value) || value->kind == Kind::Function) return true;
    return value->kind == Kind::Object && value->type()->tp_hash == PyBaseObject_Type.tp_hash &&
           value->type()->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

/// One call of a cached function.
struct CachedCall {
    Value* self = nullptr;  // has a source
    PyObject* cached = nullptr;
    bool is_typed = false;
    Py_ssize_t room = -1;           // how many results the cache holds at most; -1: any number
    Arguments given;                // of the function
    std::vector<Value*> arguments;  // the positional ones, then the values of the others
    PyObject* names = nullptr;      // a tuple: the names of the others
    std::vector<Value*> tensors;    // those from outside that are no parameters
    bool is_new = false;            // an argument was made in the trace: no cache can hold the result
    CachedCallKey key{};            // unless that is so
    PyObject *real_positional = nullptr, *real_keywords = nullptr;  // likewise; no keywords: null
    Source* missing = nullptr;  // the place of the result, if it was looked up and not found

    std::size_t positional() const { return arguments.size() - static_cast<std::size_t>(PyTuple_GET_SIZE(names)); }
};

/// The function, and the settings of its cache.
CachedCall start_call(Tracer& tracer, const Arguments& arguments) {
    CachedCall call;
    call.self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    call.cached = call.self == nullptr ? nullptr : call.self->object();
    if (call.cached == nullptr || cpython::call_cache_dict(call.cached) == nullptr)
        refuse(tracer, "has no cache that Stator can read");
    Ref<> settings = Ref<>::steal(PyObject_CallMethod(call.cached, "cache_parameters", nullptr));
    if (!settings) PyErr_Clear();
    const bool is_known = settings && PyDict_Check(settings.get());
    PyObject* typed = is_known ? PyDict_GetItemString(settings.get(), "typed") : nullptr;
    PyObject* room = is_known ? PyDict_GetItemString(settings.get(), "maxsize") : nullptr;
    if (typed == nullptr || room == nullptr) refuse(tracer, "does not tell its settings");
    call.is_typed = typed == Py_True;
    call.room = room == Py_None ? -1 : std::max<Py_ssize_t>(PyLong_AsSsize_t(room), 0);
    if (call.self->source != nullptr)
        tracer.guard({GuardKind::Identity, call.self->source, call.cached});
    else
        call.self = tracer.outside(tracer.provenance().pinned(call.cached), call.cached);
    call.given = arguments;
    call.given.positional.erase(call.given.positional.begin());
    return call;
}

/// The object that an argument is in a key: a constant, or an object that compares by identity. Empty for one that the
/// trace has made. Breaks the graph if looking it up in a dict would run code of the program.
Ref<> part_of_key(Tracer& tracer, CachedCall& call, Value* value) {
    tracer.realize(value);
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    if (!compares_by_identity(value)) refuse(tracer, "is called with arguments that are not constants");
    if (value->object() == nullptr || value->source == nullptr) {
        call.is_new = true;
        return {};
    }
    if (is_plain_tensor(value) && !is_parameter(value)) {
        if (std::ranges::find(call.tensors, value) == call.tensors.end()) call.tensors.push_back(value);
    } else {
        tracer.guard({GuardKind::Identity, value->source, value->object()});
    }
    return Ref<>::share(value->object());
}

/// Reads the arguments, and makes the key.
void take_arguments(Tracer& tracer, CachedCall& call) {
    const auto named = static_cast<Py_ssize_t>(call.given.keywords.size());
    const auto count = static_cast<Py_ssize_t>(call.given.positional.size());
    PyObject* positional = tracer.keep(checked(PyTuple_New(count)));
    PyObject* keywords = named == 0 ? nullptr : tracer.keep(checked(PyDict_New()));
    call.names = tracer.keep(checked(PyTuple_New(named)));
    auto take = [&](Value* value) {
        call.arguments.push_back(value);
        Ref<> part = part_of_key(tracer, call, value);
        if (part && PyObject_Hash(part.get()) == -1 && !is_plain_tensor(value)) tracer.raise_from_python();
        return part ? part : Ref<>::share(Py_None);
    };
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(positional, i, take(call.given.positional[static_cast<std::size_t>(i)]).release());
    for (Py_ssize_t i = 0; i < named; ++i) {
        const Keyword& keyword = call.given.keywords[static_cast<std::size_t>(i)];
        PyTuple_SET_ITEM(call.names, i, Py_NewRef(keyword.name));
        checked(PyDict_SetItem(keywords, keyword.name, take(keyword.value).get()));
    }
    if (call.is_new) return;
    call.real_positional = positional;
    call.real_keywords = keywords;
    call.key = {call.cached, tracer.keep(cpython::call_cache_key(positional, keywords, call.is_typed))};
}

// --- side effects ---------------------------------------------------------------------------------------------------

/// The arguments of a call in the plan: the cached function, its arguments as a tuple, the names of the last ones, the
/// result.
struct NotedCall {
    explicit NotedCall(PyObject* parts) : cached(PyTuple_GET_ITEM(parts, 0)), result(PyTuple_GET_ITEM(parts, 3)) {
        PyObject *all = PyTuple_GET_ITEM(parts, 1), *names = PyTuple_GET_ITEM(parts, 2);
        const Py_ssize_t named = PyTuple_GET_SIZE(names), count = PyTuple_GET_SIZE(all) - named;
        positional = checked(PyTuple_GetSlice(all, 0, count));
        if (named != 0) keywords = checked(PyDict_New());
        for (Py_ssize_t i = 0; i < named; ++i)
            checked(PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(all, count + i)));
    }

    PyObject *const cached, *const result;
    Ref<> positional, keywords;
};

PyObject* note_added(PyObject*, PyObject* parts) {
    try {
        const NotedCall call(parts);
        cpython::note_cached_call(call.cached, call.positional.get(), call.keywords.get(), call.result);
        Py_RETURN_NONE;
    } catch (const PythonError&) {
        return nullptr;
    }
}

/// The guards have seen that the cache holds the result: the call counts it.
PyObject* note_found(PyObject* first, PyObject* parts) {
    // The call that was captured has been made already: it filled the cache.
    if (first != nullptr && PyList_GET_SIZE(first) != 0) {
        if (PyList_SetSlice(first, 0, 1, nullptr) < 0) return nullptr;
        Py_RETURN_NONE;
    }
    try {
        const NotedCall call(parts);
        return PyObject_Call(call.cached, call.positional.get(), call.keywords.get());
    } catch (const PythonError&) {
        return nullptr;
    }
}

/// Of a call that adds a result.
PyObject* adding_noter() {
    static PyMethodDef definition = {"note_result_added_to_cache", note_added, METH_VARARGS, nullptr};
    static PyObject* const noter = checked(PyCFunction_New(&definition, nullptr)).release();
    return noter;
}

/// Of a call that finds one. `first` is a list with an item if the call that is captured is not to be counted.
Ref<> make_finding_noter(Borrowed<> first) {
    static PyMethodDef definition = {"count_result_found_in_cache", note_found, METH_VARARGS, nullptr};
    return checked(PyCFunction_New(&definition, first));
}

PyObject* finding_noter() {
    static PyObject* const noter = make_finding_noter(nullptr).release();
    return noter;
}

/// A call of the cached function for the plan: it adds the result to the cache, or counts a hit.
void log_call(Tracer& tracer, const CachedCall& call, Value* result, PyObject* noter) {
    Value* arguments = make_tuple(tracer, call.arguments);
    tracer.effects().log({PlanOp::Call, {call.self, arguments, tracer.constant(call.names), result}, noter});
}

/// Counts a hit. Functions that run later, or more than once, are captured without: there it would be a side effect
/// that breaks the graph.
void log_hit(Tracer& tracer, const CachedCall& call, Value* result, PyObject* noter = finding_noter()) {
    if (!tracer.deferred_graphs().is_open()) log_call(tracer, call, result, noter);
}

// --- results that this trace has added ------------------------------------------------------------------------------

/// Whether two arguments are one in the keys of a cache.
bool is_same_argument(Tracer& tracer, const CachedCall& call, Value* one, Value* other) {
    if (one == other) return true;
    Ref<> left = one->as_constant(tracer), right = other->as_constant(tracer);
    if (!left || !right) return !left && !right && operations::same_object(tracer, one, other);
    const bool is_alone = call.arguments.size() == 1 && PyTuple_GET_SIZE(call.names) == 0;
    if ((call.is_typed || is_alone) && Py_TYPE(left.get()) != Py_TYPE(right.get())) return false;
    return PyObject_RichCompareBool(left.get(), right.get(), Py_EQ) == 1;
}

/// The calls by which the trace has added results. The last operand of each is the result.
std::vector<const Effect*> added_results(Tracer& tracer, const CachedCall& call) {
    std::vector<const Effect*> added;
    for (const Effect& effect : tracer.effects().entries())
        if (effect.op == PlanOp::Call && effect.object == adding_noter() && effect.from[0]->object() == call.cached)
            added.push_back(&effect);
    return added;
}

/// The result of an equal call that the trace has made already; null if there is none.
Value* added_result(Tracer& tracer, const CachedCall& call, const std::vector<const Effect*>& added) {
    for (const Effect* effect : added) {
        const std::vector<Value*>& arguments = as_sequence(effect->from[1])->all(tracer);
        if (arguments.size() != call.arguments.size()) continue;
        if (PyObject_RichCompareBool(effect->from[2]->as_constant(tracer).get(), call.names, Py_EQ) != 1) continue;
        bool is_same = true;
        for (std::size_t i = 0; is_same && i < arguments.size(); ++i)
            is_same = is_same_argument(tracer, call, arguments[i], call.arguments[i]);
        if (is_same) return effect->from[3];
    }
    return nullptr;
}

constexpr const char* kDropped = "may have dropped the result to make room for others";

/// Breaks the graph if a result that was in the cache may have made room for others by the time of this call.
void expect_kept(Tracer& tracer, const CachedCall& call, std::size_t added) {
    if (call.room < 0 || added == 0) return;
    Source* place = holds_at_most(tracer.provenance(), call.cached, call.room - static_cast<Py_ssize_t>(added));
    if (place->object != Py_True) refuse(tracer, kDropped);
    tracer.guard({GuardKind::Identity, place, Py_True});
}

// --- the call -------------------------------------------------------------------------------------------------------

bool never_changes(const Value* value) {
    return value->kind == Kind::Constant || value->kind == Kind::Class || value->type() == &PyDictProxy_Type;
}

/// The cached result; null if there is none, which is not guarded yet.
Value* look_up(Tracer& tracer, CachedCall& call) {
    if (call.tensors.size() == 1) {
        call.key.tensor = call.tensors[0]->object();
        call.key.tensor_source = call.tensors[0]->source;
    }
    for (std::size_t i = 0; call.tensors.size() > 1 && i < call.tensors.size(); ++i)
        tracer.guard({GuardKind::Identity, call.tensors[i]->source, call.tensors[i]->object()});
    CachedResult found = cached_result(tracer.provenance(), call.key);
    if (call.key.tensor == nullptr) found.source->label = tracer.keep(title_of_cached_result(call.cached));
    call.missing = found.object ? nullptr : found.source;
    if (!found.object) return nullptr;
    tracer.guard({GuardKind::Present, found.source});
    return tracer.outside(found.source, found.object.get());
}

/// Whether all side effects from this one on are calls of cached functions.
bool are_noted_calls(Tracer& tracer, std::size_t from) {
    return std::ranges::all_of(tracer.effects().entries().subspan(from), [](const Effect& effect) {
        return effect.object != nullptr && PyCFunction_Check(effect.object) &&
               (PyCFunction_GET_FUNCTION(effect.object) == note_added ||
                PyCFunction_GET_FUNCTION(effect.object) == note_found);
    });
}

/// A call that is not cached.
Task first_result(Tracer& tracer, CachedCall call) {
    const std::size_t effects = tracer.effects().size();
    PyObject* function = tracer.keep(Ref<>::share(cpython::function_of_call_cache(call.cached).get()));
    Value* result =
        co_await operations::call(tracer, tracer.outside(tracer.provenance().pinned(function), function), call.given);
    tracer.realize(result);
    const bool is_constant = !call.is_new && call.tensors.empty() && call.room != 0 && never_changes(result) &&
                             are_noted_calls(tracer, effects);
    if (!is_constant) {
        if (call.missing != nullptr) tracer.guard({GuardKind::Absent, call.missing});
        if (tracer.deferred_graphs().is_open()) refuse(tracer, "adds a result to its cache inside of such a function");
        log_call(tracer, call, result, adding_noter());
        co_return result;
    }
    // The function is called now, so that the next call, which finds the result, can use this capture.
    tracer.effects().forget_from(effects);
    Ref<> made = Ref<>::steal(PyObject_Call(call.cached, call.real_positional, call.real_keywords));
    if (!made) tracer.raise_from_python();
    Value* found = look_up(tracer, call);
    if (found == nullptr) refuse(tracer, "does not keep its result");
    Ref<> first = checked(PyList_New(1));
    PyList_SET_ITEM(first.get(), 0, Py_NewRef(Py_None));
    log_hit(tracer, call, found, tracer.keep(make_finding_noter(first.get())));
    co_return found;
}

Outcome call_cached(Tracer& tracer, const Arguments& arguments) {
    CachedCall call = start_call(tracer, arguments);
    take_arguments(tracer, call);
    const std::vector<const Effect*> added = added_results(tracer, call);
    if (call.room != 0) {
        if (Value* result = added_result(tracer, call, added)) {
            if (call.room >= 0 && added.size() > static_cast<std::size_t>(call.room)) refuse(tracer, kDropped);
            log_hit(tracer, call, result);
            return result;
        }
        if (!call.is_new) {
            if (Value* result = look_up(tracer, call)) {
                expect_kept(tracer, call, added.size());
                log_hit(tracer, call, result);
                return result;
            }
            if (call.tensors.size() > 1)
                refuse(tracer, "is called with several tensors for which its cache holds no result");
        }
    }
    return tracer.start(first_result(tracer, std::move(call)));
}

}  // namespace

void register_caches(Handlers& handlers) {
    handlers.add_method(imported_class("functools", "_lru_cache_wrapper"), "__call__", call_cached);
}

}  // namespace stator
