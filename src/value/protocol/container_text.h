/// The text of containers: what the `__repr__` of the builtin container classes computes.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

/// The `__repr__` of the builtin class `owner`, for an instance of it or of a subclass. Nothing if it has no model.
std::optional<Outcome> repr_by(Tracer& tracer, PyTypeObject* owner, Value* container);

}  // namespace stator
