/// Numbers among the operands of a step that change between calls: where the call of its operator takes them. For the
/// files of this room only.
#pragma once

#include <optional>
#include <span>

#include "torch/calls/operator_call.h"
#include "torch/calls/prepared_calls.h"

namespace stator::torch_room {

/// Replaces the constants of a call by the numbers that a binding has passed on. A binding gives each argument to the
/// parameter of that name or place, so a number is where it was given, and nowhere else. False if that is not certain:
/// all operands have to be where they would be then.
bool place_numbers(Call& call, std::span<const GivenOperand> operands);

/// The argument that a slot with numbers stands for. `numbers` are by their number, as `TensorValues` has them.
c10::IValue argument_of(const Slot& slot, std::span<const c10::IValue> numbers);

/// An int or a float of Python; empty for anything else, and for an int that does not fit.
std::optional<c10::IValue> as_number(Borrowed<> object);

}  // namespace stator::torch_room
