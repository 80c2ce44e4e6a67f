/// Keys of dicts and elements of sets whose `__hash__` and `__eq__` are the program's own. Tables can't run the program's
/// code, so it is run before: afterwards the table knows the key's hash, and a key equal to one that it holds has become
/// that one.
#pragma once

#include "value/tracer.h"

namespace stator {

/// Whether the program's own code has to run before a table can look for the key.
bool needs_preparation(Tracer& tracer, Value* key);
/// Runs it. Gives the key to look for in `container`, a dict or a set.
Outcome prepare_key(Tracer& tracer, Value* container, Value* key);

/// Whether a value is an int to the program by a `__index__` of its own.
bool has_own_index(Tracer& tracer, Value* value);
/// Calls the program's `__index__`; gives an int.
Outcome index_by_method(Tracer& tracer, Value* value);

}  // namespace stator
