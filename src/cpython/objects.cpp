#include "cpython/objects.h"

#include <cstddef>

#include "base/python_error.h"

extern "C" PyObject* stator_dict_if_made(PyObject* object);
extern "C" Py_ssize_t stator_dict_offset(PyObject* object);
extern "C" PyObject* stator_instance_attribute(PyObject* object, PyObject* name);

namespace stator::cpython {

PyObject** dict_slot(PyObject* object) {
    PyObject** slot = _PyObject_GetDictPtr(object);
    if (slot == nullptr) return nullptr;
    if (*slot == nullptr) {
        // Some objects, such as functions, create theirs on first use.
        Ref<> made = Ref<>::steal(PyObject_GenericGetDict(object, nullptr));
        if (!made) PyErr_Clear();
    }
    return *slot == nullptr ? nullptr : slot;
}

Borrowed<> instance_dict(PyObject* object) {
    PyObject** slot = dict_slot(object);
    return slot == nullptr ? nullptr : *slot;
}

Borrowed<> instance_dict_if_made(PyObject* object) {
    return stator_dict_if_made(object);
}
Py_ssize_t dict_offset(PyObject* object) {
    return stator_dict_offset(object);
}
Borrowed<> instance_attribute(PyObject* object, PyObject* name) {
    return stator_instance_attribute(object, name);
}

namespace {

#if PY_VERSION_HEX >= 0x030C0000
Ref<> type_dict(PyTypeObject* type) {
    return Ref<>::steal(PyType_GetDict(type));
}
#else
Ref<> type_dict(PyTypeObject* type) {
    return Ref<>::share(type->tp_dict);
}
#endif

}  // namespace

Borrowed<> lookup_in_mro(PyTypeObject* type, PyObject* name, PyTypeObject** owner) {
    PyObject* mro = type->tp_mro;
    if (mro == nullptr) return nullptr;
    // Answered from CPython's cache in most cases.
    if (owner == nullptr) return _PyType_Lookup(type, name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
        Ref<> dict = type_dict(base);
        if (!dict) continue;
        if (PyObject* found = PyDict_GetItemWithError(dict.get(), name)) {
            *owner = base;
            return found;
        }
        PyErr_Clear();
    }
    return nullptr;
}

Borrowed<> class_dict(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
    // Static builtin classes store it elsewhere; it lives as long as they do.
    return Ref<>::steal(PyType_GetDict(type)).get();
#else
    return type->tp_dict;
#endif
}

Ref<> name_for_empty_slot_message(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030D0000
    return checked(PyType_GetFullyQualifiedName(type));
#else
    return checked(PyUnicode_FromString(type->tp_name));
#endif
}

PyCodeObject* code_of(PyFunctionObject* function) {
    return reinterpret_cast<PyCodeObject*>(function->func_code);
}
Borrowed<> globals_of(PyFunctionObject* function) {
    return function->func_globals;
}
Borrowed<> builtins_of(PyFunctionObject* function) {
    return function->func_builtins;
}
Borrowed<> defaults_of(PyFunctionObject* function) {
    return function->func_defaults;
}
Borrowed<> keyword_defaults_of(PyFunctionObject* function) {
    return function->func_kwdefaults;
}
Py_ssize_t offset_of_function_attribute(PyObject* name) {
    if (PyUnicode_CompareWithASCIIString(name, "__code__") == 0) return offsetof(PyFunctionObject, func_code);
    if (PyUnicode_CompareWithASCIIString(name, "__defaults__") == 0) return offsetof(PyFunctionObject, func_defaults);
    if (PyUnicode_CompareWithASCIIString(name, "__kwdefaults__") == 0)
        return offsetof(PyFunctionObject, func_kwdefaults);
    return 0;
}
Borrowed<> closure_of(PyFunctionObject* function) {
    return function->func_closure;
}

bool holds_arguments(PyObject* callable) {
    if (!PyFunction_Check(callable)) return false;
    // The vectorcall function of Python functions is not exported under one name by all versions; it is read from a
    // dummy function.
    static const vectorcallfunc usual = [] {
        Ref<> code = Ref<>::steal(reinterpret_cast<PyObject*>(PyCode_NewEmpty("", "", 1)));
        Ref<> globals = Ref<>::steal(PyDict_New());
        Ref<> function = code && globals ? Ref<>::steal(PyFunction_New(code.get(), globals.get())) : nullptr;
        if (!function) PyErr_Clear();
        return function ? reinterpret_cast<PyFunctionObject*>(function.get())->vectorcall : nullptr;
    }();
    return usual != nullptr && reinterpret_cast<PyFunctionObject*>(callable)->vectorcall == usual;
}

Borrowed<> c_method_descriptor(PyObject* object) {
    if (!Py_IS_TYPE(object, &PyCFunction_Type)) return nullptr;
    PyObject* self = PyCFunction_GET_SELF(object);
    if (self == nullptr || PyModule_Check(self)) return nullptr;
    // A classmethod is bound to the class, and found in that class or in one of its bases.
    const bool is_of_class = PyType_Check(self);
    PyTypeObject* const owner = is_of_class ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    PyTypeObject* const kind = is_of_class ? &PyClassMethodDescr_Type : &PyMethodDescr_Type;
    const PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
    Ref<> name = Ref<>::steal(PyUnicode_InternFromString(method->ml_name));
    if (!name) {
        PyErr_Clear();
        return nullptr;
    }
    PyObject* descriptor = lookup_in_mro(owner, name.get());
    bool is_it = descriptor != nullptr && Py_IS_TYPE(descriptor, kind) &&
                 reinterpret_cast<PyMethodDescrObject*>(descriptor)->d_method == method;
    return is_it ? descriptor : nullptr;
}

PyTypeObject* deque_class() {
    static PyTypeObject* const type = [] {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("_collections"));
        return reinterpret_cast<PyTypeObject*>(module ? PyObject_GetAttrString(module.get(), "deque") : nullptr);
    }();
    return type;
}

PyTypeObject* method_wrapper_class() {
    static PyTypeObject* const type = [] {
        Ref<> bound = Ref<>::steal(PyObject_GetAttrString(Py_None, "__str__"));
        return reinterpret_cast<PyTypeObject*>(bound ? Py_NewRef(Py_TYPE(bound.get())) : nullptr);
    }();
    return type;
}

Py_ssize_t deque_length(PyObject* deque) {
    return deque_class()->tp_as_sequence->sq_length(deque);
}

Borrowed<> deque_item(PyObject* deque, Py_ssize_t index) {
    if (index >= deque_length(deque)) return nullptr;
    // The deque holds a reference too.
    return Ref<>::steal(deque_class()->tp_as_sequence->sq_item(deque, index)).get();
}

Borrowed<> cell_contents(PyObject* cell) {
    return PyCell_GET(cell);
}

PyCodeObject* generator_code(PyObject* generator) {
#if PY_VERSION_HEX >= 0x030C0000
    // The generator keeps the code alive, so the new reference is not needed.
    PyCodeObject* code = PyGen_GetCode(reinterpret_cast<PyGenObject*>(generator));
    Py_DECREF(code);
    return code;
#else
    return reinterpret_cast<PyGenObject*>(generator)->gi_code;
#endif
}

namespace {

// The layouts of these types are private to their C files, and the same in 3.11, 3.12 and 3.13.
struct RangeLayout {
    PyObject_HEAD PyObject *start, *stop, *step, *length;
};
struct WrapperLayout {
    PyObject_HEAD PyObject* callable;
};
struct PropertyLayout {
    PyObject_HEAD PyObject *getter, *setter, *deleter;
};
struct SuperLayout {
    PyObject_HEAD PyTypeObject* type;
    PyObject* object;
    PyTypeObject* object_type;
};

template <class Layout>
const Layout* as(PyObject* object) {
    return reinterpret_cast<const Layout*>(object);
}

}  // namespace

RangeParts range_parts(PyObject* range) {
    auto* parts = as<RangeLayout>(range);
    return {parts->start, parts->stop, parts->step, parts->length};
}

SliceParts slice_parts(PyObject* slice) {
    auto* parts = reinterpret_cast<PySliceObject*>(slice);
    return {parts->start, parts->stop, parts->step};
}

Borrowed<> wrapped_callable(PyObject* class_or_static_method) {
    return as<WrapperLayout>(class_or_static_method)->callable;
}

PropertyParts property_parts(PyObject* property) {
    auto* parts = as<PropertyLayout>(property);
    return {parts->getter, parts->setter, parts->deleter};
}

Borrowed<> mapping_of_proxy(PyObject* proxy) {
    // The traverse function visits only the mapping.
    PyObject* mapping = nullptr;
    PyDictProxy_Type.tp_traverse(
        proxy,
        [](PyObject* held, void* found) {
            *static_cast<PyObject**>(found) = held;
            return 0;
        },
        &mapping);
    return mapping;
}

SuperParts super_parts(PyObject* super) {
    auto* parts = as<SuperLayout>(super);
    return {parts->type, parts->object, parts->object_type};
}

}  // namespace stator::cpython
