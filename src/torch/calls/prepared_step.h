/// The calls of one step, and how they are made. For the files of this room only; it includes PyTorch's headers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "torch/calls/operator_call.h"
#include "torch/calls/planned_row.h"
#include "torch/calls/recordable.h"

namespace stator::torch_room {

/// `values[to] = values[from]`: a call that would have returned its argument.
struct Alias {
    std::uint32_t from, to;
};

struct PreparedStep {
    std::vector<Call> calls;
    std::vector<std::uint32_t> released;
    /// The same where no gradient is wanted: without the composite operators.
    bool has_plain_calls = false;
    std::vector<Call> plain_calls;
    std::vector<Alias> aliases;       // after the plain calls
    Recordability recordability;      // of all of its calls
    std::unique_ptr<PlannedRow> row;  // of the steps from this one on; null if none begins here

    const std::vector<Call>& calls_without_autograd() const { return has_plain_calls ? plain_calls : calls; }
};

/// What calls read and write in one run.
struct Memory {
    at::Tensor* values;
    std::span<const c10::IValue> numbers;
    std::vector<c10::IValue>& stack;
};

void make_call(const Call& call, const Memory& memory);
/// Where autograd's kernel would go on. Nothing but the call runs in that state: releasing a tensor may run code of the
/// program.
void make_call_without_autograd(const Call& call, const Memory& memory);

}  // namespace stator::torch_room
