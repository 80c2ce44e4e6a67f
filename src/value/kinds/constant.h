/// Constants: numbers, strings, None, ranges, dtypes, devices, ... Operations on them are executed while tracing.
#pragma once

#include "number/expression.h"
#include "value/value.h"

namespace stator {

struct ConstantValue final : Value {
    static constexpr Kind kKind = Kind::Constant;
    explicit ConstantValue(PyObject* held) : Value(kKind), held(held) {}

    PyObject* held;  // kept alive by the trace
    /// Whether the program creates this object anew in each call, unlike a literal or a small integer.
    bool is_made = false;
    /// Of a number that changes between calls (see changing_number.h): the expression over sources; null for others.
    const Expression* expression = nullptr;
    /// Of a number or bool that only the graph knows (the expression is unbacked): what computes it. `held` is none of
    /// its values then.
    graph::Node* node = nullptr;

    /// Whether it may be another number in the next call: nothing has specialized on it yet.
    bool is_symbolic() const { return expression != nullptr && !realized; }

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override { return Py_TYPE(held); }
    PyObject* object() const override { return held; }
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Value* unary(Tracer& tracer, UnaryOperator op) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Whether an object is not equal to itself (NaN). Containers find it only by identity.
bool is_unequal_to_itself(Borrowed<> object);
/// Whether an object is an enum member whose class has user-defined special methods, which C code may call.
bool runs_program_code(Borrowed<> object);
/// The argument of a call, or the item of one, that is this object: a C function returned its argument. Null if there
/// is none.
Value* argument_itself(const std::vector<Value*>& arguments, Borrowed<> object);

/// Whether instances of the object's class are constants.
bool is_constant(Borrowed<> object);
/// Whether a guard may compare it by value: its class is written in C and its comparison runs no user code.
bool is_safe_to_compare(Borrowed<> object);

}  // namespace stator
