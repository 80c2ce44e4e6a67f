/// Normalization: results like their inputs, checks of weights, writes to running statistics.
#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using torch_room::is_floating;

bool fits(const Operand& parameter, const TensorMeta& input, const Dims& sizes) {
    if (parameter.is_absent()) return true;
    const TensorMeta* tensor = parameter.tensor();
    return tensor != nullptr && tensor->sizes == sizes && tensor->dtype == input.dtype &&
           tensor->device == input.device;
}

bool layer_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto shape = call[1].integers();
    if (self == nullptr || !is_floating(self->dtype) || !shape || shape->empty() || shape->size() > self->dimensions())
        return false;
    if (!std::equal(shape->rbegin(), shape->rend(), self->sizes.rbegin())) return false;
    const Operand &weight = call[2], &bias = call[3];
    if (!fits(weight, *self, *shape) || !fits(bias, *self, *shape)) return false;
    if (call[4].is_given() && !call[4].real()) return false;
    if (!is_on_cpu(*self) && !is_contiguous(self->sizes, self->strides)) return false;
    return call.returns(call.fresh(self->sizes, self->dtype, self->device),
                        call.records({self, weight.tensor(), bias.tensor()}));
}

/// Dense, with the memory format of its input; other layouts are unknown on other devices.
std::optional<TensorMeta> result_like(const Call& call, const TensorMeta& self) {
    if (!is_on_cpu(self) &&
        (!is_contiguous(self.sizes, self.strides) || is_like_channels_last(self.sizes, self.strides)))
        return std::nullopt;
    return call.fresh(self.sizes, suggested_strides(self, self.sizes), self.dtype, self.device);
}

bool rms_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto shape = call[1].integers();
    if (self == nullptr || !is_floating(self->dtype) || !shape || shape->empty() || shape->size() > self->dimensions())
        return false;
    if (!std::equal(shape->rbegin(), shape->rend(), self->sizes.rbegin())) return false;
    if (!fits(call[2], *self, *shape) || (!call[3].is_absent() && !call[3].real())) return false;
    if (is_known_empty(self->sizes) || has_idle_strides(*self)) return false;
    auto result = result_like(call, *self);
    return result && call.returns(std::move(*result), call.records({self, call[2].tensor()}));
}

bool group_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto groups = call[1].integer();
    if (self == nullptr || !is_floating(self->dtype) || !groups || self->dimensions() < 2) return false;
    Dim channels = self->sizes[1];
    if (*groups <= 0 || channels % *groups != 0 || !fits(call[2], *self, {channels}) ||
        !fits(call[3], *self, {channels}))
        return false;
    if (call[4].is_given() && !call[4].real()) return false;
    if (is_known_empty(self->sizes) && (!is_plainly_empty(*self) || self->sizes[0] != 0)) return false;
    // The function rejects normalization over a single value.
    Dim values = self->sizes[0] * channels / *groups;
    for (std::size_t i = 2; i < self->dimensions(); ++i) values *= self->sizes[i];
    if (known_equal(values, 1)) return false;
    auto result = result_like(call, *self);
    return result && call.returns(std::move(*result), call.records({self, call[2].tensor(), call[3].tensor()}));
}

/// `F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)`.
bool batch_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype) || self->dimensions() < 2) return false;
    const Operand &mean = call[1], &variance = call[2], &weight = call[3], &bias = call[4];
    auto training = call[5].boolean_or(false);
    Dims channels{self->sizes[1]};
    for (const Operand* parameter : {&mean, &variance, &weight, &bias})
        if (!fits(*parameter, *self, channels)) return false;
    if (mean.is_absent() != variance.is_absent() || !training) return false;
    if (!*training && mean.is_absent()) return false;
    for (std::size_t i = 6; i < 8; ++i)
        if (call[i].is_given() && !call[i].real()) return false;
    auto result = result_like(call, *self);
    if (!result || is_known_empty(self->sizes)) return false;
    if (*training) {
        if (element_count(self->sizes) == self->sizes[1]) return false;  // rejects a single value per channel
        for (const Operand* statistic : {&mean, &variance}) {
            if (statistic->is_absent()) continue;
            if (statistic->tensor()->requires_grad || !call.writes(*statistic, false)) return false;
        }
    }
    return call.returns(std::move(*result), call.records({self, weight.tensor(), bias.tensor()}));
}

/// `F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)`.
bool instance_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype) || self->dimensions() < 3 || !is_on_cpu(*self)) return false;
    const Operand &mean = call[1], &variance = call[2], &weight = call[3], &bias = call[4];
    auto from_input = call[5].boolean_or(true);
    Dims channels{self->sizes[1]};
    for (const Operand* parameter : {&mean, &variance, &weight, &bias})
        if (!fits(*parameter, *self, channels)) return false;
    if (mean.is_absent() != variance.is_absent() || !from_input) return false;
    if (!*from_input && mean.is_absent()) return false;
    for (std::size_t i = 6; i < 8; ++i)
        if (call[i].is_given() && !call[i].real()) return false;
    Dim values = 1;
    for (std::size_t i = 2; i < self->dimensions(); ++i) values *= self->sizes[i];
    // A single value per channel is rejected.
    if (is_known_empty(self->sizes) || (*from_input && known_equal(values, 1))) return false;
    if (*from_input)
        for (const Operand* statistic : {&mean, &variance}) {
            if (statistic->is_absent()) continue;
            if (statistic->tensor()->requires_grad || !call.writes(*statistic, false)) return false;
        }
    return call.returns(call.fresh(self->sizes, self->dtype, self->device),
                        call.records({self, weight.tensor(), bias.tensor()}));
}

/// The functions of `torch` take weights first, those of `torch.nn.functional` running statistics.
template <RuleFunction function>
bool statistics_first(Call& call) {
    std::swap(call.slots()[1], call.slots()[3]);
    std::swap(call.slots()[2], call.slots()[4]);
    return function(call);
}

/// `F.local_response_norm(input, size, alpha, beta, k)`: division by an average over neighboring channels.
bool local_response_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto size = call[1].integer();
    if (self == nullptr || self->dimensions() < 3 || !size || *size < 1) return false;
    bool whole = self->dtype == torch_room::dtype::kLong;
    if (!is_floating(self->dtype) && !whole) return false;
    for (std::size_t i = 2; i < 5; ++i)
        if (call[i].is_given() && !call[i].real()) return false;
    if (is_known_empty(self->sizes)) return call.returns_same(call[0]);
    if (!is_contiguous(self->sizes, self->strides) || is_like_channels_last(self->sizes, self->strides)) return false;
    return call.returns(call.fresh(self->sizes, whole ? call.state().default_dtype : self->dtype, self->device),
                        call.records({self}));
}

}  // namespace

void add_normalization_rules(Registry& registry) {
    registry.add_neutral_on_cpu("F.layer_norm", "self normalized_shape weight? bias? eps?", layer_norm);
    registry.add_neutral_on_cpu("torch.layer_norm", "self normalized_shape weight? bias? eps? cudnn_enable?",
                                layer_norm);
    registry.add_neutral_on_cpu("torch.group_norm", "self num_groups weight? bias? eps? cudnn_enabled?", group_norm);
    registry.add_neutral_on_cpu("torch.batch_norm",
                                "self weight bias running_mean running_var training momentum eps cudnn_enabled",
                                statistics_first<batch_norm>);
    registry.add_neutral_on_cpu("torch.instance_norm",
                                "self weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled",
                                statistics_first<instance_norm>);
    registry.add_neutral_on_cpu("F.rms_norm torch.rms_norm", "self normalized_shape weight? eps?", rms_norm);
    registry.add_neutral_on_cpu("F.group_norm", "self num_groups weight? bias? eps?", group_norm);
    registry.add("F.local_response_norm", "self size alpha? beta? k?", local_response_norm);
    registry.add_neutral_on_cpu("F.instance_norm",
                                "self running_mean? running_var? weight? bias? use_input_stats? momentum? eps?",
                                instance_norm);
    registry.add_neutral_on_cpu("F.batch_norm", "self running_mean running_var weight? bias? training? momentum? eps?",
                                batch_norm);
}

}  // namespace stator::shape
