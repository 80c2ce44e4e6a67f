/// Calls of numpy on arrays as nodes of the graph. numpy itself says what such a call returns: it is called on arrays
/// of the same dtypes and sizes (`python/stator/arrays.py`). Where the node would do anything else the graph breaks.
#pragma once

#include "value/kinds/array.h"

namespace stator {

/// Whether an array, or a numpy scalar that the graph computes, is among the arguments or in a list or tuple there.
bool has_array(const Arguments& arguments);

/// Whether it is a function, class or method of numpy that nodes can stand for.
bool is_array_function(Borrowed<> callable);
/// Calls such a function. Breaks the graph where that can't be captured.
Value* call_array_function(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// An operator: a function of module `operator`. Null where Python would see NotImplemented.
Value* array_operator(Tracer& tracer, Borrowed<> function, const Arguments& operands);
/// `array.T`, `array.real`, ...
Value* array_attribute(Tracer& tracer, ArrayValue* array, Borrowed<> name);
Value* array_item(Tracer& tracer, ArrayValue* array, Value* key);
void set_array_item(Tracer& tracer, ArrayValue* array, Value* key, Value* value);

/// Breaks the graph if arrays are not to be captured, or where autocast would change what nodes compute.
void expect_arrays_are_traced(Tracer& tracer);

}  // namespace stator
