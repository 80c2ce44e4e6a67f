#include "trace/recorder/function_transforms.h"

#include <algorithm>

#include "base/python_error.h"
#include "torch/fake.h"
#include "value/deferred_graph.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/saved_tensors.h"
#include "value/tensor/tensor_indices.h"
#include "value/torch_modes.h"

namespace stator {

bool is_wrapped(const TensorValue* tensor) {
    return (tensor->meta->dispatch_keys & torch_room::trait::kFunctorch) != 0;
}

void FunctionTransforms::expect_possible() {
    if (tracer_.deferred_graphs().runs_later())
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a function transform of torch.func in a backward pass or a checkpointed function");
    if (torch_room::transform_depth() > 0)
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "the compiled function is called inside of a torch.func transform");
    expect_no_saved_tensors_hooks(tracer_, "a function transform of torch.func is called");
}

void FunctionTransforms::begin_call(PyCodeObject* code) {
    expect_possible();
    begin_modes();
    tracer_.on_undo([this, count = calls_.size()] {
        leave();
        calls_.resize(count);
    });
    called_ = code;
    calls_.push_back(code);
}

void FunctionTransforms::end_call() {
    if (levels_.depth() > 0)
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a function transform of torch.func returns inside its level");
    called_ = nullptr;
    forget_plain();
    tracer_.modes().set_indexes_by_tensors(indexes_by_tensors_around_);
    tracer_.modes().set_function_modes(modes_around_);
}

void FunctionTransforms::begin_modes() {
    TorchModes& modes = tracer_.modes();
    indexes_by_tensors_around_ = modes.indexes_by_tensors();
    modes_around_ = modes.function_modes();
    if (modes_around_.empty()) return;
    if (modes_around_.size() > 1 || !is_indexing_mode(modes_around_[0]))
        expect_no_function_modes(tracer_, "a function transform of torch.func is called");
    modes.set_indexes_by_tensors(true);
    modes.set_function_modes({});
}

void FunctionTransforms::begin_by_hand() {
    expect_possible();
    expect_no_function_modes(tracer_, "a level of torch.func is entered");
    entered_from_ = torch_room::ForwardMode::current();
    tracer_.on_undo([this] { leave(); });
}

void FunctionTransforms::end_by_hand_if_left() {
    if (!is_entered_by_hand() || levels_.depth() > 0 || torch_room::ForwardMode::current() != *entered_from_) return;
    entered_from_.reset();
    forget_plain();
}

FunctionTransforms::~FunctionTransforms() {
    if (is_entered_by_hand()) leave();
}

void FunctionTransforms::leave() {
    levels_.leave();
    called_ = nullptr;
    if (entered_from_) entered_from_->restore();
    entered_from_.reset();
    forget_plain();
}

void FunctionTransforms::forget_plain() {
    std::erase_if(fakes_, [](const auto& entry) { return torch_room::is_fake(entry.second.get()); });
    plain_.clear();
    returned_ = {};
}

bool FunctionTransforms::concern(std::span<TensorValue* const> tensors) const {
    // (The caller of the compiled function may have wrapped tensors too.)
    return has_levels() || std::ranges::any_of(tensors, [this](const TensorValue* tensor) {
               return is_wrapped(tensor) && fakes_.contains(tensor->node);
           });
}

Ref<> FunctionTransforms::fake_of(const graph::Node& node, std::span<TensorValue* const> tensors) {
    if (auto known = fakes_.find(&node); known != fakes_.end()) return Ref<>::share(known->second.get());
    auto value = std::ranges::find(tensors, &node, &TensorValue::node);
    STATOR_CHECK(value != tensors.end(), "a tensor inside a function transform has no fake");
    if (is_wrapped(*value))
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a tensor is used that another torch.func transform has wrapped");
    torch_room::TensorMeta meta = *(*value)->meta;
    for (Dim& size : meta.sizes) size = size.value();
    for (Dim& stride : meta.strides) stride = stride.value();
    meta.storage_offset = meta.storage_offset.value();
    Ref<> fake = torch_room::make_fake(torch_room::fake_mode_of_thread(), meta);
    if (is_called()) {
        fakes_.emplace(&node, Ref<>::share(fake.get()));
        plain_.emplace(fake.get(), *value);
    }
    return fake;
}

const shape::Answer& FunctionTransforms::infer(Arena& arena, const graph::Node& node,
                                               std::span<TensorValue* const> tensors) {
    // (aot_autograd fails on the backward pass of forward-mode operations on sizes that change.)
    const bool may_be_differentiated =
        is_entered_by_hand() && tracer_.run_by() == Tracer::RunBy::Compiler && tracer_.modes().current().grad &&
        std::ranges::any_of(tensors, [](const TensorValue* tensor) { return tensor->meta->requires_grad; });
    if (may_be_differentiated) tracer_.recorder().keep_as_captured();
    auto* answer = arena.make<shape::Answer>();
    try {
        shape::TransformedCall made =
            shape::infer_in_transform(arena, levels_, {node.kind, node.target, node.arguments, node.keywords},
                                      [&](const graph::Node& argument) { return fake_of(argument, tensors); });
        *answer = std::move(made.answer);
        returned_ = std::move(made.returned);
    } catch (const shape::GaveUp& gave_up) {
        answer->status = gave_up.status;
        answer->reason = gave_up.reason;
    }
    return *answer;
}

Ref<> FunctionTransforms::call(const graph::Node& node, std::span<TensorValue* const> tensors) {
    try {
        return shape::call_in_transform(levels_, {node.kind, node.target, node.arguments, node.keywords},
                                        [&](const graph::Node& argument) { return fake_of(argument, tensors); });
    } catch (const shape::GaveUp& gave_up) {
        tracer_.break_graph(BreakKind::UnsupportedTensor, gave_up.reason);
    }
}

Value* FunctionTransforms::note_result(Value* value) {
    const auto known = plain_.find(returned_.get());
    auto* tensor = cast<TensorValue>(value);
    if (tensor != nullptr && known != plain_.end() && known->second != tensor) {
        if (known->second->meta->requires_grad != tensor->meta->requires_grad)
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                "a function transform of torch.func writes to a tensor and gives it a gradient");
        value = known->second;
    }
    note_fake(value, returned_.get());
    returned_ = {};
    return value;
}

void FunctionTransforms::note_fake(Value* value, PyObject* object) {
    if (auto* tensor = cast<TensorValue>(value)) {
        fakes_.insert_or_assign(tensor->node, Ref<>::share(object));
        return;
    }
    SequenceValue* items = as_sequence(value);
    if (items == nullptr || !(PyTuple_Check(object) || PyList_CheckExact(object))) return;
    for (std::size_t i = 0; i < items->items.size(); ++i)
        note_fake(items->items[i], PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
}

}  // namespace stator
