#include "value/protocol/operations.h"

#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/scalar.h"
#include "value/protocol/attributes.h"
#include "value/protocol/keys.h"
#include "value/protocol/percent_format.h"
#include "value/protocol/refusal.h"
#include "value/protocol/type_expressions.h"
#include "value/tensor/torch_function.h"

namespace stator::operations {

namespace {

bool is_not_implemented(Value* value) {
    return value == nullptr || value->object() == Py_NotImplemented;
}

[[noreturn]] void raise_unsupported(Tracer& tracer, BinaryOperator op, bool in_place, Value* left, Value* right) {
    std::string name = symbol(op, in_place);
    if (op == BinaryOperator::Power) name = in_place ? "**=" : "** or pow()";
    tracer.raise(PyExc_TypeError,
                 "unsupported operand type(s) for " + name + ": " + quoted_type(left) + " and " + quoted_type(right));
}

/// One operand's result of `left op right`: the user-defined method of its class if there is one, otherwise that of its
/// kind.
Outcome side(Tracer& tracer, BinaryOperator op, Value* self, Value* other, bool reflected) {
    if (Value* method = user_method(tracer, self, method_name(op, reflected)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    if (Value* method = method_calling_torch_function(tracer, self, other, method_name(op, reflected));
        method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    return self->binary(tracer, op, other, reflected);
}

bool reflected_goes_first(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (left->type() == right->type() || !PyType_IsSubtype(right->type(), left->type())) return false;
    Value* reflected = user_method(tracer, right, method_name(op, true));
    // A reflected method that the subclass only inherits does not go first.
    PyObject* name = interned(method_name(op, true));
    return reflected != nullptr &&
           cpython::lookup_in_mro(right->type(), name, nullptr) != cpython::lookup_in_mro(left->type(), name, nullptr);
}

Task binary_by_methods(Tracer& tracer, BinaryOperator op, Value* left, Value* right, bool in_place) {
    bool right_first = reflected_goes_first(tracer, op, left, right);
    if (right_first) {
        Value* answer = co_await side(tracer, op, right, left, true);
        if (!is_not_implemented(answer)) co_return answer;
    }
    Value* answer = co_await side(tracer, op, left, right, false);
    if (!is_not_implemented(answer)) co_return answer;
    if (!right_first && left->type() != right->type()) {
        answer = co_await side(tracer, op, right, left, true);
        if (!is_not_implemented(answer)) co_return answer;
    }
    raise_unsupported(tracer, op, in_place, left, right);
}

Task in_place_by_method(Tracer& tracer, BinaryOperator op, Value* method, Value* left, Value* right) {
    Value* answer = co_await call(tracer, method, Arguments::of(left, right));
    if (!is_not_implemented(answer)) co_return answer;
    co_return co_await tracer.start(binary_by_methods(tracer, op, left, right, true));
}

/// `sequence * count`.
bool is_repeated(Value* sequence, Value* count) {
    return count->kind == Kind::Object && (sequence->kind == Kind::List || sequence->kind == Kind::Tuple);
}

Task repeat_by_method(Tracer& tracer, Value* left, Value* right) {
    bool count_left = has_own_index(tracer, left);
    Value* count = co_await index_by_method(tracer, count_left ? left : right);
    co_return co_await binary(tracer, BinaryOperator::Multiply, count_left ? count : left, count_left ? right : count);
}

Outcome binary_operands(Tracer& tracer, BinaryOperator op, Value* left, Value* right, bool in_place) {
    if (op == BinaryOperator::Or)
        if (Value* made = union_of_types(tracer, left, right)) return made;
    if (user_method(tracer, left, method_name(op, false)) != nullptr ||
        user_method(tracer, right, method_name(op, true)) != nullptr ||
        method_calling_torch_function(tracer, left, right, method_name(op, false)) != nullptr ||
        method_calling_torch_function(tracer, right, left, method_name(op, true)) != nullptr)
        return tracer.start(binary_by_methods(tracer, op, left, right, in_place));
    if (op == BinaryOperator::Remainder && is_percent_format(tracer, left, right))
        return percent_format(tracer, left, right);
    if (op == BinaryOperator::Multiply && (is_repeated(left, right) || is_repeated(right, left)))
        if (has_own_index(tracer, left) || has_own_index(tracer, right))
            return tracer.start(repeat_by_method(tracer, left, right));
    if (Value* answer = left->binary(tracer, op, right, false); answer != nullptr) return answer;
    if (Value* answer = right->binary(tracer, op, left, true); answer != nullptr) return answer;
    refuse_operands(tracer, op, in_place, left, right);
}

bool takes_numbers(const Value* operand) {
    return operand->kind == Kind::Tensor || operand->kind == Kind::Array || operand->kind == Kind::TensorObject;
}

/// Next to a tensor or array, a number is not specialized on: the operation decides whether it has to be.
void realize_operands(Tracer& tracer, Value* left, Value* right) {
    if (!takes_numbers(right) || !symbolic::is(left)) tracer.realize(left);
    if (!takes_numbers(left) || !symbolic::is(right)) tracer.realize(right);
}

}  // namespace

Outcome binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (Value* answer = symbolic::binary(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    // For a tensor operation, an instance of a subclass of a number is a plain number.
    if (left->kind == Kind::Tensor && user_method(tracer, right, method_name(op, true)) == nullptr)
        right = unwrapped(tracer, right);
    if (right->kind == Kind::Tensor && user_method(tracer, left, method_name(op, false)) == nullptr)
        left = unwrapped(tracer, left);
    return binary_operands(tracer, op, left, right, false);
}

Outcome in_place(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (Value* answer = symbolic::binary(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    Value* method = user_method(tracer, left, in_place_method_name(op));
    if (method == nullptr) method = method_calling_torch_function(tracer, left, right, in_place_method_name(op));
    if (method != nullptr) return tracer.start(in_place_by_method(tracer, op, method, left, right));
    if (Outcome answer = left->update(tracer, op, right); answer.is_pending() || answer.value() != nullptr)
        return answer;
    return binary_operands(tracer, op, left, right, true);
}

Outcome unary(Tracer& tracer, UnaryOperator op, Value* operand) {
    if (Value* answer = symbolic::unary(tracer, op, operand)) return answer;
    tracer.realize(operand);
    if (Value* method = user_method(tracer, operand, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(operand));
    if (Value* answer = operand->unary(tracer, op); answer != nullptr) return answer;
    const char* sign = op == UnaryOperator::Negative ? "-" : op == UnaryOperator::Positive ? "+" : "~";
    tracer.raise(PyExc_TypeError, std::string("bad operand type for unary ") + sign + ": " + quoted_type(operand));
}

namespace {

constexpr Comparison kMirrored[] = {Comparison::Greater,  Comparison::GreaterEqual, Comparison::Equal,
                                    Comparison::NotEqual, Comparison::Less,         Comparison::LessEqual};

Comparison mirrored(Comparison op) {
    return kMirrored[static_cast<int>(op)];
}

/// Whether `!=` of a user-defined class is `object.__ne__`, which inverts its `__eq__`. A builtin base has its own
/// `!=`.
bool inverts_own_equality(Tracer& tracer, Value* value) {
    if (user_method(tracer, value, "__eq__") == nullptr || user_method(tracer, value, "__ne__") != nullptr)
        return false;
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(value->type(), interned("__ne__"), &owner);
    return owner == &PyBaseObject_Type;
}

Outcome compare_side(Tracer& tracer, Comparison op, Value* self, Value* other) {
    if (Value* method = user_method(tracer, self, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    if (Value* method = method_calling_torch_function(tracer, self, other, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    // `object.__ne__` inverts the result of `__eq__`.
    if (op == Comparison::NotEqual && inverts_own_equality(tracer, self)) return nullptr;
    return self->compare(tracer, op, other);
}

Value* compare_by_identity(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (op == Comparison::Equal) return tracer.boolean(same_object(tracer, left, right));
    if (op == Comparison::NotEqual) return tracer.boolean(!same_object(tracer, left, right));
    tracer.raise(PyExc_TypeError, "'" + std::string(symbol(op)) + "' not supported between instances of " +
                                      quoted_type(left) + " and " + quoted_type(right));
}

Task compare_by_methods(Tracer& tracer, Comparison op, Value* left, Value* right) {
    bool right_first = left->type() != right->type() && PyType_IsSubtype(right->type(), left->type());
    for (int turn = 0; turn < 2; ++turn) {
        bool of_right = right_first == (turn == 0);
        Value* self = of_right ? right : left;
        Value* other = of_right ? left : right;
        Comparison by_self = of_right ? mirrored(op) : op;
        Value* answer = co_await compare_side(tracer, by_self, self, other);
        if (!is_not_implemented(answer)) co_return answer;
        if (op == Comparison::NotEqual && inverts_own_equality(tracer, self)) {
            answer = co_await compare_side(tracer, Comparison::Equal, self, other);
            if (!is_not_implemented(answer)) {
                Value* equal = co_await truth(tracer, answer);
                co_return tracer.boolean(equal->object() != Py_True);
            }
        }
    }
    co_return compare_by_identity(tracer, op, left, right);
}

bool has_own_comparison(Tracer& tracer, Value* value, Comparison op) {
    return user_method(tracer, value, method_name(op)) != nullptr ||
           (op == Comparison::NotEqual && inverts_own_equality(tracer, value));
}

Task compare_by_kinds(Tracer& tracer, Comparison op, Value* left, Value* right) {
    Value* answer = co_await left->compare(tracer, op, right);
    if (!is_not_implemented(answer)) co_return answer;
    answer = co_await right->compare(tracer, mirrored(op), left);
    if (!is_not_implemented(answer)) co_return answer;
    co_return compare_by_identity(tracer, op, left, right);
}

}  // namespace

Outcome compare(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (Value* answer = symbolic::compare(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    if (has_own_comparison(tracer, left, op) || has_own_comparison(tracer, right, mirrored(op)))
        return tracer.start(compare_by_methods(tracer, op, left, right));
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) {
        Outcome answer = left->compare(tracer, op, right);
        if (!answer.is_pending() && !is_not_implemented(answer.value())) return answer;
    }
    return tracer.start(compare_by_kinds(tracer, op, left, right));
}

}  // namespace stator::operations
