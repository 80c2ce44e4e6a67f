/// The results of a function whose operations are in a graph of their own: a checkpointed one, or a higher-order
/// operation.
#pragma once

#include <span>

#include "value/tracer.h"

namespace stator {

struct TensorValue;

/// Redirects views among the results to a base outside of the function: intermediate bases do not exist outside of it.
void settle_views(Tracer& tracer, std::span<TensorValue* const> results);

}  // namespace stator
