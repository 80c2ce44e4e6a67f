/// Attribute access in Python's order: data descriptors of the class, the instance, other class attributes, then
/// `__getattr__`.
#pragma once

#include "value/tracer.h"

namespace stator {

/// The attribute `name` along the MRO of `type`, unbound, with its source; null if there is none, which is guarded too.
/// `found` receives the raw object.
Value* class_attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, PyObject** found = nullptr);

/// Guards the MRO of a class: the program may assign to its `__bases__`, or to those of a base class.
void guard_mro(Tracer& tracer, PyTypeObject* type);
/// Whether `of` is in the MRO of `type`. Guards the result.
bool is_subtype(Tracer& tracer, PyTypeObject* type, PyTypeObject* of);
/// Whether instances of a class have this special method. Guards the result.
bool has_special_method(Tracer& tracer, PyTypeObject* type, const char* name);

/// Python's `object.__getattribute__`; null if there is no such attribute.
Outcome plain_get_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// `self.name`: the `__getattribute__` of the class, or the plain one, followed by `__getattr__`.
Outcome generic_get_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// `object.__setattr__` and `object.__delattr__`: data descriptors of the class, then the instance. Returns None.
Outcome generic_set_attribute(Tracer& tracer, Value* self, Borrowed<> name, Value* value);
Outcome generic_delete_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// Binds a class attribute that is read through an instance (`self` not null) or through the class itself.
Outcome bind_attribute(Tracer& tracer, Value* attribute, PyObject* raw, Value* self, PyTypeObject* type,
                       Borrowed<> name);

/// Breaks unless `setter` is the C function that sets attributes of instances of `type`.
void expect_setter(Tracer& tracer, PyTypeObject* type, setattrofunc setter);

/// Raises Python's AttributeError for a missing attribute.
[[noreturn]] void raise_no_attribute(Tracer& tracer, Value* self, Borrowed<> name);
/// Raises Python's error for setting or deleting an attribute that the object can't have.
[[noreturn]] void refuse_attribute(Tracer& tracer, Value* self, Borrowed<> name, bool is_deleted);

}  // namespace stator
