#include "value/protocol/refusal.h"

#include "base/imported.h"
#include "base/text.h"
#include "cpython/binary_operations.h"
#include "value/kinds/class.h"
#include "value/kinds/deque.h"
#include "value/kinds/dict.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

/// Whether a class statement of Python made the class. C code makes classes of that kind too (pybind11 does), whose
/// methods crash on an object that their own `__new__` has not made.
bool is_by_class_statement(const PyTypeObject* type) {
    static const PyTypeObject* const known = imported_class("abc", "ABC");
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_dealloc == known->tp_dealloc;
}

/// An instance created without user code: `list.__new__(cls)` for the nearest class written in C.
Ref<> empty_instance(PyTypeObject* type) {
    PyTypeObject* base = type;
    while (is_by_class_statement(base)) base = base->tp_base;
    bool is_plain = base == &PyBaseObject_Type || PyType_FastSubclass(base, Py_TPFLAGS_LIST_SUBCLASS) ||
                    PyType_FastSubclass(base, Py_TPFLAGS_TUPLE_SUBCLASS) ||
                    PyType_FastSubclass(base, Py_TPFLAGS_DICT_SUBCLASS) || base == &PySet_Type ||
                    base == &PyFrozenSet_Type || base == deque_class();
    if (!is_plain || (type != base && type->tp_finalize != nullptr) || base->tp_new == nullptr) return {};
    Ref<> nothing = Ref<>::steal(PyTuple_New(0));
    Ref<> made = nothing ? Ref<>::steal(base->tp_new(type, nothing.get(), nullptr)) : Ref<>();
    if (!made) PyErr_Clear();
    return made;
}

Ref<> empty_view(const DictViewValue* view) {
    PyTypeObject* type = view->type();
    bool is_ordered = type == &PyODictKeys_Type || type == &PyODictItems_Type || type == &PyODictValues_Type;
    Ref<> dict = empty_instance(is_ordered ? &PyODict_Type : &PyDict_Type);
    if (!dict || view->what == DictViewValue::What::Proxy) return {};
    const char* method = view->what == DictViewValue::What::Keys     ? "keys"
                         : view->what == DictViewValue::What::Values ? "values"
                                                                     : "items";
    return Ref<>::steal(PyObject_CallMethod(dict.get(), method, nullptr));
}

[[noreturn]] void break_at(Tracer& tracer, const std::string& operation, Value* left, Value* right) {
    tracer.break_graph(BreakKind::UnknownObject, operation + " of " + left->type()->tp_name + " and " +
                                                     right->type()->tp_name + ", which Stator has no model of");
}

}  // namespace

namespace {

/// User-defined methods would see a stand-in as `self`.
bool has_methods_that_operators_call(Tracer& tracer, Value* value) {
    for (const char* name : {"__index__", "__int__", "__float__", "__iter__", "__len__", "__getitem__", "__contains__"})
        if (operations::user_method(tracer, value, name) != nullptr) return true;
    return false;
}

}  // namespace

Ref<> stand_in(Tracer& tracer, Value* value) {
    tracer.realize(value);
    switch (value->kind) {
        case Kind::Constant:
            return value->as_constant(tracer);
        case Kind::Class:
            return Ref<>::share(reinterpret_cast<PyObject*>(static_cast<ClassValue*>(value)->held));
        case Kind::DictView:
            return empty_view(static_cast<DictViewValue*>(value));
        case Kind::Tuple:
        case Kind::List:
        case Kind::Dict:
        case Kind::Set:
        case Kind::Deque:
        case Kind::Object:
            return has_methods_that_operators_call(tracer, value) ? Ref<>() : empty_instance(value->type());
        default:
            return {};
    }
}

PyObject* python_binary(BinaryOperator op, bool in_place, PyObject* left, PyObject* right) {
    std::size_t number = static_cast<std::size_t>(op) + (in_place ? cpython::kFirstInPlace : 0);
    return cpython::binary_operation(number, left, right);
}

std::string quoted_type(const Value* value) {
    return "'" + std::string(value->type()->tp_name) + "'";
}

void refuse_operands(Tracer& tracer, BinaryOperator op, bool in_place, Value* left, Value* right) {
    Ref<> left_object = stand_in(tracer, left);
    Ref<> right_object = stand_in(tracer, right);
    if (left_object && right_object &&
        !Ref<>::steal(python_binary(op, in_place, left_object.get(), right_object.get())))
        tracer.raise_from_python();
    break_at(tracer, std::string("'") + symbol(op, in_place) + "'", left, right);
}

Value* refusal_of_method(Tracer& tracer, const char* method, Value* self, Value* other) {
    Ref<> self_object = stand_in(tracer, self);
    Ref<> other_object = stand_in(tracer, other);
    if (!self_object || !other_object) break_at(tracer, method, self, other);
    // The method of the class written in C: a user-defined method called it.
    PyTypeObject* base = self->type();
    while ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) base = base->tp_base;
    Ref<> function = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), method));
    PyObject* operands[] = {self_object.get(), other_object.get()};
    Ref<> answer = function ? Ref<>::steal(PyObject_Vectorcall(function.get(), operands, 2, nullptr)) : Ref<>();
    if (!answer) tracer.raise_from_python();
    if (answer.get() != Py_NotImplemented) break_at(tracer, method, self, other);
    return tracer.constant(Py_NotImplemented);
}

}  // namespace stator
