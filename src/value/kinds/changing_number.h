/// Ints and floats from outside that change from call to call. Such a value is a constant that was not looked at yet:
/// what it is in this trace (`held`), with an expression that says what it is in every call. Arithmetic and comparisons
/// with other numbers keep it so, and so do operations on tensors for which any number of its class is as good as any
/// other. All else realizes it, as every value from outside is realized when it is looked at, which guards that it is
/// the one that was seen.
#pragma once

#include "value/kinds/constant.h"
#include "value/tracer.h"

namespace stator::symbolic {

/// Whether the value is a number that may be another one in the next call.
inline bool is(const Value* value) {
    return value->kind == Kind::Constant && static_cast<const ConstantValue*>(value)->is_symbolic();
}

/// Takes a number from outside for a variable, if it fits into 64 bits.
void make_variable(Tracer& tracer, ConstantValue* value);

// What an operation comes to if it can be done without looking at the value; null if it can't, or nothing here is
// symbolic.
Value* binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Value* unary(Tracer& tracer, UnaryOperator op, Value* operand);
Value* compare(Tracer& tracer, Comparison op, Value* left, Value* right);
Value* truth(Tracer& tracer, Value* value);
Value* absolute(Tracer& tracer, Value* value);

/// Relies on the class of the value alone.
void realize_class(Tracer& tracer, Value* value);
/// Guards that the value is what it was in this trace.
void specialize(Tracer& tracer, ConstantValue* value);
/// Relies on an int being one that C code takes for a 64-bit int.
void guard_fits(Tracer& tracer, ConstantValue* value);
/// Relies on a float being one that every float dtype can hold. False if it is not now.
bool guard_moderate(Tracer& tracer, ConstantValue* value);

/// Realizes every number in it.
void realize_all(Tracer& tracer, Value* value);

/// `tensor[key]` after the symbolic ints in the key had their effect: each selects a part of the tensor, as an
/// operation of its own, because `[]` would ask it for its value. What is left of the key holds no symbolic int.
struct Selected {
    TensorValue* tensor;
    Value* rest;  // null if nothing is left
};
Selected select(Tracer& tracer, TensorValue* tensor, Value* key);

}  // namespace stator::symbolic
