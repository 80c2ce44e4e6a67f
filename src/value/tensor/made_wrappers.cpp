#include "value/tensor/made_wrappers.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/fake.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/builtins/builtin.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/undoable.h"
#include "value/recorder.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, PyTypeObject* type, const std::string& reason) {
    PyErr_Clear();
    tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor of class " + type_name(type) + " is created, " + reason);
}

/// The tensor in the graph; null for anything else.
TensorValue* tensor_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    auto* object = cast<TensorObjectValue>(value);
    return object != nullptr ? object->tensor(tracer) : cast<TensorValue>(value);
}

/// The attribute as an instance that holds FakeTensors has it.
Ref<> as_fake(Tracer& tracer, const TensorObjectValue* wrapper, PyObject* name, Value* value) {
    if (TensorValue* tensor = tensor_of(tracer, value))
        return torch_room::make_fake(torch_room::fake_mode_of_thread(), *tensor->meta);
    Ref<> constant = value->as_constant(tracer);
    if (!constant) refuse(tracer, wrapper->class_, "whose attribute '" + std::string(utf8(name)) + "' is no constant");
    return constant;
}

Ref<> instance_of_fakes(Tracer& tracer, TensorObjectValue* wrapper) {
    Ref<> made = checked(PyObject_CallNoArgs(wrapper->maker));
    for (auto& [name, value] : wrapper->attributes)
        if (value != nullptr) checked(PyObject_SetAttr(made.get(), name, as_fake(tracer, wrapper, name, value).get()));
    return made;
}

Value* emit_node(Tracer& tracer, TensorObjectValue* wrapper) {
    static PyObject* const unflatten = imported("stator.wrappers", "Unflatten");
    Ref<> fake = instance_of_fakes(tracer, wrapper);
    Ref<> parts = torch_room::flattened(fake.get());
    PyObject* const names = PyTuple_GET_ITEM(parts.get(), 0);
    PyObject* const target = tracer.keep(
        checked(PyObject_CallFunctionObjArgs(unflatten, fake.get(), names, PyTuple_GET_ITEM(parts.get(), 1), nullptr)));
    Arguments inner;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
        Value* part = wrapper->own_attribute(tracer, PyTuple_GET_ITEM(names, i));
        TensorValue* tensor = part == nullptr ? nullptr : tensor_of(tracer, part);
        if (tensor == nullptr) refuse(tracer, wrapper->class_, "whose inner tensors are computed when they are read");
        inner.positional.push_back(tensor);
    }
    return tracer.recorder().emit_function(target, inner);
}

}  // namespace

Outcome make_wrapper(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const maker_of = imported("stator.wrappers", "maker");
    Value* first = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (first != nullptr) tracer.realize(first);
    auto* type = cast<ClassValue>(first);
    if (type == nullptr || !torch_room::is_wrapper_class(type->held))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch.Tensor._make_wrapper_subclass is called for a class without __tensor_flatten__");
    ConstantArguments constants;
    if (!constants.take(tracer, arguments)) refuse(tracer, type->held, "with sizes or settings that are not constants");
    Ref<> maker = constants.call(maker_of);
    Ref<> made = maker ? Ref<>::steal(PyObject_CallNoArgs(maker.get())) : Ref<>();
    if (!made) refuse(tracer, type->held, "which PyTorch refuses");
    if (torch_room::read_meta(made.get()).requires_grad) refuse(tracer, type->held, "which requires a gradient");
    auto* wrapper = tracer.make<TensorObjectValue>(type->held);
    wrapper->maker = tracer.keep(std::move(maker));
    return wrapper;
}

void make_node(Tracer& tracer, TensorObjectValue* wrapper) {
    if (wrapper->own_dict != nullptr) refuse(tracer, wrapper->class_, "whose __dict__ is read");
    TensorObjectValue* made = nullptr;
    try {
        made = cast<TensorObjectValue>(emit_node(tracer, wrapper));
    } catch (const PythonError&) {
        refuse(tracer, wrapper->class_, "whose __tensor_flatten__ raises an error or can't be guarded");
    }
    if (made == nullptr || made->class_ != wrapper->class_ || made->payload->meta->requires_grad)
        refuse(tracer, wrapper->class_, "for which __tensor_unflatten__ makes another tensor");
    set_undoably(tracer, wrapper->payload, made->payload);
}

Value* attribute_of_unfinished(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name) {
    torch_room::WithoutTorchFunctions without_torch_functions;
    Ref<> made = checked(PyObject_CallNoArgs(wrapper->maker));
    Ref<> held = Ref<>::steal(PyObject_GetAttr(made.get(), name));
    if (!held || !is_constant(held.get()))
        refuse(tracer, wrapper->class_, "and its attribute '" + std::string(utf8(name)) + "' is read");
    return tracer.fresh(std::move(held));
}

}  // namespace stator
