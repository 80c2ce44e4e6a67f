/// Parts of objects that the public API of CPython gives no access to, or only with side effects. Nothing here runs
/// user code. Results are borrowed and may be null.
#pragma once

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

/// The instance's dictionary, made if the object keeps its attributes without one; null if its type has none. Once
/// made, a dictionary stays the object's own until `__dict__` is assigned.
Borrowed<> instance_dict(PyObject* object);
/// Where the object keeps its dictionary, which is made if need be; null if its type has none.
PyObject** dict_slot(PyObject* object);
/// The dictionary if there is one already. Null otherwise, also where attributes are kept without.
Borrowed<> instance_dict_if_made(PyObject* object);
/// How many bytes from the object its dictionary is referred to, the same for all objects of its type: once one is
/// made, this place holds it, and nothing else does until then. 0 if there is no such place.
Py_ssize_t dict_offset(PyObject* object);
/// An attribute of the instance itself, not of its type, whether it keeps a dictionary or not, and without making one.
/// `name` has to be an exact `str`.
Borrowed<> instance_attribute(PyObject* object, PyObject* name);

/// The first class in the order of resolution that defines `name`, and what it defines it as. Binds nothing, caches
/// nothing. `owner`, if given, is set on success.
Borrowed<> lookup_in_mro(PyTypeObject* type, PyObject* name, PyTypeObject** owner = nullptr);

/// The class's own dictionary; its bases' are not in it.
Borrowed<> class_dict(PyTypeObject* type);

/// How Python names a class where it says that a slot of an instance is empty. Throws `PythonError`.
Ref<> name_beside_empty_slot(PyTypeObject* type);

/// Functions.
PyCodeObject* code_of(PyFunctionObject* function);
Borrowed<> globals_of(PyFunctionObject* function);
Borrowed<> builtins_of(PyFunctionObject* function);
/// A tuple, or null.
Borrowed<> defaults_of(PyFunctionObject* function);
/// A dict, or null.
Borrowed<> keyword_defaults_of(PyFunctionObject* function);
/// A tuple of cells, or null.
Borrowed<> closure_of(PyFunctionObject* function);
/// Whether it is a function that Python itself calls: then the frame holds its arguments before anything runs, and
/// nobody else needs to.
bool holds_arguments(PyObject* callable);

/// `collections.deque` objects. An item beyond the end is null.
PyTypeObject* deque_class();
inline bool is_deque(PyObject* object) {
    return PyObject_TypeCheck(object, deque_class());
}
Py_ssize_t deque_length(PyObject* deque);
Borrowed<> deque_item(PyObject* deque, Py_ssize_t index);

/// The descriptor that a bound method of C code (`[].append`, `dict.fromkeys`) was made by, as its class has it now;
/// null if the object is none, or its class has something else under that name.
Borrowed<> c_method_descriptor(PyObject* object);

/// The class of bound slots of C classes (`(1).__add__`), which has no name in the API of every version.
PyTypeObject* method_wrapper_class();

/// Null if the cell is empty.
Borrowed<> cell_contents(PyObject* cell);

/// `range` objects: `int` objects of any size.
struct RangeParts {
    Borrowed<> start, stop, step, length;
};
RangeParts range_parts(PyObject* range);

/// `slice` objects: any objects.
struct SliceParts {
    Borrowed<> start, stop, step;
};
SliceParts slice_parts(PyObject* slice);

/// Generators, coroutines and asynchronous generators.
PyCodeObject* generator_code(PyObject* generator);

/// `classmethod` and `staticmethod` objects: what they wrap.
Borrowed<> wrapped_callable(PyObject* class_or_static_method);

/// `property` objects: null where not given.
struct PropertyParts {
    Borrowed<> getter, setter, deleter;
};
PropertyParts property_parts(PyObject* property);

/// `types.MappingProxyType` objects: the mapping that they show.
Borrowed<> mapping_of_proxy(PyObject* proxy);

/// `super` objects.
struct SuperParts {
    Borrowed<PyTypeObject> type;
    Borrowed<> object;
    Borrowed<PyTypeObject> object_type;
};
SuperParts super_parts(PyObject* super);

}  // namespace stator::cpython
