#include "value/kinds/constant.h"

#include <cmath>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "guard/numpy_numbers.h"
#include "torch/known.h"
#include "value/builtins/builtin.h"
#include "value/builtins/numpy.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"
#include "value/protocol/refusal.h"
#include "value/recorder.h"
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

/// The same for an operation that may return one of its operands, as `s + ""` does.
Value* result_of(Tracer& tracer, PyObject* new_reference, const std::vector<Value*>& operands) {
    Ref<> owned = Ref<>::steal(new_reference);
    if (!owned) tracer.raise_from_python();
    if (Value* itself = argument_itself(operands, owned.get())) return itself;
    return tracer.fresh(std::move(owned));
}

/// The C operators of Python would call special methods that the program defines in its enums.
void refuse_program_code(Tracer& tracer, Value* operand) {
    if (runs_program_code(operand->object()))
        tracer.break_graph(BreakKind::UnknownObject, "a member of " + type_name(operand->type()) +
                                                         ", an enum with user-defined special methods, is an operand");
}

}  // namespace

bool is_unequal_to_itself(Borrowed<> object) {
    if (PyFloat_CheckExact(object.get())) return std::isnan(PyFloat_AS_DOUBLE(object.get()));
    if (!PyComplex_CheckExact(object.get()) && !is_numpy_number(object)) return false;
    Ref<> answer = Ref<>::steal(PyObject_RichCompare(object, object, Py_EQ));
    if (!answer) PyErr_Clear();
    return !answer || PyObject_IsTrue(answer.get()) != 1;
}

bool runs_program_code(Borrowed<> object) {
    if (!is_enum_member(object)) return false;
    constexpr const char* kMethods[] = {
        "__eq__",  "__ne__",     "__lt__",   "__le__",       "__gt__",    "__ge__",     "__hash__",  "__repr__",
        "__str__", "__format__", "__bool__", "__len__",      "__index__", "__int__",    "__float__", "__iter__",
        "__add__", "__radd__",   "__sub__",  "__rsub__",     "__mul__",   "__rmul__",   "__or__",    "__ror__",
        "__and__", "__rand__",   "__mod__",  "__contains__", "__call__",  "__getitem__"};
    for (const char* name : kMethods) {
        PyObject* found = cpython::lookup_in_mro(Py_TYPE(object.get()), interned(name));
        if (found == nullptr || !PyFunction_Check(found)) continue;
        PyObject* module = reinterpret_cast<PyFunctionObject*>(found)->func_module;
        if (module == nullptr || !PyUnicode_Check(module) || utf8(module) != "enum") return true;
    }
    return false;
}

Value* argument_itself(const std::vector<Value*>& arguments, Borrowed<> object) {
    for (Value* argument : arguments) {
        if (argument->kind == Kind::Constant && argument->object() == object.get()) return argument;
        if (argument->kind != Kind::Tuple && argument->kind != Kind::List) continue;
        for (Value* item : static_cast<SequenceValue*>(argument)->items)
            if (item != nullptr && item->kind == Kind::Constant && item->object() == object.get()) return item;
    }
    return nullptr;
}

bool is_safe_to_compare(Borrowed<> object) {
    PyTypeObject* type = Py_TYPE(object.get());
    const auto& known = torch_room::known();
    return object == Py_None || type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
           type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type || type == &PyRange_Type ||
           object == Py_Ellipsis || object == Py_NotImplemented || type == known.dtype_class ||
           type == known.device_class || type == known.layout_class || type == known.memory_format_class ||
           is_numpy_number(object);
}

namespace {

/// A member of an enum that PyTorch's C++ code defines, such as `torch.nn.attention.SDPBackend`.
bool is_native_enum_member(PyObject* object) {
    static PyTypeObject* const metaclass = Py_TYPE(imported("torch._C", "_SDPBackend"));
    PyTypeObject* type = Py_TYPE(object);
    return Py_TYPE(type) == metaclass && cpython::lookup_in_mro(type, interned("__entries")) != nullptr;
}

}  // namespace

bool is_constant(Borrowed<> object) {
    return is_safe_to_compare(object) || PyCode_Check(object.get()) || is_enum_member(object) ||
           is_native_enum_member(object);
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
    return result_of(tracer, PyObject_GetAttr(held, name), {this});
}

Outcome ConstantValue::get_item(Tracer& tracer, Value* key) {
    if (is_numpy_number(held)) tracer.break_graph(BreakKind::UnknownObject, "a NumPy scalar is indexed");
    Ref<> index = key->as_constant(tracer);
    if (!index) {
        if (PyMapping_Check(held) == 0) return Value::get_item(tracer, key);
        tracer.break_graph(BreakKind::DataDependent, "a constant is indexed with a value that is not a constant");
    }
    return result_of(tracer, PyObject_GetItem(held, index.get()), {this});
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
    // `"%s" % (a, b)` accepts containers too; for other operators the container's own method is called.
    bool formats = op == BinaryOperator::Remainder && !reflected && (PyUnicode_Check(held) || PyBytes_Check(held));
    if (Value* answer = numpy_binary(tracer, op, this, other, reflected)) return answer;
    if (other->kind != Kind::Constant && !formats) return nullptr;
    refuse_program_code(tracer, this);
    if (other->kind == Kind::Constant) refuse_program_code(tracer, other);
    Ref<> operand = other->as_constant(tracer);
    if (!operand) {
        if (formats)
            tracer.break_graph(BreakKind::UnknownObject, "a string is formatted with a value that is not a constant");
        return nullptr;
    }
    PyObject* left = reflected ? operand.get() : held;
    PyObject* right = reflected ? held : operand.get();
    return result_of(tracer, python_binary(op, false, left, right), {this, other});
}

Value* ConstantValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    if (other->kind != Kind::Constant || is_numpy_number(held) || is_numpy_number(other->object())) return nullptr;
    refuse_program_code(tracer, this);
    refuse_program_code(tracer, other);
    return result_of(tracer, python_binary(op, true, held, other->object()), {this, other});
}

Value* ConstantValue::unary(Tracer& tracer, UnaryOperator op) {
    if (is_numpy_number(held)) return fold_in_numpy(tracer, operator_function(op), Arguments::of(this));
    switch (op) {
        case UnaryOperator::Negative:
            return result_of(tracer, PyNumber_Negative(held));
        case UnaryOperator::Positive:
            return result_of(tracer, PyNumber_Positive(held), {this});
        case UnaryOperator::Invert:
            return result_of(tracer, PyNumber_Invert(held));
    }
    return nullptr;
}

Outcome ConstantValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (Value* answer = numpy_compare(tracer, op, this, other)) return answer;
    // An enum member may be a tuple too.
    if (other->kind != Kind::Constant && is_enum_member(held) && Py_TYPE(held)->tp_richcompare != nullptr &&
        PyTuple_Check(held)) {
        Ref<> known = other->as_constant(tracer);
        if (!known)
            tracer.break_graph(BreakKind::UnknownObject,
                               "an enum member is compared with a value that is not a constant");
        return result_of(tracer, PyObject_RichCompare(held, known.get(), static_cast<int>(op)));
    }
    if (other->kind != Kind::Constant) return nullptr;
    tracer.realize(other);
    // Python would try the other operand next, which may have user-defined methods.
    if (is_enum_member(held) || is_enum_member(other->object()))
        return result_of(tracer, type()->tp_richcompare(held, other->object(), static_cast<int>(op)));
    return result_of(tracer, PyObject_RichCompare(held, other->object(), static_cast<int>(op)));
}

Py_hash_t ConstantValue::hash(Tracer& tracer) {
    tracer.realize(this);
    if (is_enum_member(held) && operations::user_method(tracer, this, "__hash__") != nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "a member of " + type_name(type()) +
                                                         ", an enum with a user-defined __hash__, is used as a key");
    if (is_unequal_to_itself(held)) {
        // NaN is hashed by identity. A computed NaN is a new object in each call.
        if (source == nullptr && equal_member_of == nullptr)
            tracer.break_graph(BreakKind::UnknownObject, "NaN is used as a key");
        guard_members(tracer, this);
        if (source != nullptr) tracer.guard({GuardKind::Identity, source, held});
    }
    Py_hash_t hash = PyObject_Hash(held);
    if (hash == -1 && PyErr_Occurred() != nullptr) tracer.raise_from_python();
    return hash;
}

graph::Argument ConstantValue::as_argument(Tracer& tracer) {
    bool is_any_as_good =
        is_symbolic() && !PyBool_Check(held) &&
        (expression->is_float ? tracer.recorder().takes_any_float() : tracer.recorder().takes_any_int());
    if (is_any_as_good) return tracer.recorder().number_argument(this);
    tracer.realize(this);
    if (is_numpy_number(held)) return graph::Argument::of_constant(plain_number(tracer, this));
    return graph::Argument::of_constant(held);
}

int ConstantValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr && source->access != Access::Pinned) return plan.fetch(source);
    if (is_symbolic() && node != nullptr) return plan.output(node);
    if (is_symbolic()) return plan.arithmetic(*expression);
    return plan.constant(held, is_made);
}

std::string ConstantValue::print() const {
    if (is_symbolic()) return stator::print(*expression);
    return short_repr(held);
}

}  // namespace stator
