#include "value/protocol/index.h"

#include "value/kinds/scalar.h"

namespace stator {

std::optional<Py_ssize_t> as_index(Tracer& tracer, Value* value) {
    value = unwrapped(tracer, value);
    tracer.realize(value);
    if (value->kind != Kind::Constant || !PyIndex_Check(value->object())) return std::nullopt;
    Py_ssize_t index = PyNumber_AsSsize_t(value->object(), PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) tracer.raise_from_python();
    return index;
}

std::optional<Py_ssize_t> as_clipped_index(Tracer& tracer, Value* value) {
    value = unwrapped(tracer, value);
    tracer.realize(value);
    if (value->kind != Kind::Constant || !PyIndex_Check(value->object())) return std::nullopt;
    Py_ssize_t index = PyNumber_AsSsize_t(value->object(), nullptr);
    if (index == -1 && PyErr_Occurred()) tracer.raise_from_python();
    return index;
}

Py_ssize_t expect_index(Tracer& tracer, Value* value) {
    if (auto index = as_index(tracer, value)) return *index;
    if (has_index_method(value))
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("an object of class ") + value->type()->tp_name + " is used as an index");
    tracer.raise(PyExc_TypeError,
                 std::string("'") + value->type()->tp_name + "' object cannot be interpreted as an integer");
}

bool has_index_method(Value* value) {
    PyNumberMethods* methods = value->type()->tp_as_number;
    return methods != nullptr && methods->nb_index != nullptr;
}

bool is_slice(const Value* value) {
    return value->kind == Kind::Slice || value->type() == &PySlice_Type;
}

SliceBounds resolve_slice(Tracer& tracer, Value* slice, Py_ssize_t length) {
    tracer.realize(slice);
    Ref<> known = slice->as_constant(tracer);
    if (!known) tracer.break_graph(BreakKind::UnknownObject, "a bound of a slice is not a constant");
    SliceBounds bounds;
    if (PySlice_Unpack(known.get(), &bounds.start, &bounds.stop, &bounds.step) < 0) tracer.raise_from_python();
    bounds.count = PySlice_AdjustIndices(length, &bounds.start, &bounds.stop, bounds.step);
    return bounds;
}

}  // namespace stator
