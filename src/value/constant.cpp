#include "value/constant.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "guard/numpy_numbers.h"
#include "torch/known.h"
#include "value/attributes.h"
#include "value/builtin.h"
#include "value/function.h"
#include "value/iterator.h"
#include "value/numpy.h"
#include "value/refusal.h"
#include "value/slice.h"
#include "value/symbolic.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool is_enum_member(PyObject* object) {
    return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
           PyObject_TypeCheck(object, torch_room::known().enum_class);
}

Value* result_of(Tracer& tracer, PyObject* new_reference) {
    if (new_reference == nullptr) tracer.raise_from_python();
    return tracer.fresh(Ref<>::steal(new_reference));
}

}  // namespace

bool is_safe_to_compare(Borrowed<> object) {
    PyTypeObject* type = Py_TYPE(object.get());
    const auto& known = torch_room::known();
    return object == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type ||
           object == Py_Ellipsis || object == Py_NotImplemented || type == known.dtype_class ||
           type == known.device_class || type == known.layout_class || type == known.memory_format_class ||
           is_numpy_number(object);
}

bool is_constant(Borrowed<> object) {
    return is_safe_to_compare(object) || PyCode_Check(object.get()) || is_enum_member(object);
}

void ConstantValue::realize(Tracer& tracer) {
    if (source == nullptr) return symbolic::specialize(tracer, this);
    GuardKind kind = is_safe_to_compare(held) ? GuardKind::Constant : GuardKind::Identity;
    tracer.guard({kind, source, held});
}

Ref<> ConstantValue::as_constant(Tracer& tracer) {
    tracer.realize(this);
    return Ref<>::share(held);
}

Outcome ConstantValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (is_enum_member(held) && (name.get() == interned("value") || name.get() == interned("name") ||
                                 name.get() == interned("_value_") || name.get() == interned("_name_")))
        return result_of(tracer, PyObject_GetAttr(held, name));
    PyObject* raw = cpython::lookup_in_mro(type(), name, nullptr);
    if (is_numpy_number(held) && raw != nullptr && Py_TYPE(raw) == &PyGetSetDescr_Type)
        return numpy_attribute(tracer, this, name);
    if (raw != nullptr && (PyFunction_Check(raw) || Py_TYPE(raw) == &PyMethodDescr_Type ||
                           Py_TYPE(raw) == &PyWrapperDescr_Type || PyObject_TypeCheck(raw, &PyProperty_Type)))
        return bind_attribute(tracer, class_attribute(tracer, type(), name), raw, this, type(), name);
    return result_of(tracer, PyObject_GetAttr(held, name));
}

Outcome ConstantValue::get_item(Tracer& tracer, Value* key) {
    if (is_numpy_number(held)) tracer.break_graph(BreakKind::UnknownObject, "a number of numpy is indexed");
    Ref<> index = key->as_constant(tracer);
    if (!index) {
        if (PyMapping_Check(held) == 0) return Value::get_item(tracer, key);
        tracer.break_graph(BreakKind::DataDependent, "a constant is indexed by a value that is not known");
    }
    return result_of(tracer, PyObject_GetItem(held, index.get()));
}

Outcome ConstantValue::contains(Tracer& tracer, Value* item) {
    Ref<> constant = item->as_constant(tracer);
    if (!constant) {
        if (PyUnicode_Check(held))
            tracer.raise(PyExc_TypeError,
                         "'in <string>' requires string as left operand, not " + std::string(item->type()->tp_name));
        return Value::contains(tracer, item);
    }
    int found = PySequence_Contains(held, constant.get());
    if (found < 0) tracer.raise_from_python();
    return tracer.boolean(found == 1);
}

std::ptrdiff_t ConstantValue::length(Tracer& tracer) {
    Py_ssize_t size = PyObject_Size(held);
    if (size < 0 && PyErr_ExceptionMatches(PyExc_OverflowError)) tracer.raise_from_python();
    if (size < 0) PyErr_Clear();
    return size;
}

bool ConstantValue::truth(Tracer& tracer) {
    int truth = PyObject_IsTrue(held);
    if (truth < 0) tracer.raise_from_python();
    return truth == 1;
}

Outcome ConstantValue::iterate(Tracer& tracer) {
    if (!PyUnicode_Check(held) && !PyBytes_Check(held) && !PyRange_Check(held)) return Value::iterate(tracer);
    return iterate_constant(tracer, held);
}

Value* ConstantValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    // `"%s" % (a, b)` takes containers too; elsewhere they answer for themselves.
    bool formats = op == BinaryOperator::Remainder && !reflected && (PyUnicode_Check(held) || PyBytes_Check(held));
    if (Value* answer = numpy_binary(tracer, op, this, other, reflected)) return answer;
    if (other->kind != Kind::Constant && !formats) return nullptr;
    Ref<> operand = other->as_constant(tracer);
    if (!operand) {
        if (formats)
            tracer.break_graph(BreakKind::UnknownObject, "a string is formatted with a value that is not known");
        return nullptr;
    }
    PyObject* left = reflected ? operand.get() : held;
    PyObject* right = reflected ? held : operand.get();
    return result_of(tracer, python_binary(op, false, left, right));
}

Value* ConstantValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    if (other->kind != Kind::Constant || is_numpy_number(held) || is_numpy_number(other->object())) return nullptr;
    return result_of(tracer, python_binary(op, true, held, other->object()));
}

Value* ConstantValue::unary(Tracer& tracer, UnaryOperator op) {
    if (is_numpy_number(held)) return fold_in_numpy(tracer, operator_function(op), Arguments::of(this));
    switch (op) {
        case UnaryOperator::Negative:
            return result_of(tracer, PyNumber_Negative(held));
        case UnaryOperator::Positive:
            return result_of(tracer, PyNumber_Positive(held));
        case UnaryOperator::Invert:
            return result_of(tracer, PyNumber_Invert(held));
    }
    return nullptr;
}

Outcome ConstantValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (Value* answer = numpy_compare(tracer, op, this, other)) return answer;
    // A member of an enum may be a tuple too.
    if (other->kind != Kind::Constant && is_enum_member(held) && Py_TYPE(held)->tp_richcompare != nullptr &&
        PyTuple_Check(held)) {
        Ref<> known = other->as_constant(tracer);
        if (!known)
            tracer.break_graph(BreakKind::UnknownObject,
                               "a member of an enum is compared with a value that is not known");
        return result_of(tracer, PyObject_RichCompare(held, known.get(), static_cast<int>(op)));
    }
    if (other->kind != Kind::Constant) return nullptr;
    tracer.realize(other);
    return result_of(tracer, PyObject_RichCompare(held, other->object(), static_cast<int>(op)));
}

Py_hash_t ConstantValue::hash(Tracer& tracer) {
    tracer.realize(this);
    Py_hash_t hash = PyObject_Hash(held);
    if (hash == -1 && PyErr_Occurred() != nullptr) tracer.raise_from_python();
    return hash;
}

graph::Argument ConstantValue::as_argument(Tracer& tracer) {
    bool is_any_as_good = is_symbolic() && (expression->is_float ? tracer.takes_any_float() : tracer.takes_any_int());
    if (is_any_as_good) return tracer.number_argument(this);
    tracer.realize(this);
    if (is_numpy_number(held)) return graph::Argument::of_constant(plain_number(tracer, this));
    return graph::Argument::of_constant(held);
}

int ConstantValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr && source->access != Access::Pinned) return plan.fetch(source);
    if (is_symbolic()) return plan.arithmetic(*expression);
    return plan.constant(held);
}

std::string ConstantValue::print() const {
    if (is_symbolic()) return stator::print(*expression);
    return short_repr(held);
}

}  // namespace stator
