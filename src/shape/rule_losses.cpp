/// Losses: one number, or one for each element or each sample. The flags `size_average` and `reduce`, which have been
/// deprecated for years, are the fallback's, and so are inputs that would be broadcast with a warning.
#include "shape/promotion.h"
#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_floating;

enum class Reduction { None, One, Unknown };

Reduction reduction_of(const Operand& operand) {
    auto name = operand.is_given() ? operand.string() : "mean";
    if (name == "mean" || name == "sum") return Reduction::One;
    return name == "none" ? Reduction::None : Reduction::Unknown;
}

bool same_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device &&
           is_floating(left->dtype);
}

bool are_plain_numbers(const Call& call, std::initializer_list<std::size_t> slots) {
    for (std::size_t slot : slots)
        if (call[slot].is_given() && !call[slot].real() && !call[slot].boolean()) return false;
    return true;
}

/// Either one number, or a contiguous tensor of these sizes.
bool give(Call& call, Reduction reduction, Dims sizes, std::initializer_list<const TensorMeta*> inputs) {
    if (reduction == Reduction::Unknown) return false;
    const TensorMeta* first = *inputs.begin();
    if (reduction == Reduction::One) sizes.clear();
    return call.returns(call.fresh(std::move(sizes), first->dtype, first->device), call.records(inputs));
}

/// For losses of each element, which follow their inputs in layout: only contiguous ones are sure.
bool give_elements(Call& call, Reduction reduction, std::initializer_list<const TensorMeta*> inputs) {
    const TensorMeta* first = *inputs.begin();
    for (const TensorMeta* input : inputs) {
        if (input == nullptr) continue;
        if (input->sizes != first->sizes) return false;
        if (reduction == Reduction::None && !is_contiguous(input->sizes, input->strides)) return false;
    }
    return give(call, reduction, first->sizes, inputs);
}

/// `F.mse_loss(input, target, size_average, reduce, reduction)` and others of two tensors of one shape.
bool pointwise_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes) return false;
    if (!call[2].is_absent() || !call[3].is_absent()) return false;
    auto reduction = reduction_of(call[4]);
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
    return give_elements(call, reduction_of(call[2]), {input, target});
}

bool soft_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !call[2].is_absent() || !call[3].is_absent()) return false;
    return give_elements(call, reduction_of(call[4]), {input, target});
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
    if (element_count(input->sizes) == 0) return false;
    return give_elements(call, reduction_of(call[5]), {input, target});
}

/// `F.kl_div(input, target, size_average, reduce, reduction, log_target)`; `mean` warns.
bool kl_divergence(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !call[2].is_absent() || !call[3].is_absent()) return false;
    if (!call[5].boolean_or(false)) return false;
    if (call[4].string() == "batchmean") {
        if (input->sizes.empty() || input->sizes[0] == 0) return false;
        return give_elements(call, Reduction::One, {input, target});
    }
    if (call[4].string() != "sum" && call[4].string() != "none") return false;
    return give_elements(call, reduction_of(call[4]), {input, target});
}

/// `F.cosine_embedding_loss(input1, input2, target, margin, size_average, reduce, reduction)`.
bool cosine_embedding_loss(Call& call) {
    const TensorMeta *first = call[0].tensor(), *second = call[1].tensor(), *target = call[2].tensor();
    if (!same_kind(first, second) || target == nullptr || target->device != first->device) return false;
    if (!are_plain_numbers(call, {3}) || !call[4].is_absent() || !call[5].is_absent()) return false;
    std::size_t dimensions = target->dimensions();
    if (dimensions > 1 || first->dimensions() != dimensions + 1 || first->sizes != second->sizes) return false;
    Dims sizes(first->sizes.begin(), first->sizes.end() - 1);
    if (target->sizes != sizes || element_count(first->sizes) == 0) return false;
    return give(call, reduction_of(call[6]), std::move(sizes), {first, second});
}

/// `F.margin_ranking_loss(input1, input2, target, margin, size_average, reduce, reduction)`.
bool margin_ranking_loss(Call& call) {
    const TensorMeta *first = call[0].tensor(), *second = call[1].tensor(), *target = call[2].tensor();
    if (!same_kind(first, second) || !same_kind(first, target)) return false;
    if (!are_plain_numbers(call, {3}) || !call[4].is_absent() || !call[5].is_absent()) return false;
    return give_elements(call, reduction_of(call[6]), {first, second, target});
}

/// `F.hinge_embedding_loss(input, target, margin, size_average, reduce, reduction)`.
bool hinge_embedding_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes) return false;
    if (!are_plain_numbers(call, {2}) || !call[3].is_absent() || !call[4].is_absent()) return false;
    // The target is only compared: no gradient comes through it.
    if (!is_contiguous(target->sizes, target->strides)) return false;
    return give_elements(call, reduction_of(call[5]), {input});
}

/// `F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction)`.
bool triplet_margin_loss(Call& call) {
    const TensorMeta *anchor = call[0].tensor(), *positive = call[1].tensor(), *negative = call[2].tensor();
    if (!same_kind(anchor, positive) || !same_kind(anchor, negative) || anchor->sizes.empty()) return false;
    if (anchor->sizes != positive->sizes || anchor->sizes != negative->sizes) return false;
    auto margin = call[3].is_given() ? call[3].real() : 1.0;
    if (!margin || *margin <= 0 || !are_plain_numbers(call, {4, 5, 6})) return false;
    if (!call[7].is_absent() || !call[8].is_absent() || element_count(anchor->sizes) == 0) return false;
    Dims sizes(anchor->sizes.begin(), anchor->sizes.end() - 1);
    return give(call, reduction_of(call[9]), std::move(sizes), {anchor, positive, negative});
}

/// `F.poisson_nll_loss(input, target, log_input, full, size_average, eps, reduce, reduction)`.
bool poisson_nll_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (!same_kind(input, target) || !are_plain_numbers(call, {2, 3, 5})) return false;
    if (!call[4].is_absent() || !call[6].is_absent()) return false;
    return give_elements(call, reduction_of(call[7]), {input, target});
}

/// `F.multi_margin_loss(input, target, p, margin, weight, size_average, reduce, reduction)`.
bool multi_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong ||
        target->device != input->device || input->sizes.empty() || input->dimensions() > 2)
        return false;
    Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
    auto power = call[2].integer_or(1);
    if (target->sizes != sizes || !power || (*power != 1 && *power != 2) || !are_plain_numbers(call, {3})) return false;
    if (!call[4].is_absent() || !call[5].is_absent() || !call[6].is_absent() || element_count(input->sizes) == 0)
        return false;
    return give(call, reduction_of(call[7]), std::move(sizes), {input});
}

/// `F.multilabel_margin_loss(input, target, size_average, reduce, reduction)`.
bool multilabel_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong ||
        target->device != input->device || input->sizes.empty() || input->dimensions() > 2 ||
        target->sizes != input->sizes)
        return false;
    if (!call[2].is_absent() || !call[3].is_absent() || element_count(input->sizes) == 0) return false;
    Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
    return give(call, reduction_of(call[4]), std::move(sizes), {input});
}

/// `F.multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction)`.
bool multilabel_soft_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor(), *weight = call[2].tensor();
    if (!same_kind(input, target) || input->sizes != target->sizes || input->sizes.empty()) return false;
    if (!call[3].is_absent() || !call[4].is_absent() || element_count(input->sizes) == 0) return false;
    if (!call[2].is_absent()) {
        if (!same_kind(input, weight)) return false;
        auto sizes = broadcast(input->sizes, weight->sizes);
        if (!sizes || *sizes != input->sizes) return false;
    }
    Dims sizes(input->sizes.begin(), input->sizes.end() - 1);
    return give(call, reduction_of(call[5]), std::move(sizes), {input, target, weight});
}

/// What is left of an input of classes: `[C]`, `[N, C]` or `[N, C, ...]` without `C`.
std::optional<Dims> sizes_without_classes(const TensorMeta& input) {
    if (input.sizes.empty()) return std::nullopt;
    std::size_t place = input.dimensions() == 1 ? 0 : 1;
    if (input.sizes[place] == 0) return std::nullopt;
    Dims sizes = input.sizes;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(place));
    return sizes;
}

bool is_weight_of_classes(const Operand& operand, const TensorMeta& input) {
    if (operand.is_absent()) return true;
    const TensorMeta* weight = operand.tensor();
    Dim classes = input.sizes[input.dimensions() == 1 ? 0 : 1];
    return same_kind(&input, weight) && weight->sizes == Dims{classes} && !weight->requires_grad;
}

/// `F.nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction)`.
bool nll_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong ||
        target->device != input->device)
        return false;
    auto sizes = sizes_without_classes(*input);
    if (!sizes || target->sizes != *sizes || !is_weight_of_classes(call[2], *input)) return false;
    if (!call[3].is_absent() || !call[5].is_absent() || (call[4].is_given() && !call[4].integer())) return false;
    if (element_count(input->sizes) == 0) return false;
    return give(call, reduction_of(call[6]), std::move(*sizes), {input});
}

/// `F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)`, with
/// classes as indices or as probabilities.
bool cross_entropy(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->device != input->device)
        return false;
    auto sizes = sizes_without_classes(*input);
    if (!sizes || !is_weight_of_classes(call[2], *input) || element_count(input->sizes) == 0) return false;
    if (!call[3].is_absent() || !call[5].is_absent() || (call[4].is_given() && !call[4].integer())) return false;
    auto smoothing = call[7].is_given() ? call[7].real() : 0.0;
    if (!smoothing || *smoothing < 0 || *smoothing > 1) return false;
    auto reduction = reduction_of(call[6]);
    if (target->dtype == kLong && target->sizes == *sizes) return give(call, reduction, std::move(*sizes), {input});
    // The index to ignore has no meaning among probabilities.
    if (!same_kind(input, target) || target->sizes != input->sizes || call[4].is_given()) return false;
    return give(call, reduction, std::move(*sizes), {input, target});
}

/// `F.gaussian_nll_loss(input, target, var, ...)` looks for negative numbers in a variance that is a tensor.
bool gaussian_nll_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *variance = call[2].tensor();
    return same_kind(input, variance) && same_kind(input, call[1].tensor()) && input->sizes == variance->sizes &&
           input->sizes == call[1].tensor()->sizes && call.depends_on_contents();
}

/// `F.ctc_loss(log_probs, targets, input_lengths, target_lengths, ...)`: how much it computes depends on the lengths.
bool ctc_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || input->dimensions() != 3 ||
        target->dtype != kLong || target->dimensions() != 2 || target->sizes[0] != input->sizes[1])
        return false;
    for (std::size_t slot : {2, 3}) {
        const TensorMeta* lengths = call[slot].tensor();
        auto numbers = call[slot].integers();
        if (lengths != nullptr ? lengths->dtype != kLong || lengths->sizes != Dims{input->sizes[1]}
                               : !numbers || Dim(static_cast<std::int64_t>(numbers->size())) != input->sizes[1])
            return false;
    }
    return call.depends_on_contents();
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
    registry.add_float32_on_cpu("F.multi_margin_loss",
                                "self target p? margin? weight? size_average? reduce? reduction?", multi_margin_loss);
    registry.add_float32_on_cpu("F.gaussian_nll_loss", "self target var full? eps? reduction?", gaussian_nll_loss);
    registry.add_float32_on_cpu(
        "F.ctc_loss", "log_probs targets input_lengths target_lengths blank? reduction? zero_infinity?", ctc_loss);
    registry.add_float32_on_cpu("F.multilabel_margin_loss", old_flags, multilabel_margin_loss);
    registry.add("F.multilabel_soft_margin_loss", "self target weight? size_average? reduce? reduction?",
                 multilabel_soft_margin_loss);
    registry.add_float32_on_cpu("F.nll_loss", "self target weight? size_average? ignore_index? reduce? reduction?",
                                nll_loss);
    registry.add_float32_on_cpu("F.cross_entropy",
                                "self target weight? size_average? ignore_index? reduce? reduction? label_smoothing?",
                                cross_entropy);
}

}  // namespace stator::shape
