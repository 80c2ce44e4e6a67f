/// Ints and floats from outside that change from call to call. Such a value is a constant that is not realized: it has
/// the number of this call (`held`), and an expression that computes it in every call. Arithmetic and comparisons with
/// other numbers give symbolic results, and tensor operations whose result metadata don't depend on the number take it
/// as it is. Any other use realizes the value, which guards that it equals `held`.
#pragma once

#include "value/kinds/constant.h"
#include "value/tracer.h"

namespace stator {
struct TensorValue;
}

namespace stator::symbolic {

/// Whether the value is a number that may differ in the next call.
inline bool is(const Value* value) {
    return value->kind == Kind::Constant && static_cast<const ConstantValue*>(value)->is_symbolic();
}

/// Whether it is a number, or a bool, that only the graph knows.
inline bool is_unbacked(const Value* value) {
    return is(value) && static_cast<const ConstantValue*>(value)->expression->is_unbacked;
}

/// The value of an expression; of a condition a bool.
ConstantValue* value_of(Tracer& tracer, const Expression* expression);

/// A comparison that depends on data and that nothing decides, as a bool that only the graph knows. Null for others.
Value* condition(Tracer& tracer, Comparison op, Value* left, Value* right);
/// The truth of a number or bool that only the graph knows; null for others.
Value* truth_by_data(Tracer& tracer, Value* value);
/// What such a bool comes to, if something decides it.
std::optional<bool> decided(Tracer& tracer, Value* condition);
/// The same bool, inverted.
Value* inverted(Tracer& tracer, Value* condition);

/// Makes a number from outside symbolic, if it fits into 64 bits.
void make_variable(Tracer& tracer, ConstantValue* value, SymbolOrigin origin);

// The symbolic result of an operation; null if no operand is symbolic, or if the operation needs the number itself.
Value* binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right);
Value* unary(Tracer& tracer, UnaryOperator op, Value* operand);
Value* compare(Tracer& tracer, Comparison op, Value* left, Value* right);
Value* truth(Tracer& tracer, Value* value);
Value* absolute(Tracer& tracer, Value* value);
/// `min` or `max` of two ints.
Value* extreme(Tracer& tracer, bool greatest, Value* left, Value* right);
/// A function of Python that takes one number, such as `math.floor`.
Value* function(Tracer& tracer, Expression::Op function, Value* value);

/// Guards only the class of the value.
void realize_class(Tracer& tracer, Value* value);
/// Guards that the number is the one of this trace.
void specialize(Tracer& tracer, ConstantValue* value);
/// Guards that an int fits into 64 bits.
void guard_fits(Tracer& tracer, ConstantValue* value);
/// Guards that every float dtype can hold the float. False if that isn't so in this call.
bool guard_moderate(Tracer& tracer, ConstantValue* value);

/// Realizes every number in a value.
void realize_all(Tracer& tracer, Value* value);

/// `tensor[key]` after the symbolic ints of the key are applied. Each becomes a `torch.select`, because `[]` would
/// specialize a SymInt. The rest of the key has symbolic ints only in slices.
struct Selected {
    TensorValue* tensor;
    Value* rest;  // null if nothing is left
};
Selected select(Tracer& tracer, TensorValue* tensor, Value* key);

}  // namespace stator::symbolic
