/// A node can only be given tensors, numbers and containers of these. So an argument of another class is taken apart:
/// its tensors are arguments of the node, and a recipe says how `stator.marked_calls.MarkedCall`, the target of the
/// node, makes an equal object of them.
#include "value/tensor/marked_functions.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "torch/leaf_functions.h"
#include "value/builtins/builtin.h"
#include "value/kinds/dict.h"
#include "value/kinds/frozen_dataclass.h"
#include "value/kinds/function.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// One call on its way into the graph.
struct MarkedCall {
    PyObject* function;
    bool is_nonstrict;  // or a leaf function: modules and registered classes may be arguments
    std::vector<Value*> leaves = {};

    std::string name() const {
        Ref<> name = Ref<>::steal(PyObject_GetAttrString(function, "__qualname__"));
        PyErr_Clear();
        return name && PyUnicode_Check(name.get()) ? std::string(utf8(name.get())) : short_repr(function);
    }
};

/// What a value is taken apart into.
struct Parts {
    const char* kind;  // of the recipe
    Ref<> what;        // what the recipe needs beside the parts
    std::vector<Value*> items;
};

bool is_leaf_argument(const Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Scalar:
        case Kind::Tensor:
        case Kind::TensorObject:
        case Kind::Class:
        case Kind::Builtin:
        case Kind::Slice:
            return true;
        default:
            return false;
    }
}

/// Whether a node can be given the value as it is.
bool is_plain_argument(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Constant) tracer.realize(value);
    if (is_leaf_argument(value)) return true;
    auto is_plain = [&](Value* part) { return is_plain_argument(tracer, part); };
    if (SequenceValue* sequence = as_sequence(value)) return std::ranges::all_of(sequence->all(tracer), is_plain);
    if (auto* dict = cast<DictValue>(value))
        return std::ranges::all_of(dict->entries(tracer), is_plain, &Table::Entry::value);
    return false;
}

[[noreturn]] void refuse(Tracer& tracer, const MarkedCall& call, const std::string& why) {
    tracer.break_graph(BreakKind::UnknownObject, why + " (" + call.name() + ")");
}

[[noreturn]] void refuse_argument(Tracer& tracer, const MarkedCall& call, const Value* value) {
    if (!call.is_nonstrict)
        refuse(tracer, call,
               "an object of type " + type_name(value->type()) + " is an argument of a function marked allow_in_graph");
    refuse(tracer, call,
           "Invalid input type for nonstrict_trace-ed function: class " + type_name(value->type()) +
               " is not registered with torch.utils._pytree");
}

// --- taking apart ----------------------------------------------------------------------------------------------------

Parts parts_of_sequence(Tracer& tracer, SequenceValue* sequence) {
    return {"sequence", Ref<>::share(reinterpret_cast<PyObject*>(sequence->class_)), sequence->all(tracer)};
}

Parts parts_of_dict(Tracer& tracer, const MarkedCall& call, DictValue* dict) {
    Ref<> keys = checked(PyList_New(0));
    std::vector<Value*> items;
    for (Table::Entry* entry : dict->entries(tracer)) {
        Ref<> key = entry->key->as_constant(tracer);
        if (!key) refuse(tracer, call, "a dict with keys that are not constants is an argument");
        checked(PyList_Append(keys.get(), key.get()));
        items.push_back(entry->value);
    }
    Ref<> what = checked(PyTuple_Pack(2, reinterpret_cast<PyObject*>(dict->class_), keys.get()));
    return {"dict", std::move(what), std::move(items)};
}

/// How `torch.utils._pytree` takes objects of this class apart; null if the class is not registered. Guarded.
PyObject* pytree_node_of(Tracer& tracer, PyTypeObject* type) {
    static PyObject* const registry = imported("torch.utils._pytree", "SUPPORTED_NODES");
    auto* key = reinterpret_cast<PyObject*>(type);
    PyObject* node = PyDict_GetItemWithError(registry, key);
    bool is_new = false;
    Source* place =
        tracer.provenance().child(tracer.provenance().pinned(registry), Access::DictItem, key, 0, node, &is_new);
    if (is_new) tracer.guard({node == nullptr ? GuardKind::Absent : GuardKind::Identity, place, node});
    return node;
}

/// The names of a dataclass's fields, if its instances have no other attributes.
Ref<> fields_of(Tracer& tracer, const MarkedCall& call, ObjectValue* object) {
    PyObject* fields = cpython::lookup_in_mro(object->class_, interned("__dataclass_fields__"), nullptr);
    if (fields == nullptr || !PyDict_Check(fields)) refuse_argument(tracer, call, object);
    Ref<> names = checked(PyDict_Keys(fields));
    auto is_field = [&](PyObject* name) { return PyDict_Contains(fields, name) == 1; };
    if (Source* dict = instance_dict_source(tracer, object)) {
        tracer.guard({GuardKind::Length, dict, nullptr, PyDict_GET_SIZE(dict->object)});
        Ref<> held = checked(PyDict_Keys(dict->object));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held.get()); ++i)
            if (!is_field(PyList_GET_ITEM(held.get(), i))) refuse_argument(tracer, call, object);
    }
    for (auto& [name, value] : object->attributes)
        if (!is_field(name)) refuse_argument(tracer, call, object);
    if (object->own_dict != nullptr) refuse_argument(tracer, call, object);
    return names;
}

/// The parameters and buffers of a module by name, as the items of a list of pairs.
Task named_tensors(Tracer& tracer, Value* module, const char* method) {
    Value* walk = co_await operations::get_attribute(tracer, module, interned(method));
    Arguments arguments;
    arguments.keywords.push_back({interned("remove_duplicate"), tracer.boolean(false)});
    Value* pairs = co_await operations::call(tracer, walk, arguments);
    co_return co_await operations::collect(tracer, pairs);
}

/// A module is called with its own tensors in the graph. Whether it and its submodules are in training is guarded.
Task take_module_apart(Tracer& tracer, const MarkedCall& call, Value* module, Parts& parts) {
    if (module->source == nullptr || module->object() == nullptr)
        refuse(tracer, call, "a module that was created in the captured region is an argument");
    tracer.guard({GuardKind::Identity, module->source, module->object()});
    Ref<> names = checked(PyList_New(0));
    for (const char* method : {"named_parameters", "named_buffers"}) {
        auto* pairs = static_cast<SequenceValue*>(co_await tracer.start(named_tensors(tracer, module, method)));
        for (Value* pair : std::vector<Value*>(pairs->all(tracer))) {
            auto* named = cast<TupleValue>(pair);
            Ref<> name = named == nullptr ? Ref<>() : named->item(tracer, 0)->as_constant(tracer);
            if (!name) refuse(tracer, call, "a module whose tensors have no constant names is an argument");
            checked(PyList_Append(names.get(), name.get()));
            parts.items.push_back(named->item(tracer, 1));
        }
    }
    Value* walk = co_await operations::call_method(tracer, module, "modules", {});
    auto* modules = static_cast<SequenceValue*>(co_await operations::collect(tracer, walk));
    for (Value* one : std::vector<Value*>(modules->all(tracer)))
        tracer.realize(co_await operations::get_attribute(tracer, one, interned("training")));
    parts.kind = "module";
    parts.what = checked(PyTuple_Pack(2, module->object(), names.get()));
    co_return module;
}

/// By the functions that the class is registered with. What they return beside the parts has to be a constant.
Task take_registered_apart(Tracer& tracer, const MarkedCall& call, PyObject* node, Value* object, Parts& parts) {
    PyObject* flatten = tracer.keep(checked(PyObject_GetAttrString(node, "flatten_fn")));
    Ref<> unflatten = checked(PyObject_GetAttrString(node, "unflatten_fn"));
    Value* flat = co_await operations::call(tracer, tracer.outside(tracer.provenance().pinned(flatten), flatten),
                                            Arguments::of(object));
    tracer.realize(flat);
    auto* pair = cast<TupleValue>(flat);
    if (pair == nullptr || pair->items.size() != 2)
        refuse(tracer, call, "the flatten function of class " + type_name(object->type()) + " returns no pair");
    Value* items = co_await operations::collect(tracer, pair->item(tracer, 0));
    Value* rest = pair->item(tracer, 1);
    tracer.realize(rest);
    Ref<> context = rest->as_constant(tracer);
    if (!context)
        refuse(tracer, call,
               "Invalid use of pytree_flatten with nonstrict_trace-ed function: the context of class " +
                   type_name(object->type()) + " is not a constant");
    parts.kind = "registered";
    parts.what = checked(PyTuple_Pack(2, unflatten.get(), context.get()));
    parts.items = static_cast<SequenceValue*>(items)->all(tracer);
    co_return object;
}

Task take_dataclass_apart(Tracer& tracer, const MarkedCall& call, ObjectValue* object, Parts& parts) {
    Ref<> names = fields_of(tracer, call, object);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names.get()); ++i)
        parts.items.push_back(
            co_await operations::get_attribute(tracer, object, Borrowed<>(PyList_GET_ITEM(names.get(), i))));
    parts.kind = "attributes";
    parts.what = checked(PyTuple_Pack(2, reinterpret_cast<PyObject*>(object->class_), names.get()));
    co_return object;
}

/// Whether the class is registered with `torch._library.opaque_object.register_opaque_type`: "value" for objects that
/// stand for their contents, "reference" for those that stand for themselves; else nothing.
enum class Opaque : std::uint8_t { None, Value, Reference };

/// A function that had another name before PyTorch 2.15; null if there is neither.
PyObject* question_of(const char* name, const char* older_name) {
    Ref<> found = find_imported("torch._library.opaque_object", name);
    if (!found) found = find_imported("torch._library.opaque_object", older_name);
    return found.release();
}

Opaque opaqueness_of(PyTypeObject* type) {
    static PyObject* const is_value = question_of("is_opaque_constant_type", "is_opaque_value_type");
    static PyObject* const is_any = question_of("is_custom_class", "is_opaque_type");
    if (is_value == nullptr || is_any == nullptr) return Opaque::None;
    auto* cls = reinterpret_cast<PyObject*>(type);
    if (checked(PyObject_CallOneArg(is_any, cls)).get() != Py_True) return Opaque::None;
    return checked(PyObject_CallOneArg(is_value, cls)).get() == Py_True ? Opaque::Value : Opaque::Reference;
}

/// Whether the instances of a class have no state but their `__dict__`: neither of C nor in `__slots__`.
bool has_only_a_dict(PyTypeObject* type) {
    if (type->tp_new != PyBaseObject_Type.tp_new || type->tp_mro == nullptr) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
        PyObject* slots = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, interned("__slots__"));
        if (slots != nullptr && !(PyTuple_Check(slots) && PyTuple_GET_SIZE(slots) == 0)) return false;
    }
    return true;
}

/// An object that stands for its contents, which are the attributes of a plain Python object: an equal one is made.
Task take_opaque_value_apart(Tracer& tracer, const MarkedCall& call, ObjectValue* object, Parts& parts) {
    Source* dict = object->source == nullptr ? nullptr : instance_dict_source(tracer, object);
    if (dict == nullptr || !has_only_a_dict(object->class_) || !object->attributes.empty())
        refuse_argument(tracer, call, object);
    tracer.guard({GuardKind::Length, dict, nullptr, PyDict_GET_SIZE(dict->object)});
    PyObject* names = tracer.keep(checked(PyDict_Keys(dict->object)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i)
        parts.items.push_back(
            co_await operations::get_attribute(tracer, object, Borrowed<>(PyList_GET_ITEM(names, i))));
    parts.kind = "attributes";
    parts.what = checked(PyTuple_Pack(2, reinterpret_cast<PyObject*>(object->class_), names));
    co_return object;
}

/// An object that stands for itself is passed as it is.
Parts opaque_reference(Tracer& tracer, const MarkedCall& call, const ObjectValue* object) {
    if (object->source == nullptr || object->outside == nullptr)
        refuse(tracer, call,
               "An opaque object was created in the middle of the program. Create the object of class " +
                   type_name(object->type()) + " outside of the compiled function");
    tracer.guard({GuardKind::Identity, object->source, object->outside});
    return {"object", Ref<>::share(object->outside), {}};
}

Task take_apart(Tracer& tracer, const MarkedCall& call, Value* value, Parts& parts) {
    PyTypeObject* type = value->type();
    if (SequenceValue* sequence = as_sequence(value)) {
        parts = parts_of_sequence(tracer, sequence);
    } else if (auto* dict = cast<DictValue>(value)) {
        parts = parts_of_dict(tracer, call, dict);
    } else if (call.is_nonstrict && PyType_IsSubtype(type, torch_room::known().module_class)) {
        co_await tracer.start(take_module_apart(tracer, call, value, parts));
    } else if (const Opaque opaque =
                   call.is_nonstrict && value->kind == Kind::Object ? opaqueness_of(type) : Opaque::None;
               opaque != Opaque::None) {
        auto* object = static_cast<ObjectValue*>(value);
        if (opaque == Opaque::Reference)
            parts = opaque_reference(tracer, call, object);
        else
            co_await tracer.start(take_opaque_value_apart(tracer, call, object, parts));
    } else if (PyObject* node = call.is_nonstrict ? pytree_node_of(tracer, type) : nullptr) {
        co_await tracer.start(take_registered_apart(tracer, call, node, value, parts));
    } else if (value->kind == Kind::Object && is_frozen_dataclass(type)) {
        co_await tracer.start(take_dataclass_apart(tracer, call, static_cast<ObjectValue*>(value), parts));
    } else {
        refuse_argument(tracer, call, value);
    }
    co_return value;
}

// --- the call --------------------------------------------------------------------------------------------------------

/// Adds the tensors of a value to the arguments of the node. `recipe` receives how the value is made of them.
Task add_argument(Tracer& tracer, MarkedCall& call, Value* value, Ref<>& recipe) {
    if (value->kind != Kind::Constant) tracer.realize(value);
    if (is_leaf_argument(value)) {
        recipe = checked(Py_BuildValue("(sn())", "leaf", static_cast<Py_ssize_t>(call.leaves.size())));
        call.leaves.push_back(value);
        co_return value;
    }
    Parts parts{};
    co_await tracer.start(take_apart(tracer, call, value, parts));
    Ref<> recipes = checked(PyTuple_New(static_cast<Py_ssize_t>(parts.items.size())));
    for (std::size_t i = 0; i < parts.items.size(); ++i) {
        Ref<> part;
        co_await tracer.start(add_argument(tracer, call, parts.items[i], part));
        PyTuple_SET_ITEM(recipes.get(), static_cast<Py_ssize_t>(i), part.release());
    }
    recipe = checked(Py_BuildValue("(sOO)", parts.kind, parts.what.get(), recipes.get()));
    co_return value;
}

Task call_taken_apart(Tracer& tracer, MarkedCall call, Arguments given) {
    static PyObject* const target_class = imported("stator.marked_calls", "MarkedCall");
    static PyObject* const unflatten = imported("torch.utils._pytree", "tree_unflatten");
    auto* keywords = tracer.make<DictValue>();
    for (const Keyword& keyword : given.keywords)
        keywords->insert(tracer, tracer.constant(keyword.name), keyword.value);
    Ref<> positional_recipe, keyword_recipe;
    co_await tracer.start(add_argument(tracer, call, make_tuple(tracer, given.positional), positional_recipe));
    co_await tracer.start(add_argument(tracer, call, keywords, keyword_recipe));
    Ref<> made =
        checked(PyObject_CallFunctionObjArgs(target_class, call.function, positional_recipe.get(), keyword_recipe.get(),
                                             call.is_nonstrict ? Py_True : Py_False, nullptr));
    PyObject* target = tracer.keep(std::move(made));
    Value* result = tracer.recorder().emit_function(target, Arguments::of(call.leaves));
    // Known since the call on FakeTensors.
    PyObject* structure = tracer.keep(checked(PyObject_GetAttrString(target, "structure")));
    if (structure == Py_None) co_return result;
    Arguments parts = Arguments::of(result, tracer.outside(tracer.provenance().pinned(structure), structure));
    co_return co_await operations::call(tracer, tracer.constant(unflatten), parts);
}

/// The result of `nonstrict_trace(function)`.
struct NonstrictValue final : Value {
    NonstrictValue(PyObject* decorator, FunctionValue* function)
        : Value(Kind::Context), decorator(decorator), function(function) {}

    PyObject* decorator;
    FunctionValue* function;

    PyTypeObject* type() const override { return &PyFunction_Type; }
    Outcome call(Tracer& tracer, const Arguments& arguments) override {
        return tracer.start(call_taken_apart(tracer, {function->outside, true}, arguments));
    }
    int rebuild(PlanBuilder& plan) override { return rebuild_by_call(plan, this, decorator, {function}); }
    std::string print() const override { return "nonstrict_trace(" + function->print() + ")"; }
};

}  // namespace

Outcome call_in_graph(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    auto is_plain = [&](Value* value) { return is_plain_argument(tracer, value); };
    const bool is_nonstrict = torch_room::is_nonstrict(function) || torch_room::is_leaf_function(function);
    const bool can_be_given_as_it_is = std::ranges::all_of(arguments.positional, is_plain) &&
                                       std::ranges::all_of(arguments.keywords, is_plain, &Keyword::value);
    if (can_be_given_as_it_is && !is_nonstrict) return tracer.recorder().emit_function(function, arguments);
    return tracer.start(call_taken_apart(tracer, {function, is_nonstrict}, arguments));
}

Outcome mark_nonstrict(Tracer& tracer, PyObject* decorator, const Arguments& arguments) {
    Value* given = arguments.positional.empty() ? arguments.keyword("traceable_fn") : arguments.positional[0];
    if (given != nullptr) tracer.realize(given);
    auto* function = given != nullptr && arguments.count() == 1 ? cast<FunctionValue>(given) : nullptr;
    if (function == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "nonstrict_trace is called with something that is no function");
    if (function->outside == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "Applying `nonstrict_trace` to function <" + std::string(utf8(function->code->co_name)) +
                               ">; however, `nonstrict_trace` currently requires the function to be defined outside "
                               "`torch.compile` region.");
    if (function->source != nullptr) tracer.guard({GuardKind::Identity, function->source, function->outside});
    return tracer.make<NonstrictValue>(decorator, function);
}

}  // namespace stator
