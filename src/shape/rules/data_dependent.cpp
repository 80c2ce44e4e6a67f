/// Operations whose results depend on data: the number of elements, or the value of one.
#include <algorithm>

#include "shape/language/index.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

TensorMeta indices(Call& call, const TensorMeta& like, Dims sizes) {
    return call.fresh(std::move(sizes), kLong, like.device);
}

/// `nonzero(as_tuple=)` and `argwhere`: the positions of all elements that are not zero. The CPU puts those of each
/// dimension next to each other.
bool nonzero(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto as_tuple = call[1].boolean_or(false);
    if (self == nullptr || !as_tuple) return false;
    if (!call.captures_data_sizes()) return call.depends_on_contents();
    if (!*as_tuple) {
        const Dim count = call.count_of(call[0]);
        const auto dimensions = static_cast<std::int64_t>(self->dimensions());
        return call.returns(call.fresh({count, dimensions}, {Dim(1), count}, kLong, self->device));
    }
    return returns_positions(call, call[0]);
}

/// The parts that `unique` and its relatives always return: the elements, the position of each one's equal, and how
/// often each occurs. What was not asked for is empty.
bool returns_unique(Call& call, Dims elements, Dim count, Dims inverse, bool has_inverse, bool has_counts) {
    const TensorMeta& self = *call[0].tensor();
    std::vector<TensorMeta> parts{call.fresh(std::move(elements), self.dtype, self.device)};
    parts.push_back(indices(call, self, has_inverse ? std::move(inverse) : Dims{Dim(0)}));
    parts.push_back(indices(call, self, has_counts ? Dims{count} : Dims{Dim(0)}));
    return call.returns_several(std::move(parts), {call.records({&self}), false, false});
}

/// The number of different elements among so many.
Dim count_different(Call& call, Dim among) {
    return call.data_size(among, known_less(0, among) ? 1 : 0);
}

/// `_unique2(self, sorted, return_inverse, return_counts)`.
bool unique(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto with_inverse = call[2].boolean_or(false), with_counts = call[3].boolean_or(false);
    if (self == nullptr || !with_inverse || !with_counts) return false;
    if (!call.captures_data_sizes() || !is_on_cpu(*self)) return call.depends_on_contents();
    const Dim count = count_different(call, element_count(self->sizes));
    return returns_unique(call, {count}, count, self->sizes, *with_inverse, *with_counts);
}

/// `unique_consecutive(self, return_inverse, return_counts, dim)` and `unique_dim(self, dim, sorted, return_inverse,
/// return_counts)`, whose parts are all there.
template <bool is_consecutive>
bool unique_along(Call& call) {
    const TensorMeta* self = call[0].tensor();
    const Operand& where = call[is_consecutive ? 3 : 1];
    auto with_inverse = call[is_consecutive ? 1 : 3].boolean_or(false);
    auto with_counts = call[is_consecutive ? 2 : 4].boolean_or(false);
    if (self == nullptr || !with_inverse || !with_counts) return false;
    if (!call.captures_data_sizes() || !is_on_cpu(*self)) return call.depends_on_contents();
    if (where.is_absent()) {
        const Dim count = count_different(call, element_count(self->sizes));
        return returns_unique(call, {count}, count, self->sizes, *with_inverse, *with_counts);
    }
    auto dimension = where.integer() ? wrap_dimension(*where.integer(), self->dimensions()) : std::nullopt;
    if (!dimension || self->sizes.empty()) return false;
    // PyTorch has other results, and errors, for empty tensors.
    for (Dim size : self->sizes)
        if (!known_less(0, size)) return call.depends_on_contents();
    Dims sizes = self->sizes;
    const Dim count = count_different(call, sizes[*dimension]);
    Dims inverse{sizes[*dimension]};
    sizes[*dimension] = count;
    return returns_unique(call, std::move(sizes), count, std::move(inverse), true, true);
}

/// `torch.unique` and `torch.unique_consecutive`, which return only what was asked for.
template <bool is_consecutive>
bool unique_parts(Call& call) {
    const Operand asked_inverse = call[is_consecutive ? 1 : 2], asked_counts = call[is_consecutive ? 2 : 3];
    auto with_inverse = asked_inverse.boolean_or(false), with_counts = asked_counts.boolean_or(false);
    const Operand where = call[is_consecutive ? 3 : 4];
    if (!with_inverse || !with_counts) return false;
    auto& slots = call.slots();
    if (!is_consecutive && !where.is_absent()) {
        const Operand sorted = slots[1];
        slots[1] = where;
        slots[2] = sorted;
        slots[3] = asked_inverse;
        slots[4] = asked_counts;
        if (!unique_along<false>(call)) return false;
    } else if (is_consecutive ? !unique_along<true>(call) : !unique(call)) {
        return false;
    }
    Answer& answer = call.answer();
    if (answer.status != Status::Ok) return true;
    std::vector<graph::Result> parts = std::move(answer.result.items);
    if (!*with_counts) parts.pop_back();
    if (!*with_inverse) parts.erase(parts.begin() + 1);
    if (parts.size() == 1)
        answer.result = std::move(parts.front());
    else
        answer.result.items = std::move(parts);
    return true;
}

bool masked_select(Call& call) {
    const TensorMeta *self = call[0].tensor(), *mask = call[1].tensor();
    if (self == nullptr || mask == nullptr || mask->dtype != kBool || !broadcast(self->sizes, mask->sizes))
        return false;
    if (!call.captures_data_sizes()) return call.depends_on_contents();
    const Dim count = call.data_size(element_count(*broadcast(self->sizes, mask->sizes)));
    return call.returns(call.fresh({count}, self->dtype, self->device), call.records({self}));
}

bool bincount(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() != 1 || !torch_room::is_integral(self->dtype) || self->dtype == kBool)
        return false;
    const TensorMeta* weights = call[1].tensor();
    auto least = call[2].integer_or(0);
    if (!call.captures_data_sizes() || (weights == nullptr && !call[1].is_absent()) || !least || !least->is_constant())
        return call.depends_on_contents();
    if (weights != nullptr && (!is_on_cpu(*weights) || weights->sizes != self->sizes))
        return call.depends_on_contents();
    const Dtype type = weights == nullptr ? kLong : weights->dtype == kFloat ? kFloat : kDouble;
    const Dim size = call.data_size(Range::kNoMost, std::max<std::int64_t>(least->value(), 0));
    return call.returns(call.fresh({size}, type, self->device));
}

/// `item()` and `float(x)` of one element.
bool item(Call& call) {
    const TensorMeta* self = call[0].tensor();
    return self != nullptr && element_count(self->sizes) == 1 && call.depends_on_contents();
}

/// `equal` of any two tensors, which may have different sizes.
bool equal(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    return self != nullptr && other != nullptr && self->dtype == other->dtype && self->device == other->device &&
           call.depends_on_contents();
}

bool two_tensors(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr || self->dtype != other->dtype || self->device != other->device)
        return false;
    return self->sizes == other->sizes && !is_known_empty(self->sizes) && call.depends_on_contents();
}

/// Counts between bounds: the size is the number of bins.
bool histc(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto bins = call[1].integer_or(100);
    if (self == nullptr || !torch_room::is_floating(self->dtype) || !bins || *bins <= 0 || !is_on_cpu(*self))
        return false;
    auto low = call[2].is_given() ? call[2].real() : 0.0, high = call[3].is_given() ? call[3].real() : 0.0;
    if (!low || !high || *low > *high) return false;
    return call.returns(call.fresh({*bins}, self->dtype, self->device));
}

}  // namespace

void add_data_dependent_rules(Registry& registry) {
    registry.add_neutral("torch.nonzero Tensor.nonzero", "self * as_tuple?", nonzero);
    registry.add_neutral("torch.argwhere Tensor.argwhere", "self", nonzero);
    registry.add_neutral("torch.masked_select Tensor.masked_select", "self mask", masked_select);
    registry.add_neutral("torch.bincount Tensor.bincount", "self weights? minlength?", bincount);
    registry.add_neutral("torch.unique Tensor.unique", "self sorted? return_inverse? return_counts? dim?",
                         unique_parts<false>);
    registry.add_neutral("torch.unique_consecutive Tensor.unique_consecutive",
                         "self return_inverse? return_counts? dim?", unique_parts<true>);
    registry.add_neutral("_VF._unique2", "self sorted? return_inverse? return_counts?", unique);
    registry.add_neutral("_VF.unique_consecutive", "self return_inverse? return_counts? dim?", unique_along<true>);
    registry.add_neutral("_VF.unique_dim", "self dim sorted? return_inverse? return_counts?", unique_along<false>);
    registry.add_neutral("Tensor.item Tensor.__bool__ Tensor.__float__ Tensor.__int__ Tensor.__index__", "self", item);
    registry.add_neutral("torch.equal Tensor.equal", "self other", equal);
    registry.add_neutral("torch.allclose Tensor.allclose", "self other rtol? atol? equal_nan?", two_tensors);
    registry.add_neutral_on_cpu("torch.histc Tensor.histc", "self bins? min? max?", histc);
}

}  // namespace stator::shape
