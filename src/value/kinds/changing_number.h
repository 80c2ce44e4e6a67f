/// Outside ints and floats that change from call to call. Such a value is a constant that is not realized yet: `held`
/// is its value in this trace, and `expression` computes its value in every call. Arithmetic and comparisons with other
/// numbers keep it symbolic, and so do tensor operations that accept any number of its class. Every other use realizes
/// it, which guards its value.
#pragma once

#include "value/kinds/constant.h"
#include "value/tracer.h"

namespace stator::symbolic {

/// Whether the value is a number that may differ in the next call.
inline bool is(const Value* value) {
    return value->kind == Kind::Constant && static_cast<const ConstantValue*>(value)->is_symbolic();
}

/// Makes an outside number symbolic, if it fits into 64 bits.
void make_variable(Tracer& tracer, ConstantValue* value);

// The result of an operation if it can be computed without specializing on the value; null if it can't, or if no
// operand is symbolic.
Value* binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Value* unary(Tracer& tracer, UnaryOperator op, Value* operand);
Value* compare(Tracer& tracer, Comparison op, Value* left, Value* right);
Value* truth(Tracer& tracer, Value* value);
Value* absolute(Tracer& tracer, Value* value);

/// Guards only the class of the value.
void realize_class(Tracer& tracer, Value* value);
/// Guards that the number has the value that it had in this trace.
void specialize(Tracer& tracer, ConstantValue* value);
/// Guards that an int fits into 64 bits, as C code requires.
void guard_fits(Tracer& tracer, ConstantValue* value);
/// Guards that every float dtype can represent a float. False if that does not hold now.
bool guard_moderate(Tracer& tracer, ConstantValue* value);

/// Realizes every number in a value.
void realize_all(Tracer& tracer, Value* value);

/// `tensor[key]` after the symbolic ints in the key were applied. Each of them is a `select` node, because `[]` would
/// specialize on its value. The rest of the key has no symbolic int.
struct Selected {
    TensorValue* tensor;
    Value* rest;  // null if nothing is left
};
Selected select(Tracer& tracer, TensorValue* tensor, Value* key);

}  // namespace stator::symbolic
