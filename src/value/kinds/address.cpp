#include "value/kinds/address.h"

#include "base/python_error.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/weak.h"
#include "value/protocol/operations.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// No object lies in the first page of memory.
constexpr long kLeastAddress = 4096;

[[noreturn]] void refuse(Tracer& tracer, const char* use) {
    tracer.break_graph(
        BreakKind::UnknownFunction,
        std::string("the id() of a tensor, a constant, or an object that was created in the captured region is ") +
            use);
}

/// The number itself, at the price of a capture for each tensor, where the only other way is an error.
PyObject* number_of(Tracer& tracer, AddressValue* address, const char* use) {
    auto* tensor = cast<TensorValue>(address->of);
    if (tensor == nullptr || tensor->source == nullptr || !tracer.wants_one_graph()) refuse(tracer, use);
    tracer.realize(tensor);
    guard_identity_weakly(tracer, tensor);
    return tracer.keep(checked(PyLong_FromVoidPtr(tensor->outside)));
}

/// Whether a constant may equal an address.
bool can_be_address(PyObject* constant) {
    if (!PyNumber_Check(constant)) return false;
    int overflow = 0;
    return !PyLong_Check(constant) || PyLong_AsLongAndOverflow(constant, &overflow) >= kLeastAddress || overflow > 0;
}

}  // namespace

AddressValue* as_address(Value* value) {
    // Other ints are constants; instances of subclasses of int are scalars.
    if (value->kind != Kind::Object || value->type() != &PyLong_Type) return nullptr;
    return static_cast<AddressValue*>(value);
}

bool equal_to_address(Tracer& tracer, AddressValue* address, Value* other) {
    if (AddressValue* second = as_address(other)) return operations::same_object(tracer, address->of, second->of);
    tracer.realize(other);
    if (other->kind == Kind::Scalar) refuse(tracer, "compared with an instance of a subclass of int");
    if (other->kind != Kind::Constant || !can_be_address(other->object())) return false;
    const int equal =
        PyObject_RichCompareBool(number_of(tracer, address, "compared with a number"), other->object(), Py_EQ);
    if (equal < 0) tracer.raise_from_python();
    return equal != 0;
}

Outcome AddressValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (op != Comparison::Equal && op != Comparison::NotEqual) return ObjectValue::compare(tracer, op, other);
    const bool is_number = as_address(other) != nullptr || other->kind == Kind::Constant || other->kind == Kind::Scalar;
    if (!is_number) return nullptr;
    return tracer.boolean(equal_to_address(tracer, this, other) == (op == Comparison::Equal));
}

Py_hash_t AddressValue::hash(Tracer& tracer) {
    return PyObject_Hash(number_of(tracer, this, "hashed"));
}

int AddressValue::rebuild(PlanBuilder& plan) {
    return rebuild_by_call(plan, this, builtin_function("id"), std::vector<Value*>{of});
}

}  // namespace stator
