/// Attributes and methods of tensors that are known from metadata alone, or that are operations written as attributes.
#pragma once

#include "value/tensor.h"

namespace stator {

class Handlers;

/// Null if the attribute is none of these.
Value* tensor_attribute(Tracer& tracer, TensorValue* tensor, Borrowed<> name);

void register_tensor_methods(Handlers& handlers);

}  // namespace stator
