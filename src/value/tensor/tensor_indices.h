/// `tensor[...]` where tensors as indices never are the numbers that they hold.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

/// `tensor[key]` in that mode (`TorchModes::indexes_by_tensors`). Null if it is not on, or does not change this key.
Value* item_by_tensors(Tracer& tracer, TensorValue* tensor, Value* key);

/// Whether this is `TransformGetItemToIndex`, the torch function mode that does so. It changes nothing else.
bool is_indexing_mode(const Value* mode);

}  // namespace stator
