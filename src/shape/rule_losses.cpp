/// Losses: one number, or one for each element.
#include "shape/promotion.h"
#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_floating;

/// `F.mse_loss(input, target, size_average, reduce, reduction)`: the old flags are the fallback's.
bool pointwise_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || input->sizes != target->sizes || input->dtype != target->dtype ||
        input->device != target->device || !is_floating(input->dtype))
        return false;
    if (!call[2].is_absent() || !call[3].is_absent()) return false;
    auto reduction = call[4].is_given() ? call[4].string() : "mean";
    bool recorded = call.records({input, target});
    if (reduction == "mean" || reduction == "sum")
        return call.returns(call.fresh({}, input->dtype, input->device), recorded);
    if (reduction != "none") return false;
    Elementwise elementwise(call);
    return elementwise.add(call[0]) && elementwise.add(call[1]) && elementwise.gives(OutputType::Common);
}

/// `F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)` with
/// classes as indices.
bool cross_entropy(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor(), *weight = call[2].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong) return false;
    if (target->device != input->device || input->sizes.empty() || input->dimensions() > 2) return false;
    if (!call[3].is_absent() || !call[5].is_absent()) return false;
    if (call[4].is_given() && !call[4].integer()) return false;
    if (call[7].is_given() && !call[7].real()) return false;
    if (auto smoothing = call[7].real(); smoothing && (*smoothing < 0 || *smoothing > 1)) return false;
    Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
    Dim classes = input->sizes.back();
    if (target->sizes != sizes || classes == 0) return false;
    if (!call[2].is_absent() && (weight == nullptr || weight->sizes != Dims{classes} || weight->dtype != input->dtype ||
                                 weight->device != input->device || weight->requires_grad))
        return false;
    auto reduction = call[6].is_given() ? call[6].string() : "mean";
    if (reduction == "mean" || reduction == "sum")
        sizes.clear();
    else if (reduction != "none")
        return false;
    return call.returns(call.fresh(std::move(sizes), input->dtype, input->device), call.records({input}));
}

}  // namespace

void add_loss_rules(Registry& registry) {
    registry.add("F.mse_loss F.l1_loss", "self target size_average? reduce? reduction?", pointwise_loss);
    registry.add("F.cross_entropy",
                 "self target weight? size_average? ignore_index? reduce? reduction? label_smoothing?", cross_entropy);
}

}  // namespace stator::shape
