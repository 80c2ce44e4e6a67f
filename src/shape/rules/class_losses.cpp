/// Losses over classes: a sample belongs to one class, to several, or is a sequence of them.
#include "shape/language/losses.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace loss;
using namespace torch_room::dtype;
using torch_room::is_floating;

/// `F.multi_margin_loss(input, target, p, margin, weight, size_average, reduce, reduction)`.
bool multi_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong ||
        target->device != input->device || input->dimensions() > 2 || is_known_empty(input->sizes))
        return false;
    // One sample has one target, in a vector or not.
    if (input->dimensions() == 2 ? target->sizes != Dims{input->sizes[0]}
                                 : target->dimensions() > 1 || element_count(target->sizes) != 1)
        return false;
    auto power = call[2].integer_or(1);
    if (!power || (*power != 1 && *power != 2) || !are_plain_numbers(call, {3})) return false;
    if (const TensorMeta* weight = call[4].tensor()) {
        Dim classes = input->sizes.empty() ? Dim(1) : input->sizes.back();
        if (!same_kind(input, weight) || weight->sizes != Dims{classes} || weight->requires_grad) return false;
    } else if (!call[4].is_absent()) {
        return false;
    }
    if (!call[5].is_absent() || !call[6].is_absent()) return false;
    return give(call, reduction_of(call, 7), target->sizes, {input});
}

/// `F.multilabel_margin_loss(input, target, size_average, reduce, reduction)`.
bool multilabel_margin_loss(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->dtype != kLong ||
        target->device != input->device || input->dimensions() > 2 || target->sizes != input->sizes)
        return false;
    if (!call[2].is_absent() || !call[3].is_absent() || is_known_empty(input->sizes)) return false;
    Dims sizes = input->sizes;
    if (!sizes.empty()) sizes.pop_back();
    return give(call, reduction_of(call, 4), std::move(sizes), {input});
}

/// The sizes of an input of classes, `[C]`, `[N, C]` or `[N, C, ...]`, without `C`.
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
    if (is_known_empty(input->sizes)) return false;
    return give(call, reduction_of(call, 6), std::move(*sizes), {input});
}

/// `F.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)`, with
/// classes as indices or as probabilities.
bool cross_entropy(Call& call) {
    const TensorMeta *input = call[0].tensor(), *target = call[1].tensor();
    if (input == nullptr || target == nullptr || !is_floating(input->dtype) || target->device != input->device)
        return false;
    auto sizes = sizes_without_classes(*input);
    if (!sizes || !is_weight_of_classes(call[2], *input) || is_known_empty(input->sizes)) return false;
    if (!call[3].is_absent() || !call[5].is_absent() || (call[4].is_given() && !call[4].integer())) return false;
    auto smoothing = call[7].is_given() ? call[7].real() : 0.0;
    if (!smoothing || *smoothing < 0 || *smoothing > 1) return false;
    auto reduction = reduction_of(call, 6);
    if (target->dtype == kLong && target->sizes == *sizes) return give(call, reduction, std::move(*sizes), {input});
    // `ignore_index` has no meaning for probabilities.
    if (!same_kind(input, target) || target->sizes != input->sizes) return false;
    if (call[4].is_given() && *call[4].integer() >= 0) return false;
    return give(call, reduction, std::move(*sizes), {input, target});
}

/// `F.ctc_loss(log_probs, targets, input_lengths, target_lengths, ...)`: the amount of computation depends on the
/// lengths.
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

void add_class_loss_rules(Registry& registry) {
    registry.add_float32_on_cpu("F.multi_margin_loss",
                                "self target p? margin? weight? size_average? reduce? reduction?", multi_margin_loss);
    registry.add_float32_on_cpu("F.multilabel_margin_loss", "self target size_average? reduce? reduction?",
                                multilabel_margin_loss);
    registry.add_float32_on_cpu("F.nll_loss", "self target weight? size_average? ignore_index? reduce? reduction?",
                                nll_loss);
    registry.add_float32_on_cpu("F.cross_entropy",
                                "self target weight? size_average? ignore_index? reduce? reduction? label_smoothing?",
                                cross_entropy);
    registry.add_float32_on_cpu("F.ctc_loss torch.ctc_loss",
                                "log_probs targets input_lengths target_lengths blank? reduction? zero_infinity?",
                                ctc_loss);

    // The native functions that these call, without the deprecated flags.
    registry.add_float32_on_cpu("_C._nn.multi_margin_loss", "self target p? margin? weight? reduction?",
                                reordered<multi_margin_loss, 0, 1, 2, 3, 4, -1, -1, 5>, kNative);
    registry.add_float32_on_cpu("_C._nn.multilabel_margin_loss", "self target reduction?",
                                reordered<multilabel_margin_loss, 0, 1, -1, -1, 2>, kNative);
    registry.add_float32_on_cpu("_C._nn.nll_loss_nd", "self target weight? reduction? ignore_index?",
                                reordered<nll_loss, 0, 1, 2, -1, 4, -1, 3>, kNative);
    registry.add_float32_on_cpu("_C._nn.cross_entropy_loss",
                                "self target weight? reduction? ignore_index? label_smoothing?",
                                reordered<cross_entropy, 0, 1, 2, -1, 4, -1, 3, 5>, kNative);
}

}  // namespace stator::shape
