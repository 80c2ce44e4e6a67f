/// Operations along one dimension that keep it: softmax, cumulative sums, sorting, the largest k.
#include "shape/language/reduction.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_floating;
using torch_room::is_integral;

bool softmax_of(Call& call, const Operand& where, const Operand& requested) {
    const TensorMeta* self = call[0].tensor();
    auto dimension = where.integer();
    if (self == nullptr || !dimension || !wrap_dimension(*dimension, self->dimensions())) return false;
    auto type = requested.is_absent() ? std::optional(self->dtype) : requested.dtype();
    if (!type || !is_floating(*type)) return false;
    // The layout for other inputs depends on the device.
    if (!is_on_cpu(*self) && !is_contiguous(self->sizes, self->strides)) return false;
    return call.returns(call.fresh(self->sizes, *type, self->device), call.records({self}));
}

bool softmax(Call& call) {
    return softmax_of(call, call[1], call[2]);
}

/// `F.softmax(input, dim, _stacklevel, dtype)`.
bool functional_softmax(Call& call) {
    return softmax_of(call, call[1], call[3]);
}

bool cumulative(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer();
    if (self == nullptr || !where || !wrap_dimension(*where, self->dimensions())) return false;
    Dtype type = is_integral(self->dtype) ? kLong : self->dtype;
    if (!call[2].is_absent()) {
        auto requested = call[2].dtype();
        if (!requested || !torch_room::is_ordinary(*requested)) return false;
        type = *requested;
    }
    if (type == kComplexHalf || type == kBool) return false;
    return call.returns(call.fresh(self->sizes, type, self->device), call.records({self}));
}

bool sort(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer_or(-1);
    auto descending = call[2].boolean_or(false);
    if (!call[3].is_absent() && !call[3].boolean()) return false;
    if (self == nullptr || is_complex(self->dtype) || !where || !descending ||
        !wrap_dimension(*where, self->dimensions()))
        return false;
    Dims strides = preserved_strides(*self);
    TensorMeta values = call.fresh(self->sizes, strides, self->dtype, self->device);
    TensorMeta indices = call.fresh(self->sizes, std::move(strides), kLong, self->device);
    if (call.variant() != 0) return call.returns(std::move(indices));
    static PyTypeObject* const type = return_type("sort");
    return call.returns_several({std::move(values), std::move(indices)}, {call.records({self}), false}, type);
}

/// `cummax` and `cummin`: values and their indices.
bool cumulative_extreme(Call& call) {
    static PyTypeObject* const types[] = {return_type("cummax"), return_type("cummin")};
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer();
    if (self == nullptr || is_complex(self->dtype) || !where || !wrap_dimension(*where, self->dimensions()))
        return false;
    return call.returns_several(
        {call.fresh(self->sizes, self->dtype, self->device), call.fresh(self->sizes, kLong, self->device)},
        {call.records({self}), false}, types[call.variant()]);
}

bool log_cumulative(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer();
    if (self == nullptr || !torch_room::is_floating(self->dtype) || !where ||
        !wrap_dimension(*where, self->dimensions()))
        return false;
    return call.returns(call.fresh(self->sizes, self->dtype, self->device), call.records({self}));
}

bool topk(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto count = call[1].integer(), where = call[2].integer_or(-1);
    auto largest = call[3].boolean_or(true), sorted = call[4].boolean_or(true);
    if (self == nullptr || is_complex(self->dtype) || self->dtype == kBool || !count || !where || !largest || !sorted)
        return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dims sizes = self->sizes;
    if (sizes.empty()) {
        if (*count < 0 || *count > 1) return false;
    } else {
        if (*count < 0 || *count > sizes[*dimension]) return false;
        sizes[*dimension] = *count;
    }
    static PyTypeObject* const type = return_type("topk");
    return call.returns_several({call.fresh(sizes, self->dtype, self->device), call.fresh(sizes, kLong, self->device)},
                                {call.records({self}), false}, type);
}

}  // namespace

void add_scan_rules(Registry& registry) {
    registry.add_neutral_on_cpu(
        "torch.softmax Tensor.softmax torch.log_softmax Tensor.log_softmax special.softmax "
        "special.log_softmax",
        "self dim dtype?", softmax);
    registry.add_neutral_on_cpu("F.softmax F.log_softmax F.softmin", "self dim _stacklevel? dtype?",
                                functional_softmax);
    registry.add_neutral_on_cpu("torch.cumsum Tensor.cumsum torch.cumprod Tensor.cumprod", "self dim * dtype?",
                                cumulative);
    registry.add("torch.logcumsumexp Tensor.logcumsumexp", "self dim", log_cumulative);
    registry.add_neutral_on_cpu("Tensor.cumsum_ Tensor.cumprod_", "self dim * dtype?", written<cumulative>);
    registry.add_neutral("torch.sort Tensor.sort", "self dim? descending? * stable?", sort);
    registry.add_neutral("torch.argsort Tensor.argsort", "self dim? descending? * stable?", sort, 1);
    registry.add_neutral("torch.cummax Tensor.cummax", "self dim", cumulative_extreme, 0);
    registry.add_neutral("torch.cummin Tensor.cummin", "self dim", cumulative_extreme, 1);
    registry.add_neutral("torch.topk Tensor.topk", "self k dim? largest? sorted?", topk);
}

}  // namespace stator::shape
