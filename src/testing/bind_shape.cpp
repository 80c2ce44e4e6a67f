/// Shape inference, tensor checks and global state as Python functions, for tests and measurements.
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "base/boundary.h"
#include "base/check.h"
#include "base/text.h"
#include "graph/node.h"
#include "number/expressions.h"
#include "shape/answer_by_rule.h"
#include "shape/derived_strides.h"
#include "shape/infer.h"
#include "shape/store.h"
#include "source/source.h"
#include "torch/fake.h"
#include "torch/global_state.h"
#include "torch/names.h"
#include "torch/tensor.h"

namespace stator {

namespace {

using torch_room::TensorMeta;

/// A call with real tensors as a question: each tensor becomes a node that carries its metadata.
class CallAsQuestion {
  public:
    /// With `numbers`, each size of at least 2 is a symbol of its own, and if `with_ints` also each int argument.
    CallAsQuestion(PyObject* target, PyObject* args, PyObject* kwargs, Expressions* numbers = nullptr,
                   bool with_ints = false)
        : numbers_(numbers), with_ints_(with_ints) {
        if (numbers != nullptr) question_.dynamic_answers = &dynamic_answers_;
        question_.kind = PyUnicode_Check(target) ? graph::NodeKind::Method : graph::NodeKind::Function;
        question_.target = target;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
            arguments_.push_back(argument(PyTuple_GET_ITEM(args, i)));
        PyObject *name, *value;
        for (Py_ssize_t i = 0; kwargs != nullptr && PyDict_Next(kwargs, &i, &name, &value);)
            keywords_.push_back({name, argument(value)});
        question_.arguments = arguments_;
        question_.keywords = keywords_;
    }

    const shape::Question& question() const { return question_; }
    /// The metadata of the tensors, in order of appearance.
    std::vector<const TensorMeta*> metas() const {
        std::vector<const TensorMeta*> all;
        for (const auto& [tensor, node] : nodes_) all.push_back(node->result.tensor);
        return all;
    }
    Arena& arena() { return arena_; }

  private:
    graph::Argument argument(PyObject* object) {
        using Kind = graph::Argument::Kind;
        graph::Argument result;
        if (torch_room::is_tensor(object)) {
            result.kind = Kind::Node;
            result.node = node_of(object);
        } else if (is_symbol(object)) {
            result.kind = Kind::Node;
            result.node = node_of_int(object);
        } else if (has_nodes(object)) {
            result.items = arena_.make<graph::Argument::Items>();
            if (PyDict_Check(object)) {
                result.kind = Kind::Dict;
                PyObject *key, *value;
                for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);) {
                    result.items->keys.push_back(key);
                    result.items->values.push_back(argument(value));
                }
            } else if (PySlice_Check(object)) {
                result.kind = Kind::Slice;
                auto* slice = reinterpret_cast<PySliceObject*>(object);
                for (PyObject* part : {slice->start, slice->stop, slice->step})
                    result.items->values.push_back(argument(part));
            } else {
                result.kind = PyList_Check(object) ? Kind::List : Kind::Tuple;
                if (!PyList_Check(object) && !PyTuple_CheckExact(object)) result.items->type = Py_TYPE(object);
                for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
                    result.items->values.push_back(argument(PySequence_Fast_GET_ITEM(object, i)));
            }
        } else {
            result.constant = arena_.keep(Ref<>::share(object));
        }
        return result;
    }

    bool is_symbol(PyObject* object) const {
        if (!with_ints_ || !PyLong_CheckExact(object)) return false;
        auto number = Number::of(object);
        return number && number->integer() >= 2 && number->integer() < 1 << 30;
    }

    graph::Node* node_of_int(PyObject* object) {
        auto* node = arena_.make<graph::Node>();
        node->result.kind = graph::Result::Kind::Constant;
        node->result.constant = arena_.keep(Ref<>::share(object));
        node->result.expression = numbers_->variable(new_slot(object), *Number::of(object), {2});
        return node;
    }

    bool has_nodes(PyObject* object) const {
        if (torch_room::is_tensor(object) || is_symbol(object)) return true;
        if (PyList_Check(object) || PyTuple_Check(object)) {
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
                if (has_nodes(PySequence_Fast_GET_ITEM(object, i))) return true;
        } else if (PyDict_Check(object)) {
            PyObject *key, *value;
            for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);)
                if (has_nodes(value)) return true;
        } else if (PySlice_Check(object)) {
            auto* slice = reinterpret_cast<PySliceObject*>(object);
            return has_nodes(slice->start) || has_nodes(slice->stop) || has_nodes(slice->step);
        }
        return false;
    }

    graph::Node* node_of(PyObject* tensor) {
        for (auto& [object, node] : nodes_)
            if (object == tensor) return node;
        auto* node = arena_.make<graph::Node>();
        node->result.kind = graph::Result::Kind::Tensor;
        auto* meta = arena_.make<TensorMeta>(torch_room::read_meta(tensor));
        if (numbers_ != nullptr) make_dynamic(*meta, new_slot(tensor));
        node->result.tensor = meta;
        nodes_.push_back({tensor, node});
        return node;
    }

    Source* new_slot(PyObject* object) {
        Ref<> name = checked(PyUnicode_FromFormat("a%d", slots_));
        return sources_.slot(slots_++, arena_.keep(std::move(name)), object);
    }

    void make_dynamic(TensorMeta& meta, Source* tensor) {
        if (meta.layout != torch_room::Layout{} || meta.dispatch_keys != 0) return;
        torch_room::DynamicSizes dynamic;
        for (std::size_t i = 0; i < meta.dimensions(); ++i) {
            if (meta.sizes[i] < 2) continue;
            Source* source = sources_.child(tensor, Access::Size, nullptr, static_cast<int>(i), nullptr);
            const Number size = Number::of_int(meta.sizes[i].value());
            meta.sizes[i] = Dim::of(numbers_->variable(source, size, Range{2, Range::kNoMost}));
        }
        shape::derive_strides(dynamic, meta);
    }

    Expressions* numbers_;
    bool with_ints_;
    std::shared_ptr<shape::Store> dynamic_answers_ = std::make_shared<shape::Store>();
    Arena arena_;
    Provenance sources_{arena_};
    int slots_ = 0;
    shape::Question question_;
    std::vector<graph::Argument> arguments_;
    std::vector<graph::KeywordArgument> keywords_;
    std::vector<std::pair<PyObject*, graph::Node*>> nodes_;
};

Ref<> text(const std::string& string) {
    return checked(PyUnicode_FromStringAndSize(string.data(), static_cast<Py_ssize_t>(string.size())));
}

/// An int, or the text of an expression.
Ref<> described(Dim dim) {
    return dim.is_constant() ? checked(PyLong_FromLongLong(dim.value())) : text(print(dim));
}

Ref<> dims_tuple(const torch_room::Dims& dims) {
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (std::size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), described(dims[i]).release());
    return tuple;
}

Ref<> describe(const TensorMeta& meta) {
    Ref<> sizes = dims_tuple(meta.sizes), strides = dims_tuple(meta.strides);
    Ref<> device = torch_room::device_object(meta.device), offset = described(meta.storage_offset);
    return checked(Py_BuildValue(
        "{s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:K,s:O,s:O}", "size", sizes.get(), "stride", strides.get(), "storage_offset",
        offset.get(), "dtype", torch_room::dtype_object(meta.dtype).get(), "device", device.get(), "layout",
        torch_room::layout_object(meta.layout).get(), "requires_grad", meta.requires_grad ? Py_True : Py_False,
        "is_leaf", meta.is_leaf ? Py_True : Py_False, "traits", static_cast<unsigned long long>(meta.dispatch_keys),
        "wrapped_number", meta.is_wrapped_number ? Py_True : Py_False, "class",
        reinterpret_cast<PyObject*>(meta.python_class)));
}

Ref<> describe(const graph::Result& result) {
    using Kind = graph::Result::Kind;
    switch (result.kind) {
        case Kind::Tensor: {
            Ref<> meta = describe(*result.tensor);
            return checked(Py_BuildValue("(sOi)", "tensor", meta.get(), result.same_as_argument));
        }
        case Kind::Constant:
            return checked(Py_BuildValue("(sO)", "constant", result.constant));
        case Kind::Tuple:
        case Kind::List: {
            Ref<> items = checked(PyList_New(0));
            for (const auto& item : result.items) checked(PyList_Append(items.get(), describe(item).get()));
            auto* type = result.type == nullptr ? Py_None : reinterpret_cast<PyObject*>(result.type);
            return checked(Py_BuildValue("(sOO)", result.kind == Kind::Tuple ? "tuple" : "list", items.get(), type));
        }
        case Kind::None:
            break;
    }
    return checked(Py_BuildValue("(s)", "none"));
}

Ref<> describe(const shape::Answer& answer) {
    const char* statuses[] = {"ok", "data-dependent", "unsupported"};
    Ref<> result = describe(answer.result);
    Ref<> written = checked(PyList_New(0));
    for (int index : answer.written) checked(PyList_Append(written.get(), checked(PyLong_FromLong(index)).get()));
    Ref<> changed = checked(PyDict_New());
    for (const auto& change : answer.changed_metadata)
        checked(PyDict_SetItem(changed.get(), checked(PyLong_FromLong(change.argument)).get(),
                               describe(*change.meta).get()));
    Ref<> printed = text(shape::print(answer));
    Ref<> reason = text(answer.reason);
    Ref<> views = checked(PyList_New(0));
    for (int base : answer.views_of) checked(PyList_Append(views.get(), checked(PyLong_FromLong(base)).get()));
    return checked(Py_BuildValue(
        "{s:s,s:O,s:O,s:O,s:i,s:O,s:O,s:O,s:O,s:O}", "status", statuses[static_cast<int>(answer.status)], "result",
        result.get(), "written", written.get(), "changed", changed.get(), "view_of", answer.view_of, "views_of",
        views.get(), "random", answer.random ? Py_True : Py_False, "side_effect",
        answer.side_effect ? Py_True : Py_False, "reason", reason.get(), "text", printed.get()));
}

shape::Way way_of(const char* name) {
    std::string_view way(name);
    if (way == "any") return shape::Way::Any;
    if (way == "rule") return shape::Way::RuleOnly;
    if (way == "fallback") return shape::Way::FallbackOnly;
    PyErr_Format(PyExc_ValueError, "way is any, rule or fallback, not %s", name);
    throw PythonError();
}

PyObject* shape_infer(PyObject*, PyObject* arguments) {
    PyObject *target, *args, *kwargs = nullptr;
    const char* way = "any";
    if (!PyArg_ParseTuple(arguments, "OO!|O!s", &target, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &way))
        return nullptr;
    return at_boundary([&] {
        CallAsQuestion call(target, args, kwargs);
        const shape::Answer* answer = shape::infer_by(call.arena(), call.question(), way_of(way));
        return answer == nullptr ? Ref<>::share(Py_None) : describe(*answer);
    });
}

/// Relations between symbols, for `relations_hold`.
using Conditions = std::vector<Condition>;
constexpr const char* kConditions = "stator.Conditions";

Ref<> as_capsule(const Expressions& numbers) {
    auto conditions = std::make_unique<Conditions>();
    for (const Expression* relation : numbers.relations()) conditions->emplace_back(terms_of(*relation));
    auto release = [](PyObject* capsule) {
        delete static_cast<Conditions*>(PyCapsule_GetPointer(capsule, kConditions));
    };
    Ref<> capsule = checked(PyCapsule_New(conditions.get(), kConditions, release));
    conditions.release();
    return capsule;
}

PyObject* relations_hold(PyObject*, PyObject* arguments) {
    PyObject *capsule, *sizes;
    if (!PyArg_ParseTuple(arguments, "OO!", &capsule, &PyList_Type, &sizes)) return nullptr;
    return at_boundary([&] {
        auto* conditions = static_cast<Conditions*>(PyCapsule_GetPointer(capsule, kConditions));
        if (conditions == nullptr) throw PythonError();
        auto read_int = [&](const Term& term) -> std::optional<std::int64_t> {
            return PyLong_AsLongLong(PyList_GET_ITEM(sizes, static_cast<Py_ssize_t>(term.symbol)));
        };
        auto read = [&](const Term& term) { return std::optional(Number::of_int(*read_int(term))); };
        auto holds = [&](const Condition& condition) {
            if (condition.is_of_ints) return evaluate_ints(condition.terms, read_int) == 1;
            return evaluate(condition.terms, read) == Number::of_int(1);
        };
        return Ref<>::share(std::ranges::all_of(*conditions, holds) ? Py_True : Py_False);
    });
}

/// The answer where the sizes of all tensors, and perhaps int arguments, are symbols: (answer, metadata of the tensors,
/// hints of the symbols, relations as Python expressions, relations), or None.
PyObject* shape_infer_dynamic(PyObject*, PyObject* arguments) {
    PyObject *target, *args, *kwargs = nullptr;
    int with_ints = 0;
    const char* way = "rule";
    if (!PyArg_ParseTuple(arguments, "OO!|O!ps", &target, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &with_ints,
                          &way))
        return nullptr;
    return at_boundary([&] {
        Arena arena;
        Expressions numbers(arena);
        CallAsQuestion call(target, args, kwargs, &numbers, with_ints != 0);
        const shape::Answer* answer = shape::infer_by(call.arena(), call.question(), way_of(way));
        if (answer == nullptr) return Ref<>::share(Py_None);
        Ref<> metas = checked(PyList_New(0)), hints = checked(PyList_New(0)), relations = checked(PyList_New(0));
        for (const TensorMeta* meta : call.metas()) checked(PyList_Append(metas.get(), describe(*meta).get()));
        for (const Expression* symbol : numbers.variables()) {
            const bool is_size = symbol->source->access == Access::Size;
            checked(PyList_Append(
                hints.get(),
                checked(Py_BuildValue("(NO)", symbol->hint.object().release(), is_size ? Py_True : Py_False)).get()));
        }
        for (const Expression* relation : numbers.relations())
            checked(PyList_Append(relations.get(), text(print_by_symbols(*relation)).get()));
        return checked(Py_BuildValue("(OOOON)", describe(*answer).get(), metas.get(), hints.get(), relations.get(),
                                     as_capsule(numbers).release()));
    });
}

/// Best nanoseconds for one inference, of `rounds` rounds of `repeats` each.
PyObject* shape_time(PyObject*, PyObject* arguments) {
    PyObject *target, *args, *kwargs = nullptr;
    const char* way = "any";
    int repeats = 100, rounds = 5;
    if (!PyArg_ParseTuple(arguments, "OO!|O!sii", &target, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &way, &repeats,
                          &rounds))
        return nullptr;
    return at_boundary([&] {
        CallAsQuestion call(target, args, kwargs);
        double best = -1;
        for (int round = 0; round < rounds; ++round) {
            Arena arena;
            auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < repeats; ++i)
                if (shape::infer_by(arena, call.question(), way_of(way)) == nullptr) return Ref<>::share(Py_None);
            std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
            if (best < 0 || spent.count() / repeats < best) best = spent.count() / repeats;
        }
        return checked(PyFloat_FromDouble(best));
    });
}

PyObject* shape_has_rule(PyObject*, PyObject* target) {
    return at_boundary([&] {
        auto kind = PyUnicode_Check(target) ? graph::NodeKind::Method : graph::NodeKind::Function;
        return Ref<>::share(shape::has_rule(kind, target) ? Py_True : Py_False);
    });
}

PyObject* shape_forget(PyObject*, PyObject*) {
    shape::forget_answers();
    Py_RETURN_NONE;
}

PyObject* shape_counts(PyObject*, PyObject*) {
    const shape::Counts& counts = shape::counts();
    return Py_BuildValue("{s:K,s:K,s:K,s:K}", "hits", counts.hits, "rules", counts.rules, "fallbacks", counts.fallbacks,
                         "uncached", counts.uncached);
}

template <class T>
Ref<> capsule_of(T value, const char* name) {
    auto owned = std::make_unique<T>(std::move(value));
    Ref<> capsule = checked(PyCapsule_New(owned.get(), name, [](PyObject* object) {
        delete static_cast<T*>(PyCapsule_GetPointer(object, PyCapsule_GetName(object)));
    }));
    (void)owned.release();
    return capsule;
}

template <class T>
T& in_capsule(PyObject* capsule, const char* name) {
    auto* pointer = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
    if (pointer == nullptr) throw PythonError();
    return *pointer;
}

constexpr const char* kCheckName = "stator.TensorCheck";
constexpr const char* kStateName = "stator.GlobalState";

PyObject* tensor_meta(PyObject*, PyObject* tensor) {
    return at_boundary([&] {
        return describe(torch_room::is_fake(tensor) ? torch_room::read_fake_meta(tensor)
                                                    : torch_room::read_meta(tensor));
    });
}

PyObject* tensor_check(PyObject*, PyObject* tensor) {
    return at_boundary([&] { return capsule_of(torch_room::make_check(tensor), kCheckName); });
}

/// (matches, what differs, the check printed, ns for a match)
PyObject* tensor_matches(PyObject*, PyObject* arguments) {
    PyObject *capsule, *object;
    if (!PyArg_ParseTuple(arguments, "OO", &capsule, &object)) return nullptr;
    return at_boundary([&] {
        auto& check = in_capsule<torch_room::TensorCheck>(capsule, kCheckName);
        constexpr int repeats = 1000;
        int matched = 0;
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) matched += torch_room::matches(object, check);
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        Ref<> why = text(torch_room::explain_mismatch(object, check)), printed = text(torch_room::print(check));
        return checked(Py_BuildValue("(OOOd)", matched == repeats ? Py_True : Py_False, why.get(), printed.get(),
                                     spent.count() / repeats));
    });
}

PyObject* global_state(PyObject*, PyObject*) {
    return at_boundary([&] { return capsule_of(torch_room::snapshot_global_state(), kStateName); });
}

/// (matches, what differs, ns for a match)
PyObject* global_state_matches(PyObject*, PyObject* capsule) {
    return at_boundary([&] {
        auto& state = in_capsule<torch_room::GlobalState>(capsule, kStateName);
        constexpr int repeats = 1000;
        int matched = 0;
        auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) matched += torch_room::matches(state);
        std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
        Ref<> why = text(torch_room::explain_mismatch(state));
        return checked(
            Py_BuildValue("(OOd)", matched == repeats ? Py_True : Py_False, why.get(), spent.count() / repeats));
    });
}

/// Calls `function` under other modes: (function, grad, inference, autocast dtype of the CPU or None).
PyObject* with_modes(PyObject*, PyObject* arguments) {
    PyObject *function, *dtype = Py_None;
    int grad, inference;
    if (!PyArg_ParseTuple(arguments, "Opp|O", &function, &grad, &inference, &dtype)) return nullptr;
    return at_boundary([&] {
        torch_room::Modes modes = torch_room::current_modes();
        modes.grad = grad != 0;
        modes.inference = inference != 0;
        if (auto* cpu = modes.autocast_of({})) {
            cpu->enabled = dtype != Py_None;
            if (auto wanted = torch_room::as_dtype(dtype)) cpu->dtype = *wanted;
        }
        torch_room::WithModes with(modes);
        return checked(PyObject_CallNoArgs(function));
    });
}

PyObject* make_fake(PyObject*, PyObject* arguments) {
    PyObject *mode, *tensor;
    if (!PyArg_ParseTuple(arguments, "OO", &mode, &tensor)) return nullptr;
    return at_boundary([&] { return torch_room::make_fake(mode, torch_room::read_meta(tensor)); });
}

/// Best nanoseconds for one fake tensor.
PyObject* time_fake(PyObject*, PyObject* arguments) {
    PyObject *mode, *tensor;
    if (!PyArg_ParseTuple(arguments, "OO", &mode, &tensor)) return nullptr;
    return at_boundary([&] {
        TensorMeta meta = torch_room::read_meta(tensor);
        double best = 1e18;
        for (int round = 0; round < 5; ++round) {
            constexpr int repeats = 200;
            auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < repeats; ++i) torch_room::make_fake(mode, meta);
            std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
            best = std::min(best, spent.count() / repeats);
        }
        return checked(PyFloat_FromDouble(best));
    });
}

PyMethodDef kMethods[] = {
    {"shape_infer", shape_infer, METH_VARARGS,
     "shape_infer(target, args, kwargs={}, way='any'): the answer as a dict, or None."},
    {"shape_infer_dynamic", shape_infer_dynamic, METH_VARARGS,
     "shape_infer_dynamic(target, args, kwargs={}, with_ints=False, way='rule'): (answer, tensors, [(hint, whether it "
     "is "
     "a size)], texts of relations, relations) with sizes as symbols, or None."},
    {"relations_hold", relations_hold, METH_VARARGS,
     "relations_hold(relations, sizes): whether sizes satisfy such relations, as the guard program computes it."},
    {"shape_time", shape_time, METH_VARARGS,
     "shape_time(target, args, kwargs={}, way='any', repeats=100, rounds=5): ns."},
    {"shape_has_rule", shape_has_rule, METH_O, "Whether a callable or a method, by its name, has a rule."},
    {"shape_forget", shape_forget, METH_NOARGS, "Clears the cache."},
    {"shape_counts", shape_counts, METH_NOARGS, "How questions were answered."},
    {"tensor_meta", tensor_meta, METH_O, "The metadata of a tensor as a dict."},
    {"tensor_check", tensor_check, METH_O, "The guard on a tensor like this one."},
    {"tensor_matches", tensor_matches, METH_VARARGS,
     "tensor_matches(check, object): (matches, why not, check as text, ns)."},
    {"global_state", global_state, METH_NOARGS, "A snapshot of PyTorch's global state."},
    {"global_state_matches", global_state_matches, METH_O, "(matches, why not, ns)."},
    {"with_modes", with_modes, METH_VARARGS, "with_modes(function, grad, inference, autocast_dtype=None)."},
    {"make_fake", make_fake, METH_VARARGS, "make_fake(mode, tensor): a FakeTensor with the tensor's metadata."},
    {"time_fake", time_fake, METH_VARARGS, "time_fake(mode, tensor): ns for making one."},
    {}};

}  // namespace

bool bind_shape(PyObject* module) {
    return PyModule_AddFunctions(module, kMethods) == 0;
}

}  // namespace stator
