#include "value/tensor/made_wrappers.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/fake.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/builtins/builtin.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/frozen_dataclass.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/recorder.h"
#include "value/tensor/dynamic_sizes.h"
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
    if (!constant) constant = copy_of_frozen(tracer, value);
    if (!constant) refuse(tracer, wrapper->class_, "whose attribute '" + std::string(utf8(name)) + "' is no constant");
    return constant;
}

/// A size or strides: a tuple of ints, of which some may be symbols. Nothing for anything else.
std::optional<Dims> dims_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    SequenceValue* sequence = as_sequence(value);
    if (sequence == nullptr) return std::nullopt;
    Dims dims;
    for (Value* item : sequence->all(tracer)) {
        auto* number = cast<ConstantValue>(item);
        if (number == nullptr || !PyLong_CheckExact(number->held)) return std::nullopt;
        if (number->is_symbolic())
            dims.push_back(Dim::of(number->expression));
        else
            dims.push_back(PyLong_AsLongLong(number->held));
        if (number->is_symbolic()) symbolic::realize_class(tracer, number);
    }
    return dims;
}

bool changes(const Dims& dims) {
    return !std::ranges::all_of(dims, [](Dim dim) { return dim.is_constant(); });
}

Dims contiguous_strides(const Dims& size) {
    Dims strides(size.size());
    Dim stride = 1;
    for (std::size_t i = size.size(); i-- > 0;) {
        strides[i] = stride;
        if (size[i] >= 2) stride = stride * size[i];
    }
    return strides;
}

/// The arguments of `_make_wrapper_subclass`, with the size and the strides apart.
struct MadeLike {
    Value* size = nullptr;
    Value* strides = nullptr;
    Arguments others;
};

MadeLike taken_apart(const Arguments& arguments) {
    MadeLike made;
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        Value* value = arguments.positional[i];
        if (i == 1)
            made.size = value;
        else if (i == 2)
            made.strides = value;
        else
            made.others.positional.push_back(value);
    }
    for (const Keyword& keyword : arguments.keywords) {
        const std::string_view name = utf8(keyword.name);
        if (name == "size")
            made.size = keyword.value;
        else if (name == "strides")
            made.strides = keyword.value;
        else
            made.others.keywords.push_back(keyword);
    }
    return made;
}

/// The size and the strides as values, if some of these change between calls. Empty where they don't.
std::vector<Value*> changing_layout(Tracer& tracer, const MadeLike& made) {
    if (!tracer.numbers().has_symbols() || made.size == nullptr) return {};
    const bool has_strides = made.strides != nullptr && made.strides->object() != Py_None;
    auto size = dims_of(tracer, made.size);
    if (!size) return {};
    auto strides = has_strides ? dims_of(tracer, made.strides) : contiguous_strides(*size);
    if (!strides || (!changes(*size) && !changes(*strides))) return {};
    return {size_values(tracer, *size), size_values(tracer, *strides)};
}

/// What they are in this call.
Ref<> hints_of(Tracer& tracer, Value* layout) {
    const Dims dims = *dims_of(tracer, layout);
    Ref<> numbers = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (std::size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i),
                         checked(PyLong_FromLongLong(dims[i].hint())).release());
    return numbers;
}

/// One without attributes, with the size of this call.
Ref<> made_for_this_call(Tracer& tracer, const TensorObjectValue* wrapper) {
    if (wrapper->layout.empty()) return checked(PyObject_CallNoArgs(wrapper->maker));
    Ref<> size = hints_of(tracer, wrapper->layout[0]), strides = hints_of(tracer, wrapper->layout[1]);
    return checked(PyObject_CallFunctionObjArgs(wrapper->maker, size.get(), strides.get(), nullptr));
}

Ref<> instance_of_fakes(Tracer& tracer, TensorObjectValue* wrapper) {
    Ref<> made = made_for_this_call(tracer, wrapper);
    for (auto& [name, value] : wrapper->attributes)
        if (value != nullptr) checked(PyObject_SetAttr(made.get(), name, as_fake(tracer, wrapper, name, value).get()));
    return made;
}

/// Whether `__tensor_flatten__` may have computed a part of the context from sizes.
bool may_hold_sizes(PyObject* context) {
    if (context == Py_None || PyUnicode_CheckExact(context) || PyType_Check(context)) return false;
    if (PyDict_CheckExact(context)) {
        Ref<> items = checked(PyDict_Items(context));
        return may_hold_sizes(items.get());
    }
    const bool is_sequence = PyTuple_CheckExact(context) || PyList_CheckExact(context);
    if (!is_sequence) return true;
    Ref<> items = checked(PySequence_Tuple(context));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
        if (may_hold_sizes(PyTuple_GET_ITEM(items.get(), i))) return true;
    return false;
}

/// The node holds the context of this call, so sizes that the context may depend on are constants.
void specialize_sizes(Tracer& tracer, const TensorObjectValue* wrapper, const Arguments& inner) {
    for (Value* tensor : inner.positional)
        torch_room::for_each_dim(*static_cast<TensorValue*>(tensor)->meta, [](Dim dim) { std::ignore = dim.value(); });
    for (Value* layout : wrapper->layout) {
        const std::optional<Dims> dims = dims_of(tracer, layout);
        STATOR_CHECK(dims.has_value(), "a layout consists of numbers");
        for (Dim dim : *dims) std::ignore = dim.value();
    }
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
    if (may_hold_sizes(PyTuple_GET_ITEM(parts.get(), 1))) specialize_sizes(tracer, wrapper, inner);
    static PyObject* const keywords[] = {interned("size"), interned("stride")};
    for (std::size_t i = 0; i < wrapper->layout.size(); ++i)
        inner.keywords.push_back({keywords[i], wrapper->layout[i]});
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
    static PyObject* const maker_of_layout = imported("stator.wrappers", "maker_of_layout");
    auto* wrapper = tracer.make<TensorObjectValue>(type->held);
    MadeLike made_like = taken_apart(arguments);
    wrapper->layout = changing_layout(tracer, made_like);
    const bool has_layout = !wrapper->layout.empty();
    ConstantArguments constants;
    if (!constants.take(tracer, has_layout ? made_like.others : arguments))
        refuse(tracer, type->held, "with sizes or settings that are not constants");
    Ref<> maker = constants.call(has_layout ? maker_of_layout : maker_of);
    if (!maker) refuse(tracer, type->held, "which PyTorch refuses");
    wrapper->maker = tracer.keep(std::move(maker));
    try {
        Ref<> made = made_for_this_call(tracer, wrapper);
        if (torch_room::read_meta(made.get()).requires_grad) refuse(tracer, type->held, "which requires a gradient");
    } catch (const PythonError&) {
        refuse(tracer, type->held, "which PyTorch refuses");
    }
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
    if (!wrapper->layout.empty() && name.get() == interned("shape"))
        return size_values(tracer, *dims_of(tracer, wrapper->layout[0]), torch_room::known().size_class);
    Ref<> made = made_for_this_call(tracer, wrapper);
    Ref<> held = Ref<>::steal(PyObject_GetAttr(made.get(), name));
    const bool may_change =
        held && !wrapper->layout.empty() && (PyLong_CheckExact(held.get()) || PyTuple_Check(held.get()));
    if (!held || !is_constant(held.get()) || may_change)
        refuse(tracer, wrapper->class_, "and its attribute '" + std::string(utf8(name)) + "' is read");
    return tracer.fresh(std::move(held));
}

}  // namespace stator
