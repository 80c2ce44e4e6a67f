/// Activations of `torch.nn.functional`: one tensor of a float type; parameters affect only the values.
#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using torch_room::is_floating;

/// The slot of `inplace` is packed into the variant; 0 for none.
bool activation(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype)) return false;
    bool in_place = call.variant() < 0;
    auto slots = static_cast<std::size_t>(call.variant() < 0 ? -call.variant() - 1 : call.variant());
    // Parameters between the tensor and `inplace` are plain numbers.
    for (std::size_t i = 1; i <= slots; ++i) {
        const Operand& parameter = call[i];
        if (parameter.is_given() && !parameter.real() && !parameter.boolean()) return false;
        if (i == slots && parameter.boolean() == true) in_place = true;
    }
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    return in_place ? elementwise.writes_to(call[0], OutputType::Common) : elementwise.gives(OutputType::Common);
}

/// Some are defined for integers too.
bool activation_of_numbers(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || torch_room::is_complex(self->dtype) || self->dtype == torch_room::dtype::kBool) return false;
    if (is_floating(self->dtype)) return activation(call);
    if (call[1].is_given() && !call[1].boolean()) return false;
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    return call[1].boolean() == true ? elementwise.writes_to(call[0], OutputType::Common)
                                     : elementwise.gives(OutputType::Common);
}

/// Without parameters, and float for integers: composed of arithmetic.
bool arithmetic_activation(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || torch_room::is_complex(self->dtype) || self->dtype == torch_room::dtype::kBool) return false;
    Elementwise elementwise(call);
    return elementwise.add(call[0]) && elementwise.gives(OutputType::Float);
}

/// For kernels whose result is contiguous on the CPU, and follows the input elsewhere.
bool gives_contiguous(Call& call, const TensorMeta& self) {
    if (!is_on_cpu(self) && self.strides != contiguous_strides(self.sizes)) return false;
    return call.returns(call.fresh(self.sizes, self.dtype, self.device), call.records({&self}));
}

bool log_sigmoid(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && is_floating(self->dtype) && gives_contiguous(call, *self);
}

constexpr int kNotNegative = 1;

/// Only parameters, none of them `inplace`.
bool parametrized(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype)) return false;
    for (std::size_t i = 1; i < 4; ++i) {
        if (!call[i].is_given()) continue;
        auto value = call[i].real();
        if (!value || (call.variant() == kNotNegative && *value < 0)) return false;
    }
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    return elementwise.gives(OutputType::Common);
}

/// Integers keep their type.
bool activation_of_integers(Call& call, std::size_t in_place_slot) {
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    bool in_place = call.variant() < 0 || call[in_place_slot].boolean() == true;
    return in_place ? elementwise.writes_to(call[0], OutputType::Common) : elementwise.gives(OutputType::Common);
}

bool hardtanh(Call& call) {
    auto low = call[1].is_given() ? call[1].real() : -1.0, high = call[2].is_given() ? call[2].real() : 1.0;
    if (call[0].tensor() == nullptr || !low || !high || *low > *high) return false;
    using namespace torch_room::dtype;
    // For unsigned integers PyTorch rejects negative bounds.
    Dtype type = call[0].tensor()->dtype;
    if (torch_room::is_complex(type) || type == kBool || type == kByte) return false;
    if (call[3].is_given() && !call[3].boolean()) return false;
    if (is_known_empty(call[0].tensor()->sizes) && !is_plainly_empty(*call[0].tensor())) return false;
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    if (call.variant() < 0 || call[3].boolean() == true) return elementwise.writes_to(call[0], OutputType::Common);
    elementwise.writes_to_existing_tensor();
    return elementwise.gives(OutputType::Common);
}

/// `relu6` is `hardtanh` between zero and six.
template <int in_place_slot>
bool relu6(Call& call) {
    if (call[0].tensor() == nullptr) return false;
    Operand in_place = in_place_slot > 0 ? call[in_place_slot] : Operand();
    for (std::size_t i = 1; i < 3; ++i) call.slots()[i] = Operand();
    call.slots()[3] = in_place;
    return hardtanh(call);
}

bool threshold(Call& call) {
    if (call[0].tensor() == nullptr || !torch_room::is_integral(call[0].tensor()->dtype)) return activation(call);
    return call[0].tensor()->dtype != torch_room::dtype::kBool && call[1].integer() && call[2].integer() &&
           activation_of_integers(call, 3);
}

bool gelu(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype)) return false;
    if (call[1].is_given() && call[1].string() != "none" && call[1].string() != "tanh") return false;
    Elementwise elementwise(call);
    return elementwise.add(call[0]) && elementwise.gives(OutputType::Common);
}

bool glu(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer_or(-1);
    if (self == nullptr || !is_floating(self->dtype) || self->sizes.empty() || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || self->sizes[*dimension] % 2 != 0) return false;
    // The product of two halves, each a part of the input.
    TensorMeta half = *self;
    half.sizes[*dimension] = half.sizes[*dimension] / 2;
    const TensorMeta* halves[] = {&half, &half};
    Dims strides = elementwise_strides(halves, half.sizes);
    return call.returns(call.fresh(half.sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

constexpr int kAlpha = -1;

bool dropout(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto probability = call[1].is_given() ? call[1].real() : 0.5;
    auto training = call[2].boolean_or(true), in_place = call[3].boolean_or(false);
    if (self == nullptr || !probability || *probability < 0 || *probability > 1 || !training || !in_place) return false;
    if (!is_floating(self->dtype)) return false;
    if (*in_place) {
        if (*probability == 0 || *probability == 1 || !*training || is_known_empty(self->sizes)) return false;
        call.answer().random = true;
        return call.returns_written(call[0], call.records({self}));
    }
    if (*probability == 0 || !*training || is_known_empty(self->sizes)) {
        // In inference mode the operation itself is marked as random.
        call.answer().random = call.state().inference;
        return call.returns_same(call[0]);
    }
    // Everything is dropped: multiplication by zero.
    if (*probability == 1 && call.variant() == kAlpha) return false;
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    if (*probability == 1) elementwise.writes_to_existing_tensor();
    call.answer().random = *probability < 1 || call.state().inference;
    return elementwise.gives(OutputType::Common);
}

/// `F.alpha_dropout` defaults to `training=False`.
bool alpha_dropout(Call& call) {
    if (call[2].is_given()) return dropout(call);
    call.answer().random = call.state().inference;
    return call[0].tensor() != nullptr && call.returns_same(call[0]);
}

/// `F.dropout2d` and others drop whole channels.
bool dropout_of_channels(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto spatial = static_cast<std::size_t>(call.variant());
    if (self == nullptr || call[3].boolean_or(false) != false) return false;
    // Other numbers of dimensions give a warning.
    if (spatial == 0 ? self->dimensions() < 2 : self->dimensions() != spatial + 2) return false;
    return !has_idle_strides(*self) && dropout(call);
}

/// `F.rrelu(input, lower, upper, training, inplace)`: in training with slopes drawn at random.
bool rrelu(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto lower = call[1].is_given() ? call[1].real() : 1.0 / 8, upper = call[2].is_given() ? call[2].real() : 1.0 / 3;
    auto training = call[3].boolean_or(false), in_place = call[4].boolean_or(false);
    if (self == nullptr || !is_floating(self->dtype) || !lower || !upper || *lower > *upper || !training || !in_place)
        return false;
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    // PyTorch marks it as random, in training or not.
    call.answer().random = true;
    if (*in_place) return elementwise.writes_to(call[0], OutputType::Common);
    return gives_contiguous(call, *self);
}

bool prelu(Call& call) {
    const TensorMeta *self = call[0].tensor(), *weight = call[1].tensor();
    if (self == nullptr || weight == nullptr || !is_floating(self->dtype) || weight->dtype != self->dtype ||
        weight->device != self->device || weight->dimensions() > 1 || has_idle_strides(*self))
        return false;
    TensorMeta shaped = *weight;
    Dim count = element_count(weight->sizes);
    if (self->sizes.empty()) {
        if (count != 1) return false;
        return call.returns(call.fresh({}, self->dtype, self->device), call.records({self, weight}));
    }
    if (count != 1) {
        if (count != (self->dimensions() == 1 ? Dim(1) : self->sizes[1])) return false;
        // One number for each channel.
        shaped.sizes.assign(self->dimensions(), Dim(1));
        shaped.strides.assign(self->dimensions(), Dim(1));
        shaped.sizes[1] = count;
    } else if (weight->dimensions() == 1 && self->dimensions() > 1) {
        shaped.sizes.assign(self->dimensions(), Dim(1));
        shaped.strides.assign(self->dimensions(), Dim(1));
    }
    const TensorMeta* inputs[] = {self, &shaped};
    Dims strides = elementwise_strides(inputs, self->sizes);
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device),
                        call.records({self, weight}));
}

}  // namespace

void add_activation_rules(Registry& registry) {
    registry.add_neutral("F.relu", "self inplace?", activation_of_numbers, 1);
    registry.add_neutral("F.relu6", "self inplace?", relu6<1>);
    // The native functions that these call.
    registry.add_neutral("_C._nn.relu6", "self", relu6<0>);
    registry.add_neutral("_C._nn.silu _C._nn.mish _C._nn.hardswish _C._nn.hardsigmoid", "self", activation, 0);
    registry.add_neutral("_C._nn.relu6_ _C._nn.silu_ _C._nn.mish_ _C._nn.hardswish_ _C._nn.hardsigmoid_ torch.relu_",
                         "self", activation, -1);
    registry.add_neutral("_C._nn.leaky_relu", "self negative_slope?", activation, 1);
    registry.add_neutral("_C._nn.elu", "self alpha? scale? input_scale?", activation, 3);
    registry.add_neutral("_C._nn.elu_", "self alpha? scale? input_scale?", activation, -4);
    registry.add_neutral("_C._nn.hardtanh", "self min_val? max_val?", hardtanh, 2);
    registry.add_neutral("_C._nn.glu", "self dim?", glu);
    registry.add_neutral("F.selu F.silu F.mish F.hardswish F.hardsigmoid", "self inplace?", activation, 1);
    registry.add_neutral("torch.selu", "self", activation, 0);
    registry.add_neutral("torch.selu_ F.selu_ F.relu_", "self", activation, -1);
    registry.add_neutral("F.leaky_relu", "self negative_slope? inplace?", activation, 2);
    registry.add_neutral("F.leaky_relu_ _C._nn.leaky_relu_", "self negative_slope?", activation, -2);
    registry.add_neutral("F.elu_ F.celu_ torch.celu_", "self alpha?", activation, -2);
    registry.add_neutral("torch.celu", "self alpha?", parametrized);
    registry.add_neutral("F.hardtanh_ _C._nn.hardtanh_", "self min_val? max_val?", hardtanh, -3);
    registry.add_neutral("torch.threshold", "self threshold value", threshold, 2);
    registry.add_neutral("torch.threshold_ F.threshold_", "self threshold value", threshold, -3);
    registry.add_neutral("F.elu F.celu", "self alpha? inplace?", activation, 2);
    registry.add_neutral("F.hardtanh", "self min_val? max_val? inplace?", hardtanh, 3);
    registry.add_neutral_on_cpu("F.softplus", "self beta? threshold?", parametrized);
    registry.add_neutral("F.softshrink", "self lambd?", parametrized, kNotNegative);
    registry.add_neutral("F.hardshrink torch.hardshrink Tensor.hardshrink", "self lambd?", parametrized);
    registry.add_neutral("F.tanhshrink F.softsign", "self", arithmetic_activation);
    registry.add_neutral("F.logsigmoid", "self", log_sigmoid);
    registry.add_neutral("F.gelu", "self * approximate?", gelu);
    registry.add_neutral("F.glu", "self dim?", glu);
    registry.add_neutral("F.dropout", "self p? training? inplace?", dropout);
    registry.add_neutral("torch.dropout", "self p train", dropout);
    registry.add_neutral("torch.alpha_dropout", "self p train", dropout, kAlpha);
    registry.add_neutral("F.alpha_dropout", "self p? training? inplace?", alpha_dropout, kAlpha);
    registry.add_neutral("torch.feature_dropout", "self p train", dropout_of_channels);
    registry.add_neutral("F.dropout1d", "self p? training? inplace?", dropout_of_channels, 1);
    registry.add_neutral("F.dropout2d", "self p? training? inplace?", dropout_of_channels, 2);
    registry.add_neutral("F.dropout3d", "self p? training? inplace?", dropout_of_channels, 3);
    registry.add_neutral("F.threshold", "self threshold value inplace?", threshold, 3);
    registry.add_neutral("F.rrelu", "self lower? upper? training? inplace?", rrelu);
    registry.add_neutral("torch.rrelu", "self lower? upper? training?", rrelu);
    registry.add_lowered("F.prelu torch.prelu Tensor.prelu", "self weight", prelu);
}

}  // namespace stator::shape
