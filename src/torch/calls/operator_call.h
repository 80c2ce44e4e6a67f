/// One call of an operator as it is kept between runs. For the files of this room only; it includes PyTorch's headers.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace stator::torch_room {

constexpr std::uint32_t kNoValue = ~std::uint32_t{0};

/// An argument of a prepared call: a constant, or where its tensors and numbers are.
struct Slot {
    enum class Kind : std::uint8_t {
        Constant,
        Tensor,
        Tensors,
        OptionalTensors,
        Number,         // that changes between calls; a float if the constant of the first call was one
        WrappedNumber,  // the same in a tensor, as the bindings make it
        Integers        // a list of numbers, of which some change
    };
    Kind kind;
    std::uint32_t value = kNoValue;      // Tensor, Number, WrappedNumber
    c10::IValue constant;                // Constant, or what it was in the first call
    std::vector<std::uint32_t> values;   // Tensors: kNoValue is None; Integers: kNoValue where it does not change
    std::vector<std::int64_t> integers;  // of a constant list of these

    bool has_numbers() const { return kind >= Kind::Number; }
    /// Calls `visit(value)` for each tensor.
    template <class Visit>
    void for_each_tensor(const Visit& visit) const {
        if (has_numbers()) return;
        if (value != kNoValue) visit(value);
        for (std::uint32_t one : values)
            if (one != kNoValue) visit(one);
    }
};

/// Where a call may enter the dispatcher if no gradient is wanted: where autograd's kernel of the operator would go on.
enum class Level : std::uint8_t {
    Top,               // it has no such kernel, and consists of other operators
    BelowAutograd,     // views and writes: what counts versions and knows views comes next
    BelowViewTracking  // all else
};

struct Call;
/// Calls the operator with the arguments where C++ expects them, and stores the results.
using DirectCall = void (*)(const Call& call, at::Tensor* values);

struct Call {
    c10::OperatorHandle operation;
    std::vector<Slot> slots;
    std::vector<std::uint32_t> results;
    std::vector<std::uint32_t> released;  // values that only calls of this step read, none after this one
    bool returns_list = false;
    Level level = Level::Top;
    bool is_below_autograd = false;  // in each run: the binding calls it there
    DirectCall direct = nullptr;
    std::shared_ptr<const void> typed;  // the operator as `direct` knows it
};

/// Sets `direct` if the operator has one of the usual signatures.
void find_direct_call(Call& call);

}  // namespace stator::torch_room
