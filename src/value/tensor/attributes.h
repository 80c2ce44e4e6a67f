/// Attributes and methods of tensors that are known from metadata alone, or that are operations written as attributes.
#pragma once

#include "value/tensor/tensor.h"

namespace stator {

class Handlers;

/// Null if the attribute is none of these.
Value* tensor_attribute(Tracer& tracer, TensorValue* tensor, Borrowed<> name);

/// What `x.type()` says: `torch.FloatTensor`, a name for a dtype on a device. Breaks where PyTorch's name is not known.
std::string legacy_type_name(Tracer& tracer, TensorValue* tensor);

void register_tensor_methods(Handlers& handlers);

}  // namespace stator
