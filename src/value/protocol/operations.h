/// Python's protocols over values: what an instruction or a builtin asks for. Each looks at what the class of the
/// operand says (a user's `__getitem__` is inlined), then at what the kind does.
#pragma once

#include "value/tracer.h"

namespace stator::operations {

Outcome get_attribute(Tracer& tracer, Value* object, Borrowed<> name);
/// Null instead of AttributeError; exceptions raised by the program's own code still pass.
/// (`getattr` with a default and `hasattr`; started as a task where the program's code runs.)
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
/// All items, as a list value, the way `list(iterable)` takes them: it asks how many there will be.
Outcome collect(Tracer& tracer, Value* iterable);
/// Calls what Python calls to know how many items an iterable will give. The answer is for Python alone.
Outcome ask_length_hint(Tracer& tracer, Value* iterable);
/// The way a set takes them: it does not ask.
Outcome collect_elements(Tracer& tracer, Value* iterable);
/// The way C code takes the items of any iterable as a list or a tuple (`str.join`): what is neither is asked for its
/// iterator, and that one for its items as by `list`.
Outcome collect_as_sequence(Tracer& tracer, Value* iterable);
/// At most so many items of an iterator, as a list value.
Outcome collect_some(Tracer& tracer, Value* iterator, std::size_t count);

Outcome binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Outcome in_place(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Outcome unary(Tracer& tracer, UnaryOperator op, Value* operand);
Outcome compare(Tracer& tracer, Comparison op, Value* left, Value* right);
/// A bool value: `is`.
Value* is(Tracer& tracer, Value* left, Value* right);

/// Whether two values are one object to the program. Guards what it had to look at.
bool same_object(Tracer& tracer, Value* left, Value* right);

/// The method `name` of the value's class if it is the program's own (a Python function), unbound; else null. The
/// class attribute is guarded.
Value* user_method(Tracer& tracer, Value* value, const char* name);

}  // namespace stator::operations
