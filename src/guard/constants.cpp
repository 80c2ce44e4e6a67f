#include "guard/constants.h"

#include <cstdint>
#include <cstring>

#include "cpython/objects.h"
#include "guard/numpy_numbers.h"
#include "guard/set_entries.h"
#include "torch/tensor.h"

namespace stator {

namespace {

/// For classes written in C whose comparison compares two plain structs.
bool equal_by_class(PyObject* object, PyObject* expected) {
    Ref<> answer = Ref<>::steal(Py_TYPE(expected)->tp_richcompare(object, expected, Py_EQ));
    if (!answer) PyErr_Clear();
    return answer.get() == Py_True;
}

bool is_class_of_torch(PyTypeObject* type, const char* name) {
    // A class created in Python is a heap type, so no user-defined class can match by its name.
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && std::strcmp(type->tp_name, name) == 0;
}

bool is_torch_device(PyTypeObject* type) {
    return is_class_of_torch(type, "torch.device");
}

/// A tuple subclass whose instances consist of their items only: named tuples and `torch.Size`, but no class with
/// instance attributes and no structseq, which has items beyond its length.
bool is_items_alone(PyTypeObject* type) {
    if (type == &PyTuple_Type) return true;
    if (type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0) return false;
    static PyObject* const structseq_mark = PyUnicode_InternFromString("n_sequence_fields");
    return cpython::lookup_in_mro(type, structseq_mark) == nullptr;
}

bool same_items(PyObject* object, PyObject* expected) {
    Py_ssize_t size = PyTuple_GET_SIZE(expected);
    if (PyTuple_GET_SIZE(object) != size) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
        if (!same_constant(PyTuple_GET_ITEM(object, i), PyTuple_GET_ITEM(expected, i))) return false;
    return true;
}

bool same_elements(PyObject* object, PyObject* expected) {
    if (PySet_GET_SIZE(object) != PySet_GET_SIZE(expected)) return false;
    for (SetEntries entries(object); entries.next();) {
        bool found = false;
        for (SetEntries others(expected); !found && others.next();)
            found = others.hash() == entries.hash() && same_constant(entries.key(), others.key());
        if (!found) return false;
    }
    return true;
}

}  // namespace

bool same_constant(Borrowed<> left, Borrowed<> right) {
    PyObject* object = left;
    PyObject* expected = right;
    if (object == expected) return true;
    PyTypeObject* type = Py_TYPE(expected);
    if (Py_TYPE(object) != type) return false;
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type)
        return equal_by_class(object, expected);
    if (type == &PyFloat_Type) {
        double is = PyFloat_AS_DOUBLE(object), was = PyFloat_AS_DOUBLE(expected);
        return std::memcmp(&is, &was, sizeof is) == 0;
    }
    if (type == &PyComplex_Type) {
        Py_complex is = PyComplex_AsCComplex(object), was = PyComplex_AsCComplex(expected);
        return std::memcmp(&is, &was, sizeof is) == 0;
    }
    if (PyTuple_Check(expected)) return is_items_alone(type) && same_items(object, expected);
    if (type == &PyFrozenSet_Type) return same_elements(object, expected);
    if (type == &PySlice_Type) {
        auto is = cpython::slice_parts(object), was = cpython::slice_parts(expected);
        return same_constant(is.start, was.start) && same_constant(is.stop, was.stop) &&
               same_constant(is.step, was.step);
    }
    if (type == &PyRange_Type) {
        // Equal ranges may have different parts, which are visible as attributes: range(0, 3, 2) == range(0, 4, 2).
        auto is = cpython::range_parts(object), was = cpython::range_parts(expected);
        return same_constant(is.start, was.start) && same_constant(is.stop, was.stop) &&
               same_constant(is.step, was.step);
    }
    if (same_numpy_number(object, expected)) return true;
    return is_torch_device(type) && equal_by_class(object, expected);
}

bool same_contents(Borrowed<> left, Borrowed<> right) {
    PyObject* object = left;
    PyObject* expected = right;
    if (Py_TYPE(object) != Py_TYPE(expected)) return false;
    if (PyFloat_Check(expected)) {
        double is = PyFloat_AS_DOUBLE(object), was = PyFloat_AS_DOUBLE(expected);
        return std::memcmp(&is, &was, sizeof is) == 0;
    }
    if (PyComplex_Check(expected)) {
        Py_complex is = reinterpret_cast<PyComplexObject*>(object)->cval;
        Py_complex was = reinterpret_cast<PyComplexObject*>(expected)->cval;
        return std::memcmp(&is, &was, sizeof is) == 0;
    }
    for (PyTypeObject* base : {&PyLong_Type, &PyUnicode_Type, &PyBytes_Type}) {
        if (PyType_IsSubtype(Py_TYPE(expected), base) == 0) continue;
        Ref<> answer = Ref<>::steal(base->tp_richcompare(object, expected, Py_EQ));
        if (!answer) PyErr_Clear();
        return answer.get() == Py_True;
    }
    return false;
}

namespace {

bool is_scalar_key(PyObject* object) {
    return PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object) || object == Py_None ||
           PyFloat_CheckExact(object) || PyBytes_CheckExact(object) || PyComplex_CheckExact(object) ||
           object == Py_Ellipsis || is_torch_device(Py_TYPE(object));
}

/// Of a tuple.
template <class Test>
bool has_items(PyObject* object, Test test) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (!test(PyTuple_GET_ITEM(object, i))) return false;
    return true;
}

}  // namespace

bool is_constant_key(Borrowed<> object) {
    return is_scalar_key(object) || is_class_of_torch(Py_TYPE(object.get()), "torch.dtype") ||
           (PyTuple_CheckExact(object.get()) && has_items(object, is_constant_key));
}

bool is_known_by_identity(Borrowed<> object) {
    // Functions of a module are equal if they are the same C function of the same module: there is one object for each.
    if (PyCFunction_CheckExact(object.get())) {
        PyObject* const self = PyCFunction_GET_SELF(object.get());
        return self == nullptr || PyModule_Check(self) || PyType_Check(self);
    }
    richcmpfunc compare = Py_TYPE(object.get())->tp_richcompare;
    return compare == nullptr || compare == PyBaseObject_Type.tp_richcompare;
}

bool is_safe_beside(Borrowed<> key) {
    // Named tuples and sizes use the comparison of tuple.
    bool is_tuple = PyTuple_Check(key.get()) && Py_TYPE(key.get())->tp_richcompare == PyTuple_Type.tp_richcompare;
    return is_scalar_key(key) || is_known_by_identity(key) || (is_tuple && has_items(key, is_safe_beside));
}

bool is_safe_beside_tensor(Borrowed<> key, Borrowed<> tensor) {
    if (torch_room::is_plain_tensor(key)) return key.get() != tensor.get();
    if (!is_safe_beside(key)) return false;
    // The hash of a tensor is its id: it would be compared, element by element, with a number that equals it.
    bool is_number = PyLong_Check(key.get()) || PyFloat_Check(key.get()) || PyComplex_Check(key.get());
    return !is_number ||
           PyObject_Hash(key.get()) != static_cast<Py_hash_t>(reinterpret_cast<std::intptr_t>(tensor.get()));
}

}  // namespace stator
