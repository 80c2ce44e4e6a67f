/// Elementwise operations on one tensor with parameters: rounding, replacing NaN, random filling.
#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_floating;
using torch_room::is_integral;

constexpr int kInPlace = 1;

bool finish(Call& call, OutputType output) {
    Elementwise elementwise(call);
    if (!elementwise.add(call[0])) return false;
    return (call.variant() & kInPlace) ? elementwise.writes_to(call[0], output) : elementwise.gives(output);
}

/// `round(decimals=)`.
bool round(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || self->dtype == kBool) return false;
    if (call[1].is_given() && (!call[1].integer() || is_integral(self->dtype))) return false;
    return finish(call, OutputType::Common);
}

bool logit(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || (!call[1].is_absent() && !call[1].real())) return false;
    return finish(call, OutputType::Float);
}

bool nan_to_num(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || has_idle_strides(*self)) return false;
    for (std::size_t i = 1; i < 4; ++i)
        if (!call[i].is_absent() && !call[i].real()) return false;
    return finish(call, OutputType::Common);
}

/// `isclose(other, rtol, atol, equal_nan)`.
bool is_close(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr || self->dtype != other->dtype || is_complex(self->dtype)) return false;
    auto sizes = broadcast(self->sizes, other->sizes);
    if (!sizes || !is_contiguous(self->sizes, self->strides) || !is_contiguous(other->sizes, other->strides) ||
        self->device != other->device)
        return false;
    for (std::size_t i = 2; i < 4; ++i)
        if (call[i].is_given() && (!call[i].real() || *call[i].real() < 0)) return false;
    if (!call[4].boolean_or(false)) return false;
    return call.returns(call.fresh(std::move(*sizes), kBool, self->device));
}

/// `bernoulli_(p)`, `uniform_`, `normal_` and others that fill with random numbers.
bool fill_at_random(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype)) return false;
    for (std::size_t i = 1; i < 3; ++i)
        if (call[i].is_given() && !call[i].real()) return false;
    if (call.variant() == 0) {  // uniform
        auto low = call[1].is_given() ? call[1].real() : 0.0, high = call[2].is_given() ? call[2].real() : 1.0;
        if (*low > *high) return false;
    } else if (call.variant() == 1) {  // normal
        if (call[2].is_given() && *call[2].real() < 0) return false;
    } else if (call.variant() == 3) {  // exponential
        if (call[1].is_given() && *call[1].real() <= 0) return false;
    } else if (call[1].is_given() && (*call[1].real() < 0 || *call[1].real() > 1)) {
        return false;
    }
    call.answer().random = true;
    return call.returns_written(call[0], call.records({self}));
}

/// `bernoulli(x)`: a bit for each probability.
bool bernoulli(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !is_floating(self->dtype)) return false;
    call.answer().random = true;
    return call.returns(call.fresh(self->sizes, self->dtype, self->device), call.records({self}));
}

/// `multinomial(num_samples, replacement)`: indices drawn from each row.
bool multinomial(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto count = call[1].integer();
    auto again = call[2].boolean_or(false);
    if (self == nullptr || !is_floating(self->dtype) || self->sizes.empty() || self->dimensions() > 2 || !count ||
        !again || *count < 1 || (!*again && *count > self->sizes.back()) || self->sizes.back() >= Dim(1 << 24))
        return false;
    Dims sizes(self->sizes.begin(), self->sizes.end() - 1);
    sizes.push_back(*count);
    call.answer().random = true;
    return call.returns(call.fresh(std::move(sizes), kLong, self->device));
}

}  // namespace

void add_elementwise_parameter_rules(Registry& registry) {
    registry.add_neutral("torch.round Tensor.round special.round", "self * decimals?", round);
    registry.add_neutral("torch.round_ Tensor.round_", "self * decimals?", round, kInPlace);
    registry.add_neutral("torch.logit Tensor.logit special.logit", "self eps?", logit);
    registry.add_neutral("torch.logit_ Tensor.logit_", "self eps?", logit, kInPlace);
    registry.add_neutral("torch.nan_to_num Tensor.nan_to_num", "self nan? posinf? neginf?", nan_to_num);
    registry.add_neutral("torch.nan_to_num_ Tensor.nan_to_num_", "self nan? posinf? neginf?", nan_to_num, kInPlace);
    registry.add_neutral("torch.isclose Tensor.isclose", "self other rtol? atol? equal_nan?", is_close);
    registry.add_neutral("torch.bernoulli Tensor.bernoulli", "self", bernoulli);
    registry.add_neutral("torch.multinomial Tensor.multinomial", "self num_samples replacement?", multinomial);
    registry.add_neutral("Tensor.uniform_", "self from? to?", fill_at_random, 0);
    registry.add_neutral("Tensor.normal_", "self mean? std?", fill_at_random, 1);
    registry.add_neutral("Tensor.exponential_", "self lambd?", fill_at_random, 3);
    registry.add_neutral("Tensor.bernoulli_", "self p?", fill_at_random, 2);
}

}  // namespace stator::shape
