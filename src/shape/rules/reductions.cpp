/// Reductions over some or all dimensions, and operations along one: their results are contiguous.
#include "base/python_error.h"
#include "shape/language/promotion.h"
#include "shape/language/reduction.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"
#include "torch/versions.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_floating;
using torch_room::is_integral;

/// The type that a sum accumulates in, or the requested one.
std::optional<Dtype> accumulated_type(Dtype type, const Operand& requested) {
    if (!requested.is_absent()) return requested.dtype();
    return is_integral(type) ? kLong : type;
}

bool give(Call& call, Dims sizes, Dtype type, bool differentiable = true) {
    const TensorMeta* self = call[0].tensor();
    return call.returns(call.fresh(std::move(sizes), type, self->device), differentiable && call.records({self}));
}

bool sum(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    auto type = accumulated_type(self->dtype, call[3]);
    if (!sizes || !type || !torch_room::is_ordinary(*type) || *type == kComplexHalf) return false;
    return give(call, std::move(*sizes), *type);
}

bool mean(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    auto type = call[3].is_absent() ? std::optional(self->dtype) : call[3].dtype();
    if (!sizes || !type || !torch_room::is_ordinary(*type) || is_integral(*type) || *type == kComplexHalf) return false;
    return give(call, std::move(*sizes), *type);
}

bool mean_without_nan(Call& call) {
    return call[0].tensor() != nullptr && is_floating(call[0].tensor()->dtype) &&
           (call[3].is_absent() || (call[3].dtype() && is_floating(*call[3].dtype()))) && mean(call);
}

bool sum_without_nan(Call& call) {
    return call[0].tensor() != nullptr && !is_complex(call[0].tensor()->dtype) && sum(call);
}

/// `prod` takes one dimension at most.
bool product(Call& call) {
    if (call[1].is_given() && !call[1].integer()) return false;
    return sum(call);
}

/// `any` and `all`.
bool truth(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (call[1].is_given() && call[1].is_none()) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    if (!sizes) return false;
    return give(call, std::move(*sizes), self->dtype == kByte ? kByte : kBool, false);
}

bool has_empty_dimension(const TensorMeta& self, const Operand& dimensions) {
    auto chosen = chosen_dimensions(self, dimensions);
    if (!chosen) return true;
    for (std::size_t i = 0; i < self.dimensions(); ++i)
        if ((*chosen)[i] && is_known_empty({self.sizes[i]})) return true;
    return false;
}

/// `amax` and `amin`: the extreme over several dimensions.
bool extreme(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || has_empty_dimension(*self, call[1])) return false;
    if (call[1].is_given() && call[1].is_none()) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    return sizes && give(call, std::move(*sizes), self->dtype);
}

/// `argmax` and `argmin`.
bool argument_of_extreme(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || self->dtype == kBool || has_empty_dimension(*self, call[1]))
        return false;
    if (!call[1].is_absent() && !call[1].integer()) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    return sizes && give(call, std::move(*sizes), kLong, false);
}

/// `max` and `min` are three operations: of all elements, along a dimension with indices, and of two tensors.
bool extreme_in_any_form(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype)) return false;
    if (!call[1].is_given()) {
        if (call[2].is_given() || is_known_empty(self->sizes)) return false;
        return give(call, {}, self->dtype);
    }
    if (call[1].tensor() != nullptr) {
        if (call[2].is_given()) return false;
        Elementwise elementwise(call);
        return elementwise.add(call[0]) && elementwise.add(call[1]) && elementwise.gives(OutputType::Common);
    }
    if (!call[1].integer() || has_empty_dimension(*self, call[1])) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    if (!sizes) return false;
    static PyTypeObject* const types[] = {return_type("max"), return_type("min")};
    return call.returns_several(
        {call.fresh(*sizes, self->dtype, self->device), call.fresh(*sizes, kLong, self->device)},
        {call.records({self}), false}, types[call.variant() == 0 ? 0 : 1]);
}

/// `var` and `std`: over all dimensions, or `dim, unbiased, keepdim`, or with `correction`.
bool variance(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_integral(self->dtype) || self->dtype == kComplexHalf) return false;
    // `var(unbiased)` is over all dimensions.
    if (call[1].boolean()) {
        if (call[2].is_given() || call[3].is_given() || call[4].is_given()) return false;
        return give(call, {}, torch_room::to_real(self->dtype));
    }
    const Operand &dimensions = call[1], &unbiased = call[2], &keep = call[3], &correction = call[4];
    if (unbiased.is_given() && !unbiased.boolean()) return false;
    if (unbiased.is_given() && !dimensions.is_given() && !keep.is_given() && !correction.is_given())
        return give(call, {}, torch_room::to_real(self->dtype));
    if (!correction.is_absent() && (!correction.real() || unbiased.is_given())) return false;
    if (unbiased.is_given() && !dimensions.is_given()) return false;
    auto sizes = reduced_sizes(*self, dimensions, keep);
    return sizes && give(call, std::move(*sizes), torch_room::to_real(self->dtype));
}

/// `var_mean` and `std_mean`.
bool variance_and_mean(Call& call) {
    if (!variance(call)) return false;
    TensorMeta first = *call.answer().result.tensor, second = first;
    second.dtype = call[0].tensor()->dtype;
    bool recorded = call.records({call[0].tensor()});
    call.answer().result = {};
    return call.returns_several({std::move(first), std::move(second)}, {recorded, recorded});
}

bool both_extremes(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype) || has_empty_dimension(*self, call[1])) return false;
    if (!call[1].is_absent() && !call[1].integer()) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    if (!sizes) return false;
    TensorMeta result = call.fresh(std::move(*sizes), self->dtype, self->device);
    bool recorded = call.records({self});
    static PyTypeObject* const type = return_type("aminmax");
    return call.returns_several({result, result}, {recorded, recorded}, type);
}

bool count_nonzero(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    auto sizes = reduced_sizes(*self, call[1], Operand());
    return sizes && give(call, std::move(*sizes), kLong, false);
}

bool log_sum_exp(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || is_complex(self->dtype)) return false;
    auto sizes = reduced_sizes(*self, call[1], call[2]);
    return sizes && give(call, std::move(*sizes), is_integral(self->dtype) ? call.state().default_dtype : self->dtype);
}

bool trace(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() != 2 || self->dtype == kBool || !is_on_cpu(*self)) return false;
    return give(call, {}, is_integral(self->dtype) ? kLong : self->dtype);
}

/// `median(dim)` and `kthvalue(k, dim)`: a value and its index.
bool value_with_index(Call& call, const Operand& dimension, const Operand& keep, PyTypeObject* type) {
    const TensorMeta* self = call[0].tensor();
    if (is_complex(self->dtype) || self->dtype == kBool || is_known_empty(self->sizes) || !dimension.integer())
        return false;
    auto sizes = reduced_sizes(*self, dimension, keep);
    if (!sizes) return false;
    return call.returns_several(
        {call.fresh(*sizes, self->dtype, self->device), call.fresh(*sizes, kLong, self->device)},
        {call.records({self}), false}, type);
}

bool median(Call& call) {
    static PyTypeObject* const types[] = {return_type("median"), return_type("nanmedian")};
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (call[1].is_given()) return value_with_index(call, call[1], call[2], types[call.variant()]);
    if (call[2].is_given() || is_complex(self->dtype) || self->dtype == kBool) return false;
    return give(call, {}, self->dtype);
}

/// `mode(dim, keepdim)`.
bool most_common(Call& call) {
    static PyTypeObject* const type = return_type("mode");
    if (call[0].tensor() == nullptr) return false;
    Ref<> last = checked(PyLong_FromLong(-1));
    return value_with_index(call, call[1].is_given() ? call[1] : Operand(last.get()), call[2], type);
}

/// `quantile(q, dim, keepdim, interpolation=)`: the dimension of several `q` comes first, but is the innermost in
/// memory.
bool quantile(Call& call) {
    const TensorMeta *self = call[0].tensor(), *several = call[1].tensor();
    auto keep = call[3].boolean_or(false);
    if (torch_room::quantile_reads_its_numbers()) return false;
    if (self == nullptr || (self->dtype != kFloat && self->dtype != kDouble) || is_known_empty(self->sizes) || !keep ||
        (!call[2].is_absent() && !call[2].integer()))
        return false;
    if (several != nullptr ? several->dtype != self->dtype || several->device != self->device ||
                                 several->dimensions() > 1 || is_known_empty(several->sizes)
                           : !call[1].real() || *call[1].real() < 0 || *call[1].real() > 1)
        return false;
    if (call[4].is_given()) {
        auto how = call[4].string();
        if (how != "linear" && how != "lower" && how != "higher" && how != "midpoint" && how != "nearest") return false;
    }
    auto chosen = chosen_dimensions(*self, call[2]);
    if (!chosen) return false;
    Dims sizes = self->sizes;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if ((*chosen)[i]) sizes[i] = 1;
    sizes.push_back(several == nullptr ? Dim(1) : element_count(several->sizes));
    Dims strides = contiguous_strides(sizes), left, left_strides;
    if (several != nullptr && several->dimensions() == 1) {
        left.push_back(sizes.back());
        left_strides.push_back(strides.back());
    }
    for (std::size_t i = 0; i < self->dimensions(); ++i) {
        if ((*chosen)[i] && !*keep) continue;
        left.push_back(sizes[i]);
        left_strides.push_back(strides[i]);
    }
    return call.returns(call.fresh(std::move(left), std::move(left_strides), self->dtype, self->device),
                        call.records({self, several}));
}

bool kth_value(Call& call) {
    static PyTypeObject* const type = return_type("kthvalue");
    const TensorMeta* self = call[0].tensor();
    auto which = call[1].integer(), where = call[2].integer_or(-1);
    if (self == nullptr || !which || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || *which < 1 || *which > (self->sizes.empty() ? Dim(1) : self->sizes[*dimension])) return false;
    Ref<> last = checked(PyLong_FromLong(-1));
    return value_with_index(call, call[2].is_given() ? call[2] : Operand(last.get()), call[3], type);
}

}  // namespace

void add_reduction_rules(Registry& registry) {
    registry.add_neutral_on_cpu("torch.sum Tensor.sum", "self dim? keepdim? * dtype?", sum);
    registry.add_neutral_on_cpu("torch.nansum Tensor.nansum", "self dim? keepdim? * dtype?", sum_without_nan);
    registry.add_float32_on_cpu("torch.trace Tensor.trace", "self", trace);
    registry.add_neutral("torch.mean Tensor.mean", "self dim? keepdim? * dtype?", mean);
    registry.add_neutral_on_cpu("torch.nanmean Tensor.nanmean", "self dim? keepdim? * dtype?", mean_without_nan);
    registry.add_neutral("torch.mode Tensor.mode", "self dim? keepdim?", most_common);
    registry.add("torch.quantile Tensor.quantile torch.nanquantile Tensor.nanquantile",
                 "self q dim? keepdim? * interpolation?", quantile);
    registry.add_float32_on_cpu("torch.prod Tensor.prod", "self dim? keepdim? * dtype?", product);
    registry.add_neutral("torch.any Tensor.any torch.all Tensor.all", "self dim? keepdim?", truth);
    registry.add_neutral("torch.amax Tensor.amax torch.amin Tensor.amin", "self dim? keepdim?", extreme);
    registry.add_neutral("torch.argmax Tensor.argmax torch.argmin Tensor.argmin", "self dim? keepdim?",
                         argument_of_extreme);
    registry.add_neutral("torch.max Tensor.max", "self dim? keepdim?", extreme_in_any_form, 0);
    registry.add_neutral("torch.min Tensor.min", "self dim? keepdim?", extreme_in_any_form, 1);
    registry.add_neutral("torch.var Tensor.var torch.std Tensor.std", "self dim? unbiased? keepdim? * correction?",
                         variance);
    registry.add_neutral("torch.median Tensor.median", "self dim? keepdim?", median, 0);
    registry.add_neutral("torch.nanmedian Tensor.nanmedian", "self dim? keepdim?", median, 1);
    registry.add_neutral("torch.kthvalue Tensor.kthvalue", "self k dim? keepdim?", kth_value);
    registry.add_neutral("torch.var_mean torch.std_mean", "self dim? unbiased? keepdim? * correction?",
                         variance_and_mean);
    registry.add_neutral("torch.aminmax Tensor.aminmax", "self * dim? keepdim?", both_extremes);
    registry.add_neutral("torch.count_nonzero Tensor.count_nonzero", "self dim?", count_nonzero);
    registry.add_neutral_on_cpu("torch.logsumexp Tensor.logsumexp special.logsumexp", "self dim keepdim?", log_sum_exp);
}

}  // namespace stator::shape
