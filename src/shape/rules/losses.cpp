/// Losses: a scalar, or one value for each element or sample. The deprecated flags `size_average` and `reduce` are left
/// to the fallback, and so are inputs that would be broadcast with a warning.
#include "shape/language/losses.h"
#include "shape/language/promotion.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace loss;

/// `F.mse_loss(input, target, size_average, reduce, reduction)` and others of two tensors of one shape.
bool pointwise_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes) return false;
    if (!call[2].is_absent() || !call[3].is_absent()) return false;
    auto reduction = reduction_of(call, 4);
    if (reduction != Reduction::None) return give(call, reduction, {}, {input, target});
    Elementwise elementwise(call);
    return elementwise.add(call[0]) && elementwise.add(call[1]) && elementwise.gives(OutputType::Common);
}

/// `F.mse_loss(..., weight)`.
bool weighted_loss(Call& call) {
    return call[5].is_absent() && pointwise_loss(call);
}

/// `F.smooth_l1_loss(..., beta)`: with zero it is `l1_loss`.
bool smooth_l1_loss(Call& call) {
    auto beta = call[5].is_given() ? call[5].real() : 1.0;
    return beta && *beta >= 0 && pointwise_loss(call);
}

/// `F.huber_loss(input, target, reduction, delta, weight)`.
bool huber_loss(Call& call) {
    auto delta = call[3].is_given() ? call[3].real() : 1.0;
    if (!delta || *delta <= 0 || !call[4].is_absent()) return false;
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target)) return false;
    return give_elements(call, reduction_of(call, 2), {input, target});
}

bool soft_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !call[2].is_absent() || !call[3].is_absent()) return false;
    return give_elements(call, reduction_of(call, 4), {input, target});
}

/// `F.binary_cross_entropy(input, target, weight, size_average, reduce, reduction)`, and with logits also `pos_weight`.
bool binary_cross_entropy(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !call[3].is_absent() || !call[4].is_absent()) return false;
    for (std::size_t slot : {2, 6}) {
        if (call[slot].is_absent()) continue;
        const TensorMeta* weight = call[slot].tensor();
        if (!same_kind(input, weight) || weight->requires_grad) return false;
        auto sizes = broadcast(target->sizes, weight->sizes);
        if (!sizes || *sizes != target->sizes) return false;
    }
    if (is_known_empty(input->sizes)) return false;
    return give_elements(call, reduction_of(call, 5), {input, target});
}

/// `F.kl_div(input, target, size_average, reduce, reduction, log_target)`.
bool kl_divergence(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !call[2].is_absent() || !call[3].is_absent()) return false;
    if (!call[5].boolean_or(false)) return false;
    if (call.variant() != kNative && call[4].string() == "batchmean") {
        if (input->sizes.empty() || input->sizes[0] == 0) return false;
        return give_elements(call, Reduction::One, {input, target});
    }
    return give_elements(call, reduction_of(call, 4), {input, target});
}

/// `F.cosine_embedding_loss(input1, input2, target, margin, size_average, reduce, reduction)`.
bool cosine_embedding_loss(Call& call) {
    const TensorMeta *first = call[0].tensor(), *second = call[1].tensor(), *target = call[2].tensor();
    if (!same_number_kind(first, second) || target == nullptr || target->device != first->device) return false;
    if (!are_plain_numbers(call, {3}) || !call[4].is_absent() || !call[5].is_absent()) return false;
    std::size_t dimensions = target->dimensions();
    if (dimensions > 1 || first->dimensions() != dimensions + 1 || first->sizes != second->sizes) return false;
    Dims sizes(first->sizes.begin(), first->sizes.end() - 1);
    if (target->sizes != sizes || is_known_empty(first->sizes)) return false;
    return give(call, reduction_of(call, 6), std::move(sizes), {first, second});
}

/// `F.margin_ranking_loss(input1, input2, target, margin, size_average, reduce, reduction)`.
bool margin_ranking_loss(Call& call) {
    const TensorMeta *first = call[0].tensor(), *second = call[1].tensor(), *target = call[2].tensor();
    if (!same_number_kind(first, second) || !same_number_kind(first, target)) return false;
    if (!are_plain_numbers(call, {3}) || !call[4].is_absent() || !call[5].is_absent()) return false;
    return give_elements(call, reduction_of(call, 6), {first, second, target});
}

/// `F.hinge_embedding_loss(input, target, margin, size_average, reduce, reduction)`.
bool hinge_embedding_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes) return false;
    if (!are_plain_numbers(call, {2}) || !call[3].is_absent() || !call[4].is_absent()) return false;
    // The target is only compared, so it gets no gradient.
    if (!is_contiguous(target->sizes, target->strides)) return false;
    return give_elements(call, reduction_of(call, 5), {input});
}

/// `F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction)`.
bool triplet_margin_loss(Call& call) {
    const TensorMeta *anchor = call[0].tensor(), *positive = call[1].tensor(), *negative = call[2].tensor();
    if (!same_number_kind(anchor, positive) || !same_number_kind(anchor, negative) || anchor->sizes.empty())
        return false;
    if (anchor->sizes != positive->sizes || anchor->sizes != negative->sizes) return false;
    auto margin = call[3].is_given() ? call[3].real() : 1.0;
    if (!margin || *margin <= 0 || !are_plain_numbers(call, {4, 5, 6})) return false;
    if (!call[7].is_absent() || !call[8].is_absent() || is_known_empty(anchor->sizes)) return false;
    Dims sizes(anchor->sizes.begin(), anchor->sizes.end() - 1);
    return give(call, reduction_of(call, 9), std::move(sizes), {anchor, positive, negative});
}

/// `F.poisson_nll_loss(input, target, log_input, full, size_average, eps, reduce, reduction)`.
bool poisson_nll_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_number_kind(input, target) || !are_plain_numbers(call, {2, 3, 5})) return false;
    if (!call[4].is_absent() || !call[6].is_absent()) return false;
    return give_elements(call, reduction_of(call, 7), {input, target});
}

/// `F.multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction)`.
bool multilabel_soft_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor(), *weight = call[2].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes || input->sizes.empty()) return false;
    if (!call[3].is_absent() || !call[4].is_absent() || is_known_empty(input->sizes)) return false;
    if (!call[2].is_absent()) {
        if (!same_kind(input, weight)) return false;
        auto sizes = broadcast(input->sizes, weight->sizes);
        if (!sizes || *sizes != input->sizes) return false;
    }
    Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
    return give(call, reduction_of(call, 5), std::move(sizes), {input, target, weight});
}

/// `F.gaussian_nll_loss(input, target, var, ...)` checks a variance tensor for negative numbers.
bool gaussian_nll_loss(Call& call) {
    return same_kind(call[0].tensor(), call[2].tensor()) && same_kind(call[0].tensor(), call[1].tensor()) &&
           call.depends_on_contents();
}

}  // namespace

void add_loss_rules(Registry& registry) {
    const char* old_flags = "self target size_average? reduce? reduction?";
    registry.add_float32_on_cpu("F.mse_loss F.l1_loss", std::string(old_flags) + " weight?", weighted_loss);
    registry.add_float32_on_cpu("F.smooth_l1_loss", std::string(old_flags) + " beta?", smooth_l1_loss);
    registry.add_float32_on_cpu("F.huber_loss", "self target reduction? delta? weight?", huber_loss);
    registry.add_float32_on_cpu("F.soft_margin_loss", old_flags, soft_margin_loss);
    registry.add_float32_on_cpu("F.binary_cross_entropy", "self target weight? size_average? reduce? reduction?",
                                binary_cross_entropy);
    registry.add_float32_on_cpu("F.binary_cross_entropy_with_logits",
                                "self target weight? size_average? reduce? reduction? pos_weight?",
                                binary_cross_entropy);
    registry.add_float32_on_cpu("F.kl_div", std::string(old_flags) + " log_target?", kl_divergence);
    const char* pair = "input1 input2 target margin? size_average? reduce? reduction?";
    registry.add_float32_on_cpu("F.cosine_embedding_loss", pair, cosine_embedding_loss);
    registry.add_float32_on_cpu("F.margin_ranking_loss", pair, margin_ranking_loss);
    registry.add_float32_on_cpu("F.hinge_embedding_loss", "self target margin? size_average? reduce? reduction?",
                                hinge_embedding_loss);
    registry.add_float32_on_cpu("F.triplet_margin_loss",
                                "anchor positive negative margin? p? eps? swap? size_average? reduce? reduction?",
                                triplet_margin_loss);
    registry.add_float32_on_cpu("F.poisson_nll_loss",
                                "self target log_input? full? size_average? eps? reduce? reduction?", poisson_nll_loss);
    registry.add_float32_on_cpu("F.gaussian_nll_loss", "self target var full? eps? reduction?", gaussian_nll_loss);
    registry.add("F.multilabel_soft_margin_loss", "self target weight? size_average? reduce? reduction?",
                 multilabel_soft_margin_loss);

    // The native functions that these call, without the deprecated flags.
    registry.add_float32_on_cpu("_C._nn.mse_loss _C._nn.l1_loss", "self target reduction?",
                                reordered<weighted_loss, 0, 1, -1, -1, 2, -1>, kNative);
    registry.add_float32_on_cpu("_C._nn.smooth_l1_loss", "self target reduction? beta?",
                                reordered<smooth_l1_loss, 0, 1, -1, -1, 2, 3>, kNative);
    registry.add_float32_on_cpu("_C._nn.huber_loss", "self target reduction? delta?", huber_loss, kNative);
    registry.add_float32_on_cpu("_C._nn.soft_margin_loss", "self target reduction?",
                                reordered<soft_margin_loss, 0, 1, -1, -1, 2>, kNative);
    registry.add_float32_on_cpu("_C._nn.binary_cross_entropy", "self target weight? reduction?",
                                reordered<binary_cross_entropy, 0, 1, 2, -1, -1, 3, -1>, kNative);
    registry.add_float32_on_cpu("torch.binary_cross_entropy_with_logits", "self target weight? pos_weight? reduction?",
                                reordered<binary_cross_entropy, 0, 1, 2, -1, -1, 4, 3>, kNative);
    registry.add_float32_on_cpu("torch.kl_div", "self target reduction? * log_target?",
                                reordered<kl_divergence, 0, 1, -1, -1, 2, 3>, kNative);
    registry.add_float32_on_cpu("torch.cosine_embedding_loss", "input1 input2 target margin? reduction?",
                                reordered<cosine_embedding_loss, 0, 1, 2, 3, -1, -1, 4>, kNative);
    registry.add_float32_on_cpu("torch.margin_ranking_loss", "input1 input2 target margin? reduction?",
                                reordered<margin_ranking_loss, 0, 1, 2, 3, -1, -1, 4>, kNative);
    registry.add_float32_on_cpu("torch.hinge_embedding_loss", "self target margin? reduction?",
                                reordered<hinge_embedding_loss, 0, 1, 2, -1, -1, 3>, kNative);
    registry.add_float32_on_cpu("torch.triplet_margin_loss",
                                "anchor positive negative margin? p? eps? swap? reduction?",
                                reordered<triplet_margin_loss, 0, 1, 2, 3, 4, 5, 6, -1, -1, 7>, kNative);
    registry.add_float32_on_cpu("torch.poisson_nll_loss", "self target log_input full eps reduction",
                                reordered<poisson_nll_loss, 0, 1, 2, 3, -1, 4, -1, 5>, kNative);
}

}  // namespace stator::shape
