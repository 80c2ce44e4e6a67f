/// Python's protocols over values, used by instructions and builtins. Each checks the class of the operand first (a
/// user-defined `__getitem__` is inlined), then calls the kind.
#pragma once

#include "value/tracer.h"

namespace stator::operations {

Outcome get_attribute(Tracer& tracer, Value* object, Borrowed<> name);
/// `otherwise` instead of AttributeError; other exceptions of user code propagate. (`getattr` with a default and
/// `hasattr`; a task if user code runs.)
Outcome get_attribute_or(Tracer& tracer, Value* object, Borrowed<> name, Value* otherwise);
Outcome set_attribute(Tracer& tracer, Value* object, Borrowed<> name, Value* value);
Outcome delete_attribute(Tracer& tracer, Value* object, Borrowed<> name);

Outcome call(Tracer& tracer, Value* callee, const Arguments& arguments);
Outcome call_method(Tracer& tracer, Value* object, const char* name, const Arguments& arguments);

Outcome get_item(Tracer& tracer, Value* object, Value* key);
Outcome set_item(Tracer& tracer, Value* object, Value* key, Value* value);
Outcome delete_item(Tracer& tracer, Value* object, Value* key);
/// A bool value.
Outcome contains(Tracer& tracer, Value* container, Value* item);
/// A bool value.
Outcome truth(Tracer& tracer, Value* value);
/// An int value.
Outcome length(Tracer& tracer, Value* value);

Outcome iterate(Tracer& tracer, Value* iterable);
/// `Tracer::exhausted()` at the end.
Outcome next(Tracer& tracer, Value* iterator);
/// All items as a list value, as `list(iterable)` does: it calls `__length_hint__`.
Outcome collect(Tracer& tracer, Value* iterable);
/// Calls `__len__` or `__length_hint__` of an iterable, as Python does to preallocate. The result is not used.
Outcome call_length_hint(Tracer& tracer, Value* iterable);
/// As a set does: without calling `__length_hint__`.
Outcome collect_elements(Tracer& tracer, Value* iterable);
/// As C code that accepts any iterable does (`str.join`): a list or tuple is used directly, anything else is collected
/// like by `list`.
Outcome collect_as_sequence(Tracer& tracer, Value* iterable);
/// At most `count` items of an iterator, as a list value.
Outcome collect_some(Tracer& tracer, Value* iterator, std::size_t count);

Outcome binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Outcome in_place(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Outcome unary(Tracer& tracer, UnaryOperator op, Value* operand);
Outcome compare(Tracer& tracer, Comparison op, Value* left, Value* right);
/// A bool value: `is`.
Value* is(Tracer& tracer, Value* left, Value* right);

/// Whether two values are the same object. Guards what decided it.
bool same_object(Tracer& tracer, Value* left, Value* right);

/// The method `name` of the value's class if it is user-defined (a Python function), unbound; otherwise null. The class
/// attribute is guarded.
Value* user_method(Tracer& tracer, Value* value, const char* name);

}  // namespace stator::operations
