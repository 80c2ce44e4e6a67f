#include "value/kinds/array.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "torch/arrays.h"
#include "torch/names.h"
#include "value/builtins/arrays.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* array_class() {
    static PyTypeObject* const found = imported_class("numpy", "ndarray");
    return found;
}

/// `numpy.float64`, ...
PyTypeObject* scalar_class(torch_room::Dtype dtype) {
    Ref<> found = checked(PyObject_GetAttrString(torch_room::array_dtype(dtype), "type"));
    return reinterpret_cast<PyTypeObject*>(found.get());  // a class of numpy is never freed
}

std::int64_t item_size(const ArrayValue* array) {
    Ref<> size = checked(PyObject_GetAttrString(torch_room::array_dtype(array->meta().dtype), "itemsize"));
    return PyLong_AsLongLong(size.get());
}

Dim count_of(const ArrayValue* array) {
    Dim count = 1;
    for (Dim size : array->meta().sizes) count *= size;
    return count;
}

/// An attribute that only depends on dtype and sizes; null for others.
Value* of_metadata(Tracer& tracer, ArrayValue* array, Borrowed<> name) {
    const torch_room::TensorMeta& meta = array->meta();
    if (name.get() == interned("shape")) return size_values(tracer, meta.sizes);
    if (name.get() == interned("ndim")) return tracer.integer(static_cast<std::int64_t>(meta.sizes.size()));
    if (name.get() == interned("size")) return size_value(tracer, count_of(array));
    if (name.get() == interned("itemsize")) return tracer.integer(item_size(array));
    if (name.get() == interned("nbytes")) return size_value(tracer, count_of(array) * Dim(item_size(array)));
    if (name.get() == interned("dtype")) return tracer.constant(torch_room::array_dtype(meta.dtype));
    if (name.get() == interned("strides")) {
        // Those of dimensions with one element mean nothing, and numpy has others than PyTorch.
        for (Dim size : meta.sizes)
            if (size < Dim(2)) return nullptr;
        Dims strides = meta.strides;
        for (Dim& stride : strides) stride *= Dim(item_size(array));
        return size_values(tracer, strides);
    }
    return nullptr;
}

bool is_operation(Borrowed<> name) {
    return name.get() == interned("T") || name.get() == interned("real") || name.get() == interned("imag");
}

}  // namespace

ArrayValue* make_array(Tracer& tracer, TensorValue* payload, bool is_scalar, bool is_writeable) {
    auto* array = tracer.make<ArrayValue>();
    array->payload = payload;
    array->is_scalar = is_scalar;
    array->is_writeable = is_writeable;
    return array;
}

void ArrayValue::realize(Tracer& tracer) {
    expect_arrays_are_traced(tracer);
    const bool writeable = !is_scalar && torch_room::is_writeable(outside);
    Ref<> tensor = torch_room::tensor_of_array(outside, writeable);
    if (!tensor)
        tracer.break_graph(BreakKind::UnknownObject,
                           "PyTorch has no tensor like a numpy array: its dtype, strides or flags are unusual");
    auto* held = tracer.make<TensorValue>();
    held->outside = tracer.keep(std::move(tensor));
    held->source = tracer.provenance().child(source, Access::ArrayTensor, nullptr, writeable ? 1 : 0, held->outside);
    held->realized = false;
    tracer.realize(held);
    set_undoably(tracer, payload, held);
    is_writeable = writeable;
}

PyObject* ArrayValue::specialized(Tracer& tracer) const {
    tracer.guard({GuardKind::Constant, source, outside});
    return outside;
}

PyTypeObject* ArrayValue::type() const {
    if (outside != nullptr) return Py_TYPE(outside);
    return is_scalar ? scalar_class(meta().dtype) : array_class();
}

Outcome ArrayValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (Value* known = of_metadata(tracer, this, name)) return known;
    if (is_operation(name)) return array_attribute(tracer, this, name);
    if (name.get() == interned("__class__")) return tracer.constant(reinterpret_cast<PyObject*>(type()));
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(tracer, type(), name, &raw);
    if (raw == nullptr) raise_no_attribute(tracer, this, name);
    if (Py_TYPE(raw) == &PyMethodDescr_Type || Py_TYPE(raw) == &PyWrapperDescr_Type)
        return tracer.make<MethodValue>(attribute, this);
    tracer.break_graph(BreakKind::UnknownObject,
                       "attribute '" + std::string(utf8(name)) + "' of a numpy array is read");
}

Outcome ArrayValue::get_item(Tracer& tracer, Value* key) {
    return array_item(tracer, this, key);
}

void ArrayValue::set_item(Tracer& tracer, Value* key, Value* value) {
    set_array_item(tracer, this, key, value);
}

std::ptrdiff_t ArrayValue::length(Tracer& tracer) {
    if (meta().sizes.empty())
        tracer.break_graph(BreakKind::OperationFails, "len() of an array without dimensions is called");
    return meta().sizes[0].value();
}

bool ArrayValue::truth(Tracer& tracer) {
    if (is_outside_scalar()) return PyObject_IsTrue(specialized(tracer)) == 1;
    tracer.break_graph(BreakKind::DataDependent, "the truth value of a numpy array is used");
}

Outcome ArrayValue::contains(Tracer& tracer, Value*) {
    tracer.break_graph(BreakKind::DataDependent, "the data of a numpy array is searched (value in array)");
}

Outcome ArrayValue::iterate(Tracer& tracer) {
    if (meta().sizes.empty())
        tracer.break_graph(BreakKind::OperationFails, "an array without dimensions is iterated over");
    return tracer.make<IndexIterator>(this);
}

Value* ArrayValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    // To a tensor it is a number, with its own rules of promotion.
    if (is_outside_scalar() && other->kind == Kind::Tensor) {
        Value* number = tracer.constant(specialized(tracer));
        return reflected ? other->binary(tracer, op, number, false) : other->binary(tracer, op, number, true);
    }
    return array_operator(tracer, operator_function(op, false),
                          reflected ? Arguments::of(other, this) : Arguments::of(this, other));
}

Value* ArrayValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    if (is_scalar) return nullptr;
    return array_operator(tracer, operator_function(op, true), Arguments::of(this, other));
}

Value* ArrayValue::unary(Tracer& tracer, UnaryOperator op) {
    return array_operator(tracer, operator_function(op), Arguments::of(this));
}

Outcome ArrayValue::compare(Tracer& tracer, Comparison op, Value* other) {
    // Mostly for a branch.
    if (is_outside_scalar() && other->kind == Kind::Constant)
        return operations::compare(tracer, op, tracer.constant(specialized(tracer)), other);
    return array_operator(tracer, operator_function(op), Arguments::of(this, other));
}

Ref<> ArrayValue::as_constant(Tracer& tracer) {
    return is_outside_scalar() ? Ref<>::share(specialized(tracer)) : Ref<>();
}

Py_hash_t ArrayValue::hash(Tracer& tracer) {
    if (is_outside_scalar()) return PyObject_Hash(specialized(tracer));
    if (is_scalar) tracer.break_graph(BreakKind::DataDependent, "a numpy scalar is used as a key");
    tracer.raise(PyExc_TypeError, "unhashable type: 'numpy.ndarray'");
}

graph::Argument ArrayValue::as_argument(Tracer& tracer) {
    if (is_outside_scalar()) return tracer.constant(specialized(tracer))->as_argument(tracer);
    tracer.break_graph(BreakKind::UnsupportedTensor, "a numpy array is an argument of a tensor operation");
}

int ArrayValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    PyObject* make = is_scalar      ? torch_room::array_scalar_function()
                     : is_writeable ? torch_room::array_function()
                                    : torch_room::read_only_array_function();
    int array = plan.add(PlanOp::Call, {payload->rebuild(plan)}, make);
    plan.remember(this, array);
    return array;
}

std::string ArrayValue::print() const {
    return std::string(is_scalar ? "numpy scalar" : "numpy array") +
           (payload == nullptr ? "" : " " + torch_room::print(meta()));
}

}  // namespace stator
