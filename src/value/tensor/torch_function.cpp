#include "value/tensor/torch_function.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/jagged.h"
#include "torch/known.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "value/builtins/builtin.h"
#include "value/builtins/registry.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/constructions.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/leaves.h"
#include "value/tensor/made_wrappers.h"
#include "value/tensor/stand_ins.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// The `__torch_function__` of an object; null if it is that of torch.Tensor or disabled.
Value* torch_function_of(Tracer& tracer, Value* value) {
    PyTypeObject* const type = value->type();
    static PyObject* const disabled = imported("torch._C", "_disabled_torch_function_impl");
    if (torch_room::is_jagged_class(type)) return nullptr;  // part of PyTorch: called when the graph runs
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(tracer, type, interned("__torch_function__"), &raw);
    if (raw == nullptr || raw == disabled) return nullptr;
    const bool is_method = has_method_torch_function(type);
    Value* const self = is_method ? value : nullptr;
    Outcome bound = bind_attribute(tracer, attribute, raw, self, type, interned("__torch_function__"));
    const bool is_usual =
        is_method || PyObject_TypeCheck(raw, &PyClassMethod_Type) || PyObject_TypeCheck(raw, &PyStaticMethod_Type);
    if (!is_usual || bound.is_pending())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "the __torch_function__ of class " + type_name(type) + " is not a method");
    if (bound.value()->object() == disabled) return nullptr;
    return bound.value();
}

bool is_sequence(const Value* value) {
    return value->kind == Kind::List || value->kind == Kind::Tuple;
}

/// Visits every argument, and the items of lists and tuples among them.
template <class Visit>
void for_each_operand(Tracer& tracer, const Arguments& arguments, Visit visit) {
    auto visit_one = [&](Value* value) {
        visit(value);
        if (!is_sequence(value)) return;
        tracer.realize(value);
        for (Value* item : static_cast<SequenceValue*>(value)->all(tracer)) visit(item);
    };
    for (Value* value : arguments.positional) visit_one(value);
    for (const Keyword& keyword : arguments.keywords) visit_one(keyword.value);
}

/// The same without installing guards.
bool may_be_tensor_object(const Value* value) {
    if (is_overriding(value)) return true;
    if (!is_sequence(value)) return false;
    const auto& items = static_cast<const SequenceValue*>(value)->items;
    if (std::ranges::any_of(items, [](Value* item) { return item != nullptr && is_overriding(item); })) return true;
    PyObject* real = value->realized ? nullptr : value->object();
    if (real == nullptr) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(real); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(real, i);
        if (!torch_room::is_plain_tensor(item) && defines_torch_function(Py_TYPE(item))) return true;
    }
    return false;
}

/// An operand whose `__torch_function__` is called: all are of one class. Null if there is none.
Value* operand_with_torch_function(Tracer& tracer, const Arguments& arguments) {
    Value* found = nullptr;
    for_each_operand(tracer, arguments, [&](Value* value) {
        if (!has_active_torch_function(tracer, value)) return;
        if (found != nullptr && found->type() != value->type())
            tracer.break_graph(BreakKind::UnsupportedTensor, "tensors of the classes " + type_name(found->type()) +
                                                                 " and " + type_name(value->type()) +
                                                                 " are arguments of one operation");
        if (found == nullptr) found = value;
    });
    return found;
}

/// A call that C code makes. `is_enabled`: whether `__torch_function__` is enabled in it.
Task call_from_c(Tracer& tracer, Value* callee, Arguments arguments, bool is_enabled, bool is_inlined = false) {
    const bool was_enabled = tracer.modes().torch_functions_enabled();
    tracer.modes().begin_torch_function();
    tracer.modes().enable_torch_functions(is_enabled);
    Value* result = nullptr;
    try {
        if (is_inlined)
            result = co_await tracer.push_call(static_cast<FunctionValue*>(callee), arguments);
        else
            result = co_await operations::call(tracer, callee, arguments);
    } catch (const Raised&) {
        tracer.modes().end_torch_function(was_enabled);
        throw;
    }
    tracer.modes().end_torch_function(was_enabled);
    co_return result;
}

Task call_torch_function(Tracer& tracer, Value* torch_function, Arguments arguments) {
    Value* result =
        co_await tracer.start(call_from_c(tracer, torch_function, std::move(arguments), /*is_enabled=*/true));
    if (result->object() == Py_NotImplemented)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "every __torch_function__ returns NotImplemented for an operation");
    co_return result;
}

/// Calls the `__torch_function__` of the operand, or of another one of its class; nothing if PyTorch does not call it.
std::optional<Outcome> call_torch_function_of(Tracer& tracer, Value* operand, PyObject* function,
                                              const Arguments& arguments) {
    PyTypeObject* const type = operand->type();
    static PyObject* const handed = imported("stator.torch_functions", "handed");
    StandIns stand_ins(tracer);
    const StandIns::Call on_stand_ins = stand_ins.call_with(arguments);
    Ref<> call = Ref<>::steal(PyObject_CallFunctionObjArgs(handed, function, on_stand_ins.positional.get(),
                                                           on_stand_ins.keywords.get(), nullptr));
    if (!call) {
        PyErr_Clear();
        tracer.break_graph(BreakKind::OperationFails,
                           "PyTorch rejects the arguments of an operation on a tensor of class " + type_name(type));
    }
    if (call.get() == Py_None) return std::nullopt;
    // (PyTorch looks at the arguments in the order of the signature.)
    Ref<> owner = checked(PyObject_GetAttrString(call.get(), "owner"));
    if (owner.get() != Py_None) operand = stand_ins.value_of(owner.get());
    Value* types = stator::make_tuple(tracer, {tracer.constant(reinterpret_cast<PyObject*>(type))});
    Arguments passed = Arguments::of(stand_ins.passed(call, types));
    return tracer.start(call_torch_function(tracer, torch_function_of(tracer, operand), std::move(passed)));
}

Value* without_object(Tracer& tracer, Value* value) {
    if (auto* tensor = cast<TensorObjectValue>(value)) return tensor->tensor(tracer);
    if (!is_sequence(value)) return value;
    std::vector<Value*> items = static_cast<SequenceValue*>(value)->items;
    if (std::ranges::none_of(items, [](Value* item) { return item != nullptr && item->kind == Kind::TensorObject; }))
        return value;
    // The new list is used as an argument of a node only.
    items = static_cast<SequenceValue*>(value)->all(tracer);
    for (Value*& item : items)
        if (item->kind == Kind::TensorObject) item = without_object(tracer, item);
    if (value->kind == Kind::List) return make_list(tracer, std::move(items));
    return stator::make_tuple(tracer, std::move(items));
}

Arguments without_objects(Tracer& tracer, const Arguments& arguments) {
    Arguments plain = arguments;
    for (Value*& value : plain.positional) value = without_object(tracer, value);
    for (Keyword& keyword : plain.keywords) keyword.value = without_object(tracer, keyword.value);
    return plain;
}

/// The operator of a plain tensor, by the name of its special method; null for any other method.
std::optional<Outcome> apply_operator(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    if (Py_TYPE(function) != &PyWrapperDescr_Type && Py_TYPE(function) != &PyMethodDescr_Type) return std::nullopt;
    std::string_view name = utf8(reinterpret_cast<PyDescrObject*>(function)->d_name);
    const std::vector<Value*>& given = arguments.positional;
    if (name == "__getitem__" && given.size() == 2) return operations::get_item(tracer, given[0], given[1]);
    if (name == "__setitem__" && given.size() == 3) return operations::set_item(tracer, given[0], given[1], given[2]);
    return std::nullopt;
}

/// The descriptor whose bound `__get__` this is; null for anything else.
PyGetSetDescrObject* descriptor_of_getter(PyObject* getter) {
    if (Py_TYPE(getter) != cpython::method_wrapper_class()) return nullptr;
    Ref<> name = checked(PyObject_GetAttrString(getter, "__name__"));
    Ref<> self = checked(PyObject_GetAttrString(getter, "__self__"));
    if (PyUnicode_CompareWithASCIIString(name.get(), "__get__") != 0 || Py_TYPE(self.get()) != &PyGetSetDescr_Type)
        return nullptr;
    return reinterpret_cast<PyGetSetDescrObject*>(self.get());  // held by the getter
}

}  // namespace

bool has_active_torch_function(Tracer& tracer, Value* value) {
    if (!is_overriding(value) || !tracer.modes().torch_functions_enabled()) return false;
    tracer.realize(value);
    return torch_function_of(tracer, value) != nullptr;
}

bool has_method_torch_function(PyTypeObject* type) {
    PyObject* const held = cpython::lookup_in_mro(type, interned("__torch_function__"));
    return held != nullptr && PyFunction_Check(held);
}

bool has_tensor_object(const Arguments& arguments) {
    return std::ranges::any_of(arguments.positional, may_be_tensor_object) ||
           std::ranges::any_of(arguments.keywords, may_be_tensor_object, &Keyword::value);
}

Value* with_its_object(Value* result, const Arguments& arguments) {
    for (Value* value : arguments.positional)
        if (auto* tensor = cast<TensorObjectValue>(value); tensor != nullptr && tensor->payload == result)
            return tensor;
    for (const Keyword& keyword : arguments.keywords)
        if (auto* tensor = cast<TensorObjectValue>(keyword.value); tensor != nullptr && tensor->payload == result)
            return tensor;
    return result;
}

Outcome call_on_tensor_objects(Tracer& tracer, Value* function, const Arguments& arguments) {
    if (Value* operand = operand_with_torch_function(tracer, arguments); operand != nullptr)
        if (auto answer = call_torch_function_of(tracer, operand, function->object(), arguments)) return *answer;
    Arguments plain = without_objects(tracer, arguments);
    auto by_operator = apply_operator(tracer, function->object(), plain);
    Outcome answer = by_operator ? *by_operator : function->call(tracer, plain);
    return answer.is_pending() ? answer : with_its_object(answer.value(), arguments);
}

Outcome call_python_on_tensor_objects(Tracer& tracer, FunctionValue* function, const Arguments& arguments) {
    if (operand_with_torch_function(tracer, arguments) != nullptr)
        return tracer.start(call_from_c(tracer, function, arguments, /*is_enabled=*/true, /*is_inlined=*/true));
    Outcome answer = function->call(tracer, without_objects(tracer, arguments));
    return answer.is_pending() ? answer : with_its_object(answer.value(), arguments);
}

Outcome attribute_of_tensor_object(Tracer& tracer, TensorObjectValue* tensor, Borrowed<> name) {
    static PyObject* const get_attribute = imported("builtins", "getattr");
    if (has_active_torch_function(tracer, tensor))
        if (auto answer = call_torch_function_of(tracer, tensor, get_attribute,
                                                 Arguments::of(static_cast<Value*>(tensor), tracer.constant(name))))
            return *answer;
    if (tensor->is_unfinished()) return attribute_of_unfinished(tracer, tensor, name);
    return tensor->tensor(tracer)->get_attribute(tracer, name);
}

std::optional<Outcome> read_by_getter(Tracer& tracer, PyObject* getter, const Arguments& arguments) {
    PyGetSetDescrObject* descriptor = descriptor_of_getter(getter);
    if (descriptor == nullptr || arguments.positional.empty() || !arguments.keywords.empty()) return std::nullopt;
    Value* tensor = without_object(tracer, arguments.positional[0]);
    if (tensor->kind != Kind::Tensor ||
        !PyType_IsSubtype(torch_room::known().tensor_class, descriptor->d_common.d_type))
        return std::nullopt;
    if (has_active_torch_function(tracer, arguments.positional[0])) return std::nullopt;
    return operations::get_attribute(tracer, tensor, descriptor->d_common.d_name);
}

Value* method_calling_torch_function(Tracer& tracer, Value* self, Value* other, const char* name) {
    if (self->kind != Kind::Tensor || !has_active_torch_function(tracer, other)) return nullptr;
    PyObject* raw = nullptr;
    Value* method = class_attribute(tracer, self->type(), interned(name), &raw);
    return raw == nullptr || raw == Py_None ? nullptr : method;
}

// --- handlers
// ----------------------------------------------------------------------------------------------------------

namespace {

/// `torch._C.DisableTorchFunctionSubclass()`: disables `__torch_function__` inside of it; `DisableTorchFunction()` that
/// of modes too.
struct DisableValue final : Value {
    explicit DisableValue(PyTypeObject* type) : Value(Kind::Context), class_(type) {}

    PyTypeObject* const class_;
    std::optional<bool> was_enabled;  // while it is entered

    PyTypeObject* type() const override { return class_; }
    int rebuild(PlanBuilder& plan) override {
        return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(type()), std::vector<Value*>{});
    }
    std::string print() const override { return "no __torch_function__"; }

    static PyTypeObject* of_subclasses() {
        static auto* const held = imported_class("torch._C", "DisableTorchFunctionSubclass");
        return held;
    }
    static PyTypeObject* of_all() {
        static auto* const held = imported_class("torch._C", "DisableTorchFunction");
        return held;
    }
};

template <PyTypeObject* (*kType)()>
Outcome make_disabled(Tracer& tracer, const Arguments&) {
    return tracer.make<DisableValue>(kType());
}

DisableValue* disabled_of(const Arguments& arguments) {
    return arguments.positional.at(0)->kind == Kind::Context ? static_cast<DisableValue*>(arguments.positional[0])
                                                             : nullptr;
}

Outcome enter_disabled(Tracer& tracer, const Arguments& arguments) {
    DisableValue* context = disabled_of(arguments);
    if (context == nullptr || context->was_enabled)
        tracer.break_graph(BreakKind::UnsupportedTensor, "the program disables __torch_function__");
    if (context->class_ == DisableValue::of_all())
        expect_no_function_modes(tracer, "torch._C.DisableTorchFunction() is entered");
    // The graph has no part in it; if it breaks inside, the plan enters the real context.
    PyObject* enter =
        tracer.keep(checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(context->class_), "__enter__")));
    tracer.modes().push_context(
        {context, enter, nullptr, nullptr, tracer.modes().current(), TorchModes::Restores::Nothing});
    set_undoably(tracer, context->was_enabled, std::optional(tracer.modes().torch_functions_enabled()));
    tracer.modes().enable_torch_functions(false);
    return context;
}

Outcome exit_disabled(Tracer& tracer, const Arguments& arguments) {
    DisableValue* context = disabled_of(arguments);
    if (context == nullptr || !context->was_enabled)
        tracer.break_graph(BreakKind::UnsupportedTensor, "the program enables __torch_function__ again");
    tracer.modes().pop_context(context);
    tracer.modes().enable_torch_functions(*context->was_enabled);
    set_undoably(tracer, context->was_enabled, std::optional<bool>());
    return tracer.none();
}

Outcome is_torch_function_enabled(Tracer& tracer, const Arguments&) {
    return tracer.boolean(tracer.modes().torch_functions_enabled());
}

/// `torch._C._disabled_torch_function_impl(func, types, args, kwargs)`.
Task call_disabled(Tracer& tracer, Value* function, Value* given, Value* named) {
    auto* positional = static_cast<SequenceValue*>(co_await operations::collect(tracer, given));
    Arguments arguments;
    arguments.positional = positional->all(tracer);
    auto* keywords = named->object() == Py_None ? nullptr : cast<DictValue>(named);
    if (named->object() != Py_None && (keywords == nullptr || keywords->length(tracer) != 0))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch.Tensor.__torch_function__ is called with keyword arguments");
    co_return co_await tracer.start(call_from_c(tracer, function, std::move(arguments), /*is_enabled=*/false));
}

Outcome disabled_torch_function(Tracer& tracer, const Arguments& arguments) {
    const std::vector<Value*>& given = arguments.positional;
    if (given.size() < 3 || given.size() > 4 || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch.Tensor.__torch_function__ is called with unexpected arguments");
    for (Value* value : given) tracer.realize(value);
    return tracer.start(call_disabled(tracer, given[0], given[2], given.size() == 4 ? given[3] : tracer.none()));
}

/// A tensor as an instance of a class, which may be `torch.Tensor` itself.
Value* as_object_of(Tracer& tracer, TensorValue* tensor, ClassValue* type) {
    if (type->held == torch_room::known().tensor_class) return tensor;
    if (!is_followed_class(type->held))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor is converted to class " + type_name(type->held) +
                                                             ", which Stator does not support");
    auto* object = tracer.make<TensorObjectValue>(type->held);
    object->payload = tensor;
    return object;
}

ClassValue* tensor_class_of(Tracer& tracer, Value* value) {
    if (value != nullptr) tracer.realize(value);
    auto* type = cast<ClassValue>(value);
    return type != nullptr && PyType_IsSubtype(type->held, torch_room::known().tensor_class) ? type : nullptr;
}

/// A view of a tensor, as an instance of another class.
Outcome as_subclass(Tracer& tracer, const Arguments& arguments) {
    ClassValue* type =
        tensor_class_of(tracer, arguments.positional.size() == 2 ? arguments.positional[1] : arguments.keyword("cls"));
    Value* self = arguments.positional.empty() ? nullptr : without_object(tracer, arguments.positional[0]);
    if (self != nullptr) tracer.realize(self);
    auto* tensor = cast<TensorValue>(self);
    if (tensor == nullptr || type == nullptr || arguments.count() != 2)
        tracer.break_graph(BreakKind::UnsupportedTensor, "as_subclass is called with an object that is not a class");
    if (type->held != torch_room::known().tensor_class) return as_object_of(tracer, tensor, type);
    static PyObject* const alias = imported("torch", "ops.aten.alias.default");
    return tracer.recorder().emit_function(alias, Arguments::of(self));
}

/// `torch.Tensor._make_subclass(cls, data, require_grad=False)`: detached.
Outcome make_subclass(Tracer& tracer, const Arguments& arguments) {
    const std::vector<Value*>& given = arguments.positional;
    ClassValue* type = given.empty() ? nullptr : tensor_class_of(tracer, given[0]);
    Value* data = given.size() < 2 ? nullptr : without_object(tracer, given[1]);
    for (Value* value : given) tracer.realize(value);
    if (type != nullptr && type->held == torch_room::parameter_class() && data != nullptr &&
        data->kind == Kind::Tensor && given.size() == 3 && given[2]->object() == Py_True && arguments.keywords.empty())
        return make_parameter(tracer, static_cast<TensorValue*>(data));
    bool is_usual = given.size() == 2 || (given.size() == 3 && given[2]->object() == Py_False);
    if (type == nullptr || data == nullptr || data->kind != Kind::Tensor || !arguments.keywords.empty() || !is_usual)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch.Tensor._make_subclass is called with require_grad or unexpected arguments");
    Value* detached = tracer.recorder().emit_method(interned("detach"), Arguments::of(data));
    return as_object_of(tracer, static_cast<TensorValue*>(detached), type);
}

/// `cls(tensor)`: a view, as an instance of the class.
Outcome new_tensor(Tracer& tracer, const Arguments& arguments) {
    const std::vector<Value*>& given = arguments.positional;
    ClassValue* type = given.empty() ? nullptr : tensor_class_of(tracer, given[0]);
    if (given.size() == 2) tracer.realize(given[1]);
    if (type != nullptr && type->held == torch_room::known().tensor_class && given.size() == 2 &&
        as_sequence(given[1]) != nullptr && arguments.keywords.empty())
        return tensor_of_default_class(tracer, Arguments::of(given[1]));
    if (type == nullptr || type->held == torch_room::known().tensor_class || given.size() != 2 ||
        given[1]->kind != Kind::Tensor || !arguments.keywords.empty())
        tracer.break_graph(BreakKind::UnknownFunction, "a tensor is created by calling its class");
    return as_object_of(tracer, static_cast<TensorValue*>(given[1]), type);
}

}  // namespace

bool is_followed_class(PyTypeObject* type) {
    // A class with `__torch_dispatch__` customizes operations below the level that is traced.
    static PyObject* const none =
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::known().tensor_class), "__torch_dispatch__");
    if (!PyType_IsSubtype(type, torch_room::known().tensor_class)) return false;
    Ref<> dispatch = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_dispatch__"));
    return dispatch.get() == none && type->tp_dictoffset == torch_room::known().tensor_class->tp_dictoffset &&
           type->tp_basicsize == torch_room::known().tensor_class->tp_basicsize;
}

void register_torch_functions(Handlers& handlers) {
    handlers.add("torch._C", "DisableTorchFunctionSubclass", make_disabled<DisableValue::of_subclasses>);
    handlers.add("torch._C", "DisableTorchFunction", make_disabled<DisableValue::of_all>);
    for (PyTypeObject* type : {DisableValue::of_subclasses(), DisableValue::of_all()}) {
        handlers.add_method(type, "__enter__", enter_disabled);
        handlers.add_method(type, "__exit__", exit_disabled);
    }
    handlers.add("torch._C", "_is_torch_function_enabled", is_torch_function_enabled);
    handlers.add("torch._C", "_disabled_torch_function_impl", disabled_torch_function);
    auto add = [&](const char* name, Handler handler) {
        Ref<> method =
            checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::known().tensor_class), name));
        handlers.add(method.get(), handler);
    };
    add("as_subclass", as_subclass);
    add("_make_subclass", make_subclass);
    add("_make_wrapper_subclass", make_wrapper);
    add("__new__", new_tensor);
}

}  // namespace stator
