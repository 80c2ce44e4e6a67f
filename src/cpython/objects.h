/// Parts of objects that the public API of CPython gives no access to, or only with side effects. Nothing here runs
/// user code. Results are borrowed and may be null.
#pragma once

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

/// The instance's dictionary, created if the object has none yet; null if its type has none. Once
/// created, the object keeps it until `__dict__` is assigned.
Borrowed<> instance_dict(PyObject* object);
/// The address of the object's dictionary pointer; the dictionary is created if needed; null if its type has none.
PyObject** dict_slot(PyObject* object);
/// The dictionary if it was created already, else null.
Borrowed<> instance_dict_if_made(PyObject* object);
/// The offset in bytes of the dictionary pointer in the object, the same for all objects of its type. The pointer is
/// null until the dictionary is created. 0 if there is no such offset.
Py_ssize_t dict_offset(PyObject* object);
/// An attribute of the instance itself, not of its type, with or without a dictionary, and without creating one.
/// `name` has to be an exact `str`.
Borrowed<> instance_attribute(PyObject* object, PyObject* name);

/// Looks `name` up along the MRO, without binding. `owner`, if given, is set on success to the class that
/// defines it; without it, the lookup is answered by CPython's own cache.
Borrowed<> lookup_in_mro(PyTypeObject* type, PyObject* name, PyTypeObject** owner = nullptr);

/// The class's own dictionary; its bases' are not in it.
Borrowed<> class_dict(PyTypeObject* type);

/// The name of a class as in Python's message about an empty slot of an instance. Throws `PythonError`.
Ref<> name_for_empty_slot_message(PyTypeObject* type);

/// Functions.
PyCodeObject* code_of(PyFunctionObject* function);
Borrowed<> globals_of(PyFunctionObject* function);
Borrowed<> builtins_of(PyFunctionObject* function);
/// A tuple, or null.
Borrowed<> defaults_of(PyFunctionObject* function);
/// A dict, or null.
Borrowed<> keyword_defaults_of(PyFunctionObject* function);
/// Where a function keeps the object that its attribute `name` returns (`__code__`, `__defaults__`, `__kwdefaults__`;
/// None if it is null). 0 for other attributes, which are computed.
Py_ssize_t offset_of_function_attribute(PyObject* name);
/// A tuple of cells, or null.
Borrowed<> closure_of(PyFunctionObject* function);
/// Whether it is a function that the interpreter calls directly: the frame then owns its arguments before any code
/// runs.
bool holds_arguments(PyObject* callable);

/// `collections.deque` objects. An item beyond the end is null.
PyTypeObject* deque_class();
inline bool is_deque(PyObject* object) {
    return PyObject_TypeCheck(object, deque_class());
}
Py_ssize_t deque_length(PyObject* deque);
Borrowed<> deque_item(PyObject* deque, Py_ssize_t index);

/// The descriptor of a bound C method (`[].append`, `dict.fromkeys`), as its class has it now;
/// null for other objects, or if its class has another attribute of that name.
Borrowed<> c_method_descriptor(PyObject* object);

/// The class of bound slots of C classes (`(1).__add__`), which not every version exports.
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
