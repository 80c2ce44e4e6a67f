/// Operators that can write their result to a tensor that is given (`out=`), by the same kernel. For the files of this
/// room only.
#pragma once

#include <optional>

#include "torch/calls/operator_call.h"

namespace stator::torch_room {

/// The call that writes the results to the tensors at the numbers of the results, which have their sizes, strides and
/// dtype. Empty if the operator has none that computes the same bits.
std::optional<Call> out_form(const Call& call);

/// Gives numbers among the arguments, which the bindings have wrapped as int64 or double, the dtype of the tensors: the
/// kernel would convert them in each call. False if there is none.
bool cast_numbers(Call& call, const at::Tensor* values);

/// Whether the kernel may write its result over an operand that has the same sizes, strides and dtype, as the
/// operator's variant that works in place does.
bool may_overwrite_operand(const Call& call);

/// Whether the operator does on the CPU what PyTorch registered there. A program may register kernels of its own, which
/// may keep what they are called with.
bool has_kernel_of_pytorch(const c10::OperatorHandle& operation);

}  // namespace stator::torch_room
