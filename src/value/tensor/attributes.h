/// Attributes and methods of tensors that depend only on metadata, and attributes that are operations (`x.T`).
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

class Handlers;

/// Null for any other attribute.
Value* tensor_attribute(Tracer& tracer, TensorValue* tensor, Borrowed<> name);

/// `x.type()`, such as `torch.FloatTensor`. Breaks the graph if PyTorch's name for the dtype and device is not known.
std::string legacy_type_name(Tracer& tracer, TensorValue* tensor);

void register_tensor_methods(Handlers& handlers);

}  // namespace stator
