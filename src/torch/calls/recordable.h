/// Which calls of operators a device can record and repeat without the host (docs/design/executor.md#cuda-graphs).
/// Only for files of this room.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stator::torch_room {

/// What is known of one call that was made.
struct Recordability {
    /// Why it can't be recorded; null if it can.
    const char* reason = nullptr;
    /// The device of all tensors that it reads and makes; none if it has no tensor.
    std::optional<c10::Device> device;
};

/// `is_inner`: a composite operator made the call.
Recordability recordability(const c10::OperatorHandle& operation, std::span<const c10::IValue> inputs,
                            std::span<const c10::IValue> outputs, bool is_inner);

/// The arguments that a call may write to: as its schema says, and those that a schema does not tell of.
std::vector<bool> written_arguments(const c10::FunctionSchema& schema);

}  // namespace stator::torch_room
