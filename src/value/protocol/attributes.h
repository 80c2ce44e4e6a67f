/// Attribute access in Python's true order: data descriptors of the class, the instance, other class attributes, then
/// `__getattr__`.
#pragma once

#include "value/tracer.h"

namespace stator {

/// The attribute `name` along the MRO of `type`, unbound, with its source; null (guarded as such) if there is none.
/// `found` receives the raw object.
Value* class_attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, PyObject** found = nullptr);

/// Relies on the MRO of a class: somebody may assign to its `__bases__`, or to those of one above it.
void guard_mro(Tracer& tracer, PyTypeObject* type);
/// Whether `of` is in the MRO of `type`, now and in the next call.
bool is_subtype(Tracer& tracer, PyTypeObject* type, PyTypeObject* of);
/// Whether instances of a class have this special method, now and in the next call.
bool has_special_method(Tracer& tracer, PyTypeObject* type, const char* name);

/// Python's `object.__getattribute__`; null if there is no such attribute.
Outcome plain_get_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// `self.name`: the `__getattribute__` of the class, or the plain one, followed by `__getattr__`.
Outcome generic_get_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// `object.__setattr__` and `object.__delattr__`: data descriptors of the class, then the instance. A value of None.
Outcome generic_set_attribute(Tracer& tracer, Value* self, Borrowed<> name, Value* value);
Outcome generic_delete_attribute(Tracer& tracer, Value* self, Borrowed<> name);

/// What a class attribute becomes when read through an instance (`self` not null) or through the class itself.
Outcome bind_attribute(Tracer& tracer, Value* attribute, PyObject* raw, Value* self, PyTypeObject* type,
                       Borrowed<> name);

/// Breaks unless the C code that sets attributes of instances of `type` is `setter`, and nothing more special.
void expect_setter(Tracer& tracer, PyTypeObject* type, setattrofunc setter);

/// Raises Python's AttributeError for a missing attribute.
[[noreturn]] void raise_no_attribute(Tracer& tracer, Value* self, Borrowed<> name);
/// Raises what Python does where an attribute is set or deleted that the object has no place for.
[[noreturn]] void refuse_attribute(Tracer& tracer, Value* self, Borrowed<> name, bool is_deleted);

}  // namespace stator
