/// `contextvars.ContextVar` and the tokens of its assignments.
#pragma once

#include "value/kinds/object.h"

namespace stator {

/// A variable from outside. Its value is a source that a guard reads again; an assignment is a side effect.
struct ContextVariableValue final : ObjectValue {
    explicit ContextVariableValue(PyObject* variable) : ObjectValue(&PyContextVar_Type) { outside = variable; }

    /// Whether `current` is known: the program has read or assigned it.
    bool is_known = false;
    Value* current = nullptr;      // null if it has no value
    Value* last_change = nullptr;  // the last assignment of the trace, see `ContextChange`
};

}  // namespace stator
