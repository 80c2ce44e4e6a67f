#include "torch/calls/number_operands.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/python_error.h"
#include "base/text.h"

namespace stator::torch_room {

namespace {

using Kind = GivenOperand::Kind;

double as_double(const c10::IValue& number) {
    return number.isInt() ? static_cast<double>(number.toInt()) : number.toDouble();
}

/// Whether an argument is this number, possibly as a float.
bool is_same_number(const c10::IValue& argument, const c10::IValue& number) {
    if (argument.isInt()) return number.isInt() && argument.toInt() == number.toInt();
    return argument.isDouble() && argument.toDouble() == as_double(number);
}

/// A tensor that the binding has made of a number.
bool is_wrapped(const c10::IValue& argument, const c10::IValue& number) {
    if (!argument.isTensor() || !argument.toTensor().defined()) return false;
    const at::Tensor& tensor = argument.toTensor();
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) return false;
    // Read without a call, which an observer would see.
    if (number.isInt())
        return tensor.scalar_type() == at::kLong && *tensor.const_data_ptr<std::int64_t>() == number.toInt();
    return tensor.scalar_type() == at::kDouble && *tensor.const_data_ptr<double>() == number.toDouble();
}

bool is_int(const GivenOperand& operand) {
    return (operand.kind == Kind::Number || operand.kind == Kind::Constant) && PyLong_CheckExact(operand.object);
}

/// Puts operands into the arguments of one call.
class Placing {
  public:
    explicit Placing(Call& call) : call_(call) {}

    bool place(std::span<const GivenOperand> operands) {
        const std::size_t arguments = call_.slots.size();
        for (std::size_t i = 0; i < operands.size(); ++i) {
            if (operands[i].keyword != nullptr) {
                const std::optional<std::size_t> at = argument_named(utf8(operands[i].keyword));
                if (!at || !place_one(*at, operands[i])) return false;
                continue;
            }
            if (i >= arguments) return false;
            std::size_t ints = i;
            while (ints < operands.size() && operands[ints].keyword == nullptr && is_int(operands[ints])) ++ints;
            const Slot& slot = call_.slots[i];
            const bool is_row = slot.kind == Slot::Kind::Constant && slot.constant.isIntList() && ints > i;
            if (is_row && slot.integers.size() == ints - i) {
                if (!place_row(i, operands.subspan(i, ints - i))) return false;
                // The sizes of `view(2, 3)` are its last arguments by place.
                return std::ranges::all_of(operands.subspan(ints), [&](const GivenOperand& rest) {
                    const auto at = rest.keyword == nullptr ? std::nullopt : argument_named(utf8(rest.keyword));
                    return at && place_one(*at, rest);
                });
            }
            if (!place_one(i, operands[i])) return false;
        }
        return true;
    }

  private:
    std::optional<std::size_t> argument_named(std::string_view name) const {
        const std::vector<c10::Argument>& arguments = call_.operation.schema().arguments();
        for (std::size_t i = 0; i < arguments.size(); ++i)
            if (arguments[i].name() == name) return i;
        return std::nullopt;
    }

    bool place_one(std::size_t at, const GivenOperand& operand) {
        Slot& slot = call_.slots[at];
        switch (operand.kind) {
            case Kind::Tensor:
                return slot.kind == Slot::Kind::Tensor && slot.value == operand.number;
            case Kind::Sequence:
                return place_sequence(at, operand.items);
            case Kind::Constant:
                return is_constant(slot, operand.object);
            case Kind::Number:
                return place_number(at, operand);
        }
        return false;
    }

    bool place_number(std::size_t at, const GivenOperand& operand) {
        Slot& slot = call_.slots[at];
        const std::optional<c10::IValue> number = as_number(operand.object);
        if (!number || slot.kind != Slot::Kind::Constant) return false;
        if (slot.constant.isIntList()) return place_row(at, {&operand, 1});
        if (is_same_number(slot.constant, *number))
            slot.kind = Slot::Kind::Number;
        else if (is_wrapped(slot.constant, *number))
            slot.kind = Slot::Kind::WrappedNumber;
        else
            return false;
        slot.value = operand.number;
        return true;
    }

    bool place_sequence(std::size_t at, const std::vector<GivenOperand>& items) {
        const Slot& slot = call_.slots[at];
        if (slot.kind == Slot::Kind::Tensors)
            return std::ranges::equal(items, slot.values, [](const GivenOperand& item, std::uint32_t value) {
                return item.kind == Kind::Tensor && item.number == value;
            });
        return slot.kind == Slot::Kind::Constant && slot.constant.isIntList() && place_row(at, items);
    }

    bool place_row(std::size_t at, std::span<const GivenOperand> items) {
        Slot& slot = call_.slots[at];
        if (slot.integers.size() != items.size()) return false;
        std::vector<std::uint32_t> from(items.size(), kNoValue);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const std::optional<c10::IValue> number = is_int(items[i]) ? as_number(items[i].object) : std::nullopt;
            if (!number || number->toInt() != slot.integers[i]) return false;
            if (items[i].kind == Kind::Number) from[i] = items[i].number;
        }
        if (std::ranges::all_of(from, [](std::uint32_t one) { return one == kNoValue; })) return true;
        slot.kind = Slot::Kind::Integers;
        slot.values = std::move(from);
        return true;
    }

    /// Whether a constant may have become what is there.
    static bool is_constant(const Slot& slot, Borrowed<> constant) {
        if (slot.kind != Slot::Kind::Constant) return false;
        const std::optional<c10::IValue> number = as_number(constant);
        if (!number) return !slot.constant.isTensor() || !slot.constant.toTensor().defined();
        if (slot.constant.isIntList())
            return number->isInt() && slot.integers.size() == 1 && slot.integers[0] == number->toInt();
        return is_same_number(slot.constant, *number) || is_wrapped(slot.constant, *number);
    }

    Call& call_;
};

}  // namespace

bool place_numbers(Call& call, std::span<const GivenOperand> operands) {
    const std::vector<Slot> before = call.slots;
    if (Placing(call).place(operands)) return true;
    call.slots = before;
    // `2 + x` calls a method of `x`.
    if (operands.size() != 2 || operands[0].kind != Kind::Number || operands[1].kind != Kind::Tensor) return false;
    const GivenOperand reversed[] = {operands[1], operands[0]};
    return Placing(call).place(reversed);
}

c10::IValue argument_of(const Slot& slot, std::span<const c10::IValue> numbers) {
    if (slot.kind == Slot::Kind::Integers) {
        c10::List<std::int64_t> list;
        list.reserve(slot.values.size());
        for (std::size_t i = 0; i < slot.values.size(); ++i)
            list.push_back(slot.values[i] == kNoValue ? slot.integers[i] : numbers[slot.values[i]].toInt());
        return list;
    }
    const c10::IValue& number = numbers[slot.value];
    if (slot.kind == Slot::Kind::Number) return slot.constant.isDouble() ? c10::IValue(as_double(number)) : number;
    // As the bindings make it.
    at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor tensor = c10::scalar_to_tensor(number.toScalar());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
}

std::optional<c10::IValue> as_number(Borrowed<> object) {
    if (PyFloat_CheckExact(object.get())) return c10::IValue(PyFloat_AS_DOUBLE(object.get()));
    if (!PyLong_CheckExact(object.get())) return std::nullopt;
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object.get(), &overflow);
    if (overflow != 0) return std::nullopt;
    return c10::IValue(static_cast<std::int64_t>(number));
}

}  // namespace stator::torch_room
