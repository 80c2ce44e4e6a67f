/// Versions and parts of objects, for the tests of the `cpython` room.
#include <initializer_list>

#include "base/python_error.h"
#include "cpython/call_caches.h"
#include "cpython/dict_watch.h"
#include "cpython/objects.h"
#include "cpython/versions.h"
#include "testing/bind_frames.h"

namespace stator {

namespace {

PyObject* or_none(PyObject* borrowed) {
    return Py_NewRef(borrowed == nullptr ? Py_None : borrowed);
}

PyObject* dict_version(PyObject*, PyObject* dict) {
    return PyLong_FromUnsignedLongLong(cpython::dict_version(dict));
}
PyObject* make_versioned(PyObject*, PyObject* dict) {
    return PyBool_FromLong(cpython::make_versioned(dict));
}
PyObject* watch_dict(PyObject*, PyObject* dict) {
    cpython::watch_dict(dict);
    return PyBool_FromLong(cpython::is_watched(dict));
}
PyObject* is_watched(PyObject*, PyObject* dict) {
    return PyBool_FromLong(cpython::is_watched(dict));
}
PyObject* watched_dict_changes(PyObject*, PyObject*) {
    return PyLong_FromUnsignedLongLong(cpython::watched_dict_changes());
}
PyObject* type_version(PyObject*, PyObject* type) {
    return PyLong_FromUnsignedLong(cpython::type_version(reinterpret_cast<PyTypeObject*>(type)));
}
PyObject* instance_dict(PyObject*, PyObject* object) {
    return or_none(cpython::instance_dict(object));
}
PyObject* instance_dict_if_made(PyObject*, PyObject* object) {
    return or_none(cpython::instance_dict_if_made(object));
}

/// (object, name) -> value or the marker for NULL
PyObject* instance_attribute(PyObject*, PyObject* given) {
    PyObject *object = nullptr, *name = nullptr;
    if (!PyArg_ParseTuple(given, "OU", &object, &name)) return nullptr;
    PyObject* value = cpython::instance_attribute(object, name);
    return Py_NewRef(value == nullptr ? null_marker() : value);
}

/// (type, name) -> (value, owner) or None
PyObject* lookup_in_mro(PyObject*, PyObject* given) {
    PyObject *type = nullptr, *name = nullptr;
    if (!PyArg_ParseTuple(given, "O!U", &PyType_Type, &type, &name)) return nullptr;
    PyTypeObject* owner = nullptr;
    PyObject* value = cpython::lookup_in_mro(reinterpret_cast<PyTypeObject*>(type), name, &owner);
    if (value == nullptr) Py_RETURN_NONE;
    return Py_BuildValue("(OO)", value, owner);
}

/// A tuple of the parts of a range, slice, classmethod, staticmethod, property, super object, function or cell.
PyObject* parts(PyObject*, PyObject* object) {
    auto tuple = [](std::initializer_list<PyObject*> values) {
        PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
        Py_ssize_t position = 0;
        for (PyObject* value : values) PyTuple_SET_ITEM(made, position++, or_none(value));
        return made;
    };
    auto as_object = [](PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); };
    if (cpython::is_deque(object)) {
        PyObject* made = PyTuple_New(cpython::deque_length(object));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i)
            PyTuple_SET_ITEM(made, i, or_none(cpython::deque_item(object, i)));
        return made;
    }
    if (PyRange_Check(object)) {
        auto range = cpython::range_parts(object);
        return tuple({range.start, range.stop, range.step, range.length});
    }
    if (PySlice_Check(object)) {
        auto slice = cpython::slice_parts(object);
        return tuple({slice.start, slice.stop, slice.step});
    }
    if (PyFunction_Check(object)) {
        auto* function = reinterpret_cast<PyFunctionObject*>(object);
        return tuple({reinterpret_cast<PyObject*>(cpython::code_of(function)), cpython::globals_of(function),
                      cpython::builtins_of(function), cpython::defaults_of(function),
                      cpython::keyword_defaults_of(function), cpython::closure_of(function)});
    }
    if (PyGen_Check(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object))
        return tuple({reinterpret_cast<PyObject*>(cpython::generator_code(object))});
    if (PyCell_Check(object)) return tuple({cpython::cell_contents(object)});
    if (PyObject_TypeCheck(object, &PySuper_Type)) {
        auto super = cpython::super_parts(object);
        return tuple({as_object(super.type), super.object, as_object(super.object_type)});
    }
    if (PyObject_TypeCheck(object, &PyProperty_Type)) {
        auto property = cpython::property_parts(object);
        return tuple({property.getter, property.setter, property.deleter});
    }
    return tuple({cpython::wrapped_callable(object)});
}

/// (cached function, arguments, keywords or None, whether it has typed=True) -> result or the marker for NULL
PyObject* cached_call(PyObject*, PyObject* given) {
    PyObject *cached = nullptr, *arguments = nullptr, *keywords = nullptr;
    int is_typed = 0;
    if (!PyArg_ParseTuple(given, "OO!Op", &cached, &PyTuple_Type, &arguments, &keywords, &is_typed)) return nullptr;
    try {
        Ref<> key = cpython::call_cache_key(arguments, keywords == Py_None ? nullptr : keywords, is_typed != 0);
        const Py_hash_t hash = PyObject_Hash(key.get());
        if (hash == -1) return nullptr;
        PyObject* found = cpython::cached_call_result(cached, key.get(), hash);
        return Py_NewRef(found == nullptr ? null_marker() : found);
    } catch (const PythonError&) {
        return nullptr;
    }
}

/// (cached function, arguments, keywords or None, result)
PyObject* note_cached_call(PyObject*, PyObject* given) {
    PyObject *cached = nullptr, *arguments = nullptr, *keywords = nullptr, *result = nullptr;
    if (!PyArg_ParseTuple(given, "OO!OO", &cached, &PyTuple_Type, &arguments, &keywords, &result)) return nullptr;
    try {
        cpython::note_cached_call(cached, arguments, keywords == Py_None ? nullptr : keywords, result);
        Py_RETURN_NONE;
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyMethodDef kFunctions[] = {
    {"_frames_cached_call", cached_call, METH_VARARGS, nullptr},
    {"_frames_note_cached_call", note_cached_call, METH_VARARGS, nullptr},
    {"_frames_dict_version", dict_version, METH_O, nullptr},
    {"_frames_make_versioned", make_versioned, METH_O, nullptr},
    {"_frames_watch_dict", watch_dict, METH_O, nullptr},
    {"_frames_is_watched", is_watched, METH_O, nullptr},
    {"_frames_watched_dict_changes", watched_dict_changes, METH_NOARGS, nullptr},
    {"_frames_type_version", type_version, METH_O, nullptr},
    {"_frames_instance_dict", instance_dict, METH_O, nullptr},
    {"_frames_instance_dict_if_made", instance_dict_if_made, METH_O, nullptr},
    {"_frames_instance_attribute", instance_attribute, METH_VARARGS, nullptr},
    {"_frames_lookup_in_mro", lookup_in_mro, METH_VARARGS, nullptr},
    {"_frames_parts", parts, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_frames_objects(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
