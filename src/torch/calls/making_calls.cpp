#include <ATen/core/LegacyTypeDispatch.h>

#include <optional>
#include <utility>

#include "torch/calls/number_operands.h"
#include "torch/calls/prepared_step.h"

namespace stator::torch_room {

namespace {

void fill(const Call& call, const at::Tensor* values, std::span<const c10::IValue> numbers,
          std::vector<c10::IValue>& stack) {
    for (const Slot& slot : call.slots) {
        switch (slot.kind) {
            case Slot::Kind::Constant:
                stack.emplace_back(slot.constant);
                break;
            case Slot::Kind::Tensor:
                stack.emplace_back(values[slot.value]);
                break;
            case Slot::Kind::Tensors: {
                c10::List<at::Tensor> list;
                list.reserve(slot.values.size());
                for (std::uint32_t value : slot.values) list.push_back(values[value]);
                stack.emplace_back(std::move(list));
                break;
            }
            case Slot::Kind::OptionalTensors: {
                c10::List<std::optional<at::Tensor>> list;
                list.reserve(slot.values.size());
                for (std::uint32_t value : slot.values)
                    list.push_back(value == kNoValue ? std::nullopt : std::optional<at::Tensor>(values[value]));
                stack.emplace_back(std::move(list));
                break;
            }
            case Slot::Kind::Number:
            case Slot::Kind::WrappedNumber:
            case Slot::Kind::Integers:
                stack.push_back(argument_of(slot, numbers));
                break;
        }
    }
}

void take_results(const Call& call, std::vector<c10::IValue>& stack, at::Tensor* values) {
    if (call.returns_list) {
        std::vector<at::Tensor> tensors = std::move(stack[0]).toTensorVector();
        TORCH_CHECK(tensors.size() == call.results.size(), call.operation.schema().name(), " returned ", tensors.size(),
                    " tensors, not ", call.results.size());
        for (std::size_t i = 0; i < tensors.size(); ++i) values[call.results[i]] = std::move(tensors[i]);
    } else {
        for (std::size_t i = 0; i < call.results.size(); ++i) values[call.results[i]] = std::move(stack[i]).toTensor();
    }
    stack.clear();
}

}  // namespace

void make_call(const Call& call, const Memory& memory) {
    std::optional<at::AutoDispatchBelowADInplaceOrView> below;
    if (call.is_below_autograd) below.emplace();
    if (call.direct != nullptr) {
        call.direct(call, memory.values);
    } else {
        fill(call, memory.values, memory.numbers, memory.stack);
        call.operation.callBoxed(memory.stack);
        take_results(call, memory.stack, memory.values);
    }
}

void make_call_without_autograd(const Call& call, const Memory& memory) {
    switch (call.level) {
        case Level::Top:
            make_call(call, memory);
            break;
        case Level::BelowAutograd: {
            at::AutoDispatchBelowAutograd guard;
            make_call(call, memory);
            break;
        }
        case Level::BelowViewTracking: {
            at::AutoDispatchBelowADInplaceOrView guard;
            make_call(call, memory);
            break;
        }
    }
}

}  // namespace stator::torch_room
