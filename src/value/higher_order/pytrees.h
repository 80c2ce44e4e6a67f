/// Nested containers of values as a list of leaves, as `torch.utils._pytree` flattens them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "value/value.h"

namespace stator {

struct Leaves {
    std::vector<Value*> values;
    std::string structure;  // equal for containers of the same structure
};

/// Tuples, lists, dicts and named tuples are containers, anything else is a leaf; null for other containers that
/// PyTorch knows. Realizes what it looks into.
std::optional<Leaves> flatten(Tracer& tracer, Value* value);

}  // namespace stator
