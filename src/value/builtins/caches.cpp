/// Functions with `functools.lru_cache`. A call returns the cached result where there is one, and a guard checks that
/// the cache still holds that object.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "torch/tensor.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/object.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// The dict of cached results, which the C wrapper hides: found with the traverse function of the garbage collector.
PyObject* cache_of(PyObject* cached) {
    struct Found {
        PyObject* own_dict;
        PyObject* dict = nullptr;
    } found{PyObject_GenericGetDict(cached, nullptr)};
    Ref<> own_dict = checked(found.own_dict);
    auto visit = [](PyObject* part, void* argument) {
        auto* found = static_cast<Found*>(argument);
        if (found->dict == nullptr && PyDict_CheckExact(part) && part != found->own_dict) found->dict = part;
        return 0;
    };
    Py_TYPE(cached)->tp_traverse(cached, visit, &found);
    return found.dict;
}

/// Tensors hash and compare by identity in the keys of a cache, unless two of them have the same hash.
bool is_plain_tensor(Value* value) {
    static PyTypeObject* const tensor = imported_class("torch", "Tensor");
    static PyTypeObject* const parameter = imported_class("torch.nn", "Parameter");
    return value->kind == Kind::Tensor && (value->type() == tensor || value->type() == parameter);
}

/// The value as an argument of a cached call, if looking it up in a dict runs no user code: constants, and objects that
/// compare by identity. Null for anything else. A tensor is guarded only if the cache holds it: others share the
/// capture that breaks the graph.
Ref<> as_cache_argument(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    PyObject* object = value->object();
    if (object == nullptr || value->source == nullptr) return {};
    if (is_plain_tensor(value)) return Ref<>::share(object);
    if (value->kind != Kind::Object) return {};
    if (Py_TYPE(object)->tp_hash != PyBaseObject_Type.tp_hash ||
        Py_TYPE(object)->tp_richcompare != PyBaseObject_Type.tp_richcompare)
        return {};
    tracer.guard({GuardKind::Identity, value->source, object});
    return Ref<>::share(object);
}

/// The arguments of a call, kept alive by the trace.
struct CachedCall {
    PyObject* arguments = nullptr;  // a tuple
    PyObject* keywords = nullptr;   // a dict; null if there are none
    std::vector<Value*> tensors{};  // those among them

    Ref<> run(PyObject* cached) const { return Ref<>::steal(PyObject_Call(cached, arguments, keywords)); }
};

struct Entry {
    PyObject* key = nullptr;
    PyObject* held = nullptr;
};

bool is_same_part(PyObject* part, PyObject* wanted) {
    if (part == wanted) return true;
    if (PyTuple_CheckExact(wanted) && PyTuple_CheckExact(part)) {
        Py_ssize_t size = PyTuple_GET_SIZE(wanted);
        if (PyTuple_GET_SIZE(part) != size) return false;
        for (Py_ssize_t i = 0; i < size; ++i)
            if (!is_same_part(PyTuple_GET_ITEM(part, i), PyTuple_GET_ITEM(wanted, i))) return false;
        return true;
    }
    bool is_plain = PyUnicode_CheckExact(wanted) || PyLong_CheckExact(wanted) || PyFloat_CheckExact(wanted);
    return is_plain && Py_IS_TYPE(part, Py_TYPE(wanted)) && PyObject_RichCompareBool(part, wanted, Py_EQ) == 1;
}

/// Whether a key of the cache belongs to a call with these keywords: it holds the arguments, a marker, then names and
/// values alternately.
bool is_key_for(PyObject* key, const CachedCall& call) {
    Py_ssize_t count = PyTuple_GET_SIZE(call.arguments);
    if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) != count + 1 + 2 * PyDict_GET_SIZE(call.keywords))
        return false;
    if (!Py_IS_TYPE(PyTuple_GET_ITEM(key, count), &PyBaseObject_Type)) return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!is_same_part(PyTuple_GET_ITEM(key, i), PyTuple_GET_ITEM(call.arguments, i))) return false;
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t position = 0, i = count + 1; PyDict_Next(call.keywords, &position, &name, &value); i += 2)
        if (!is_same_part(PyTuple_GET_ITEM(key, i), name) || !is_same_part(PyTuple_GET_ITEM(key, i + 1), value))
            return false;
    return true;
}

/// The cache entry for these arguments, with the key that the cache holds.
Entry entry_for(PyObject* cache, const CachedCall& call) {
    if (call.keywords != nullptr) {
        Entry entry;
        for (Py_ssize_t position = 0; PyDict_Next(cache, &position, &entry.key, &entry.held) != 0;)
            if (is_key_for(entry.key, call)) return entry;
        return {};
    }
    PyObject* arguments = call.arguments;
    PyObject* wanted = arguments;
    if (PyTuple_GET_SIZE(arguments) == 1) {
        PyObject* only = PyTuple_GET_ITEM(arguments, 0);
        if (PyUnicode_CheckExact(only) || PyLong_CheckExact(only)) wanted = only;
    }
    if (PyDict_GetItemWithError(cache, wanted) == nullptr) {
        if (PyErr_Occurred() != nullptr) throw PythonError();
        return {};
    }
    Entry entry;
    for (Py_ssize_t position = 0; PyDict_Next(cache, &position, &entry.key, &entry.held) != 0;) {
        // `==` of two tensors is a tensor.
        const bool is_found = call.tensors.empty() ? PyObject_RichCompareBool(entry.key, wanted, Py_EQ) == 1
                                                   : is_same_part(entry.key, wanted);
        if (is_found) return entry;
    }
    return {};
}

/// The cached result. Reading it runs no user code.
Value* cached_result(Tracer& tracer, PyObject* cached, PyObject* cache, const Entry& entry, const CachedCall& call) {
    Source* place =
        tracer.provenance().child(tracer.provenance().pinned(cache), Access::DictItem, entry.key, 0, entry.held);
    tracer.guard({GuardKind::Identity, place, entry.held});
    for (Value* tensor : call.tensors) tracer.guard({GuardKind::Identity, tensor->source, tensor->object()});
    PyObject* result = tracer.keep(checked(call.run(cached).release()));
    if (!torch_room::is_tensor(result)) return tracer.outside(tracer.provenance().pinned(result), result);
    // A tensor may have changed by the next call: an item of a pinned tuple is guarded, a pinned tensor is not.
    PyObject* holder = tracer.keep(checked(PyTuple_Pack(1, result)));
    Value* pinned = tracer.outside(tracer.provenance().pinned(holder), holder);
    tracer.realize(pinned);
    return as_sequence(pinned)->item(tracer, 0);
}

[[noreturn]] void refuse(Tracer& tracer, const char* why) {
    tracer.break_graph(BreakKind::UnknownFunction, std::string("a function with functools.lru_cache ") + why);
}

/// A call that is not cached. Tracing the function shows whether it has side effects; if it has none, it is called now.
Task first_result(Tracer& tracer, PyObject* cached, PyObject* cache, CachedCall call, Arguments given) {
    if (!tracer.effects().empty()) refuse(tracer, "is called for the first time after a recorded side effect");
    Ref<> wrapped = checked(PyObject_GetAttr(cached, interned("__wrapped__")));
    PyObject* function = tracer.keep(std::move(wrapped));
    Value* shown =
        co_await operations::call(tracer, tracer.outside(tracer.provenance().pinned(function), function), given);
    tracer.realize(shown);
    if (!tracer.effects().empty()) refuse(tracer, "has side effects");
    const bool never_changes =
        shown->kind == Kind::Constant || shown->kind == Kind::Class || shown->type() == &PyDictProxy_Type;
    if (!never_changes) refuse(tracer, "returns something other than a constant");
    Ref<> result = call.run(cached);
    if (!result) tracer.raise_from_python();
    Entry entry = entry_for(cache, call);
    if (entry.held == nullptr && call.keywords != nullptr)
        refuse(tracer, "is called with keyword arguments whose cache entry is not found");
    if (entry.held == nullptr) co_return shown;
    co_return cached_result(tracer, cached, cache, entry, call);
}

Outcome call_cached(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    PyObject* cached = self == nullptr ? nullptr : self->object();
    PyObject* cache = cached == nullptr ? nullptr : cache_of(cached);
    if (cache == nullptr) refuse(tracer, "has no cache that Stator can read");
    Ref<> settings = Ref<>::steal(PyObject_CallMethod(cached, "cache_parameters", nullptr));
    if (!settings) PyErr_Clear();
    PyObject* typed =
        settings && PyDict_Check(settings.get()) ? PyDict_GetItemString(settings.get(), "typed") : nullptr;
    if (typed != Py_False) refuse(tracer, "uses typed=True");
    if (self->source != nullptr) tracer.guard({GuardKind::Identity, self->source, cached});
    Arguments given = arguments;
    given.positional.erase(given.positional.begin());
    CachedCall call;
    auto hashable_argument = [&](Value* value) {
        Ref<> argument = as_cache_argument(tracer, value);
        if (argument && is_plain_tensor(value)) call.tensors.push_back(value);
        if (!argument || PyObject_Hash(argument.get()) == -1) {
            PyErr_Clear();
            refuse(tracer, "is called with arguments that are not constants");
        }
        return argument;
    };
    call.arguments = tracer.keep(checked(PyTuple_New(static_cast<Py_ssize_t>(given.positional.size()))));
    for (std::size_t i = 0; i < given.positional.size(); ++i)
        PyTuple_SET_ITEM(call.arguments, static_cast<Py_ssize_t>(i), hashable_argument(given.positional[i]).release());
    if (!given.keywords.empty()) call.keywords = tracer.keep(checked(PyDict_New()));
    for (const Keyword& keyword : given.keywords)
        checked(PyDict_SetItem(call.keywords, keyword.name, hashable_argument(keyword.value).get()));
    if (Entry entry = entry_for(cache, call); entry.held != nullptr)
        return cached_result(tracer, cached, cache, entry, call);
    if (!call.tensors.empty()) refuse(tracer, "is called with tensors that its cache does not hold");
    return tracer.start(first_result(tracer, cached, cache, call, std::move(given)));
}

}  // namespace

void register_caches(Handlers& handlers) {
    handlers.add_method(imported_class("functools", "_lru_cache_wrapper"), "__call__", call_cached);
}

}  // namespace stator
