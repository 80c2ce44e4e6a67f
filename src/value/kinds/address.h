/// `id()` of a tensor, a container or anything else that may be another object in the next call.
#pragma once

#include "value/kinds/object.h"

namespace stator {

/// An int that is only known by the object whose address it is. The program can compare it with others of its kind, and
/// use it as a key beside them; where it leaves the trace, the plan calls `id`.
struct AddressValue final : ObjectValue {
    explicit AddressValue(Value* of) : ObjectValue(&PyLong_Type), of(of) {}
    Value* of;

    Ref<> as_constant(Tracer&) override { return nullptr; }
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override { return "id(" + of->print() + ")"; }
};

/// The value as an address, or null.
AddressValue* as_address(Value* value);
inline const AddressValue* as_address(const Value* value) {
    return as_address(const_cast<Value*>(value));
}

/// Whether an address equals a value that has no `__eq__` of the program. Breaks the graph where only the number tells.
bool equal_to_address(Tracer& tracer, AddressValue* address, Value* other);

}  // namespace stator
