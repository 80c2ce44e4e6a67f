/// Attributes and methods of tensors that are answered from metadata, or that are operations in the form of attributes.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

class Handlers;

/// Null if the attribute is not one of these.
Value* tensor_attribute(Tracer& tracer, TensorValue* tensor, Borrowed<> name);

/// The result of `x.type()`: `torch.FloatTensor`, a name for a dtype on a device. Breaks if PyTorch's name is unknown.
std::string legacy_type_name(Tracer& tracer, TensorValue* tensor);

void register_tensor_methods(Handlers& handlers);

}  // namespace stator
