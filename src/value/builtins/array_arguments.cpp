#include "value/builtins/array_arguments.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "guard/numpy_numbers.h"
#include "torch/arrays.h"
#include "torch/dtypes.h"
#include "torch/global_state.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/recorder.h"

namespace stator::arrays {

namespace {

Ref<> numbers_of(Tracer& tracer, const Dims& dims) {
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i].is_unbacked())
            tracer.break_graph(BreakKind::DataDependent, "the size of a numpy array depends on data");
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                         checked(PyLong_FromLongLong(dims[i].hint())).release());
    }
    return tuple;
}

}  // namespace

const TensorValue* base_of(const TensorValue* tensor) {
    while (tensor->view_of != nullptr) tensor = tensor->view_of;
    return tensor;
}

void refuse(Tracer& tracer, const std::string& reason) {
    tracer.break_graph(BreakKind::UnknownFunction, reason);
}

ArrayArguments::ArrayArguments(Tracer& tracer, const Arguments& arguments) : tracer_(tracer) {
    positional_ = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        Taken taken = take(arguments.positional[i]);
        for_node.positional.push_back(taken.for_node);
        PyTuple_SET_ITEM(positional_.get(), static_cast<Py_ssize_t>(i), taken.for_trial.release());
    }
    named_ = checked(PyDict_New());
    for (const Keyword& keyword : arguments.keywords) {
        Taken taken = take(keyword.value);
        for_node.keywords.push_back({keyword.name, taken.for_node});
        checked(PyDict_SetItem(named_.get(), keyword.name, taken.for_trial.get()));
    }
    // numpy raises for ints that a narrow dtype does not hold.
    if (std::ranges::any_of(operands, is_of_narrow_integers))
        for (Value* number : changing_) tracer_.realize(number);
}

Ref<> ArrayArguments::describe(PyObject* call) {
    static PyObject* const describe = imported("stator.arrays", "describe");
    torch_room::KeepRandomState keep_random_state;
    Ref<> answer = checked(PyObject_CallFunctionObjArgs(describe, call, positional_.get(), named_.get(), nullptr));
    if (PyUnicode_Check(answer.get())) refuse(tracer_, std::string(utf8(answer.get())));
    return answer;
}

void ArrayArguments::copy_overlapping(PyObject* written) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); ++i) {
        const TensorValue* target = operands.at(PyLong_AsSize_t(PyTuple_GET_ITEM(written, i))).tensor;
        for (Operand& other : operands)
            if (other.tensor != target && may_share_memory(other.tensor, target)) replace(other, "clone", nullptr);
    }
}

void ArrayArguments::convert_integers(PyObject* dtype) {
    for (Operand& operand : operands)
        if (torch_room::is_integral(operand.tensor->meta->dtype)) replace(operand, "to", tracer_.constant(dtype));
}

bool ArrayArguments::is_of_narrow_integers(const Operand& operand) {
    const torch_room::Dtype dtype = operand.tensor->meta->dtype;
    return torch_room::is_integral(dtype) && dtype != torch_room::dtype::kLong && dtype != torch_room::dtype::kBool;
}

ArrayArguments::Taken ArrayArguments::take(Value* value) {
    // The node realizes it, unless it stands for a function that takes any int.
    if (symbolic::is(value) && !symbolic::is_unbacked(value) && PyLong_CheckExact(value->object())) {
        changing_.push_back(value);
        return {value, Ref<>::share(value->object())};
    }
    tracer_.realize(value);
    switch (value->kind) {
        case Kind::Array: {
            auto* array = static_cast<ArrayValue*>(value);
            return operand(array->payload, array, array->is_scalar ? Form::Scalar : Form::Array, array->is_writeable);
        }
        case Kind::Tensor:
            return take_tensor(static_cast<TensorValue*>(value));
        case Kind::Tuple:
        case Kind::List:
            return take_sequence(static_cast<SequenceValue*>(value));
        case Kind::Slice:
            return take_slice(static_cast<SliceValue*>(value));
        case Kind::Constant:
            if (is_numpy_number(value->object())) return take_scalar(value);
            return {value, Ref<>::share(value->object())};
        default:
            return take_dtype(value);
    }
}

ArrayArguments::Taken ArrayArguments::operand(TensorValue* tensor, Value* value, Form form, bool is_writeable) {
    for (const Operand& known : operands)
        if (known.tensor == tensor) return {tensor, known.for_trial};
    static PyObject* const make = imported("stator.arrays", "Operand");
    const torch_room::TensorMeta& meta = *tensor->meta;
    Ref<> sizes = numbers_of(tracer_, meta.sizes), strides = numbers_of(tracer_, meta.strides);
    Ref<> made = checked(PyObject_CallFunction(make, "niOOOO", static_cast<Py_ssize_t>(operands.size()),
                                               static_cast<int>(form), torch_room::dtype_object(meta.dtype).get(),
                                               sizes.get(), strides.get(), is_writeable ? Py_True : Py_False));
    operands.push_back({tensor, value, made});
    return {tensor, std::move(made)};
}

ArrayArguments::Taken ArrayArguments::take_tensor(TensorValue* tensor) {
    const torch_room::TensorMeta& meta = *tensor->meta;
    constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
    if (meta.requires_grad || torch_room::device_name(meta.device) != "cpu" || meta.layout != torch_room::Layout{} ||
        (meta.dispatch_keys & kViews) != 0 || !torch_room::has_array_dtype(meta.dtype))
        refuse(tracer_, "a tensor that is unlike any numpy array is an argument of a numpy function");
    return operand(tensor, tensor, Form::Tensor, true);
}

ArrayArguments::Taken ArrayArguments::take_sequence(SequenceValue* sequence) {
    const bool is_list = sequence->kind == Kind::List;
    if (sequence->type() != &PyList_Type && sequence->type() != &PyTuple_Type &&
        sequence->type() != torch_room::known().size_class)
        refuse(tracer_, "a " + type_name(sequence->type()) + " is an argument of a numpy function");
    std::vector<Value*> items;
    Ref<> for_trial = checked(PyList_New(0));
    for (Value* item : sequence->all(tracer_)) {
        Taken taken = take(item);
        items.push_back(taken.for_node);
        checked(PyList_Append(for_trial.get(), taken.for_trial.get()));
    }
    if (is_list) return {make_list(tracer_, std::move(items)), std::move(for_trial)};
    return {make_tuple(tracer_, std::move(items)), checked(PyList_AsTuple(for_trial.get()))};
}

ArrayArguments::Taken ArrayArguments::take_slice(SliceValue* slice) {
    Taken start = take(slice->start), stop = take(slice->stop), step = take(slice->step);
    return {tracer_.make<SliceValue>(start.for_node, stop.for_node, step.for_node),
            checked(PySlice_New(start.for_trial.get(), stop.for_trial.get(), step.for_trial.get()))};
}

ArrayArguments::Taken ArrayArguments::take_scalar(Value* constant) {
    static PyObject* const find = imported("stator.arrays", "find");
    PyObject* object = constant->object();
    Ref<> call = checked(PyObject_CallOneArg(find, reinterpret_cast<PyObject*>(Py_TYPE(object))));
    if (call.get() == Py_None) refuse(tracer_, "a " + type_name(Py_TYPE(object)) + " is used beside an array");
    Ref<> target = checked(PyObject_GetAttrString(call.get(), "target"));
    Ref<> number = checked(PyObject_CallMethod(object, "item", nullptr));
    Value* made = tracer_.recorder().emit_function(target.get(), Arguments::of(tracer_.constant(tracer_.keep(number))));
    if (made->kind != Kind::Tensor) refuse(tracer_, "a numpy scalar is used beside an array");
    return {made, Ref<>::share(object)};
}

ArrayArguments::Taken ArrayArguments::take_dtype(Value* value) {
    static PyObject* const name_of = imported("stator.arrays", "dtype_name");
    PyObject* object = value->object();
    if (object == nullptr || (value->kind != Kind::Class && value->kind != Kind::Object))
        refuse(tracer_, "an object of type " + type_name(value->type()) + " is an argument of a numpy function");
    Ref<> name = checked(PyObject_CallOneArg(name_of, object));
    if (name.get() == Py_None)
        refuse(tracer_, "an object of type " + type_name(value->type()) + " is an argument of a numpy function");
    if (value->kind == Kind::Object && value->source != nullptr && value->source->access != Access::Pinned)
        tracer_.guard({GuardKind::Identity, value->source, object});
    return {tracer_.constant(tracer_.keep(std::move(name))), Ref<>::share(object)};
}

bool ArrayArguments::may_share_memory(const TensorValue* one, const TensorValue* other) {
    const TensorValue *left = base_of(one), *right = base_of(other);
    return left == right || (left->source != nullptr && right->source != nullptr);
}

void ArrayArguments::replace(Operand& operand, const char* method, Value* argument) {
    Arguments arguments = Arguments::of(operand.tensor);
    if (argument != nullptr) arguments.positional.push_back(argument);
    auto* after = cast<TensorValue>(tracer_.recorder().emit_method(interned(method), arguments));
    for (Value*& value : for_node.positional) value = replaced(value, operand.tensor, after);
    for (Keyword& keyword : for_node.keywords) keyword.value = replaced(keyword.value, operand.tensor, after);
    operand.tensor = after;
}

Value* ArrayArguments::replaced(Value* value, Value* before, Value* after) {
    if (value == before) return after;
    if (SequenceValue* sequence = as_sequence(value))
        for (Value*& item : sequence->items) item = replaced(item, before, after);
    return value;
}

}  // namespace stator::arrays
