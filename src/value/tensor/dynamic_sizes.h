/// Sizes of tensors from outside that change between calls, and sizes as ints of the program.
#pragma once

#include "number/dim.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

/// Makes symbols of the sizes in `meta` that change between calls, for the tensor that it was read from, and
/// expressions of the strides that follow from them; and symbols of strides that change on their own. Null if nothing
/// changes; else what the guard on the tensor leaves open.
const torch_room::DynamicSizes* make_sizes_dynamic(Tracer& tracer, const TensorValue* tensor,
                                                   torch_room::TensorMeta& meta);

/// The storage offset of a tensor from outside, if it has changed between calls: an int of the program. Else null.
Value* changing_offset(Tracer& tracer, const TensorValue* tensor);

/// A size, a stride or an offset as an int of the program.
Value* size_value(Tracer& tracer, Dim size);
/// All of them, as a tuple of the given class.
Value* size_values(Tracer& tracer, const Dims& sizes, PyTypeObject* type = &PyTuple_Type);

}  // namespace stator
