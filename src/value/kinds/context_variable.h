/// `contextvars.ContextVar` and the tokens of its assignments.
#pragma once

#include "value/kinds/object.h"

namespace stator {

/// The value of a variable from outside is a source that a guard reads again. One that the trace has made has no value
/// at first. An assignment is a side effect either way: the context keeps the variable.
struct ContextVariableValue final : ObjectValue {
    explicit ContextVariableValue(PyObject* variable) : ObjectValue(&PyContextVar_Type) { outside = variable; }

    /// Whether `current` is known: the program has read or assigned it.
    bool is_known = false;
    Value* current = nullptr;      // null if it has no value
    Value* last_change = nullptr;  // the last assignment of the trace, see `ContextChange`
    Arguments made_of;             // the arguments of `ContextVar(...)`, if the trace has made it

    bool is_made() const { return source == nullptr; }
    int rebuild(PlanBuilder& plan) override;
};

}  // namespace stator
