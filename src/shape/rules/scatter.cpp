/// Writes to the positions of an index tensor: scatter, index_add and similar operations; and reads from them.
#include <algorithm>
#include <utility>

#include "shape/language/index.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

constexpr int kInPlace = 1;

bool is_real_number(const Operand& operand) {
    auto type = operand.number_type();
    return type && !torch_room::is_complex(*type);
}

/// A contiguous result of the sizes of the first argument, or that argument itself.
bool give(Call& call, const TensorMeta* source, bool in_place) {
    const TensorMeta* self = call[0].tensor();
    bool recorded = call.records({self, source});
    if (in_place) return call.returns_written(call[0], recorded);
    return call.returns(call.fresh(self->sizes, self->dtype, self->device), recorded);
}

/// Whether the index fits into the tensor except along one dimension, and into the source in all.
bool fits(const TensorMeta& self, std::size_t dimension, const TensorMeta& index, const TensorMeta* source) {
    Dims sizes = at_least_one_dimension(self.sizes), places = at_least_one_dimension(index.sizes);
    if ((index.dtype != kLong && index.dtype != kInt) || index.device != self.device || places.size() != sizes.size() ||
        is_known_empty(index.sizes))
        return false;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (i != dimension && !require_less_equal(places[i], sizes[i])) return false;
    if (source == nullptr) return true;
    Dims sources = at_least_one_dimension(source->sizes);
    if (source->dtype != self.dtype || source->device != self.device || sources.size() != sizes.size()) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (!require_less_equal(places[i], sources[i])) return false;
    return true;
}

/// `scatter(dim, index, src or value, reduce=)` and `scatter_add(dim, index, src)`.
bool scatter(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor(), *source = call[3].tensor();
    auto where = call[1].integer();
    if (self == nullptr || index == nullptr || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || !fits(*self, *dimension, *index, source)) return false;
    if (source == nullptr && !is_real_number(call[3])) return false;
    if (call[4].is_given()) {
        auto reduce = call[4].string();
        if ((reduce != "add" && reduce != "multiply") || torch_room::is_complex(self->dtype) || self->dtype == kBool)
            return false;
    }
    return give(call, source, call.variant() & kInPlace);
}

bool scatter_add(Call& call) {
    return call[3].tensor() != nullptr && scatter(call);
}

/// `scatter_reduce(dim, index, src, reduce, include_self=)`.
bool scatter_reduce(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor(), *source = call[3].tensor();
    auto where = call[1].integer();
    if (self == nullptr || index == nullptr || source == nullptr || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || !fits(*self, *dimension, *index, source)) return false;
    auto reduce = call[4].string();
    if (reduce != "sum" && reduce != "prod" && reduce != "mean" && reduce != "amax" && reduce != "amin") return false;
    if (!call[5].boolean_or(true) || torch_room::is_complex(self->dtype) || self->dtype == kBool) return false;
    return give(call, source, call.variant() & kInPlace);
}

bool is_index_vector(const TensorMeta* index, const TensorMeta& self, bool also_int) {
    return index != nullptr && (index->dtype == kLong || (also_int && index->dtype == kInt)) &&
           index->device == self.device && index->dimensions() <= 1;
}

/// Whether the source has a slice for each index.
bool has_slices(const TensorMeta& self, std::size_t dimension, const TensorMeta& index, const TensorMeta* source) {
    if (source == nullptr || source->dtype != self.dtype || source->device != self.device ||
        source->dimensions() != self.dimensions())
        return false;
    Dims sizes = at_least_one_dimension(self.sizes), sources = at_least_one_dimension(source->sizes);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (!require_equal(sources[i], i == dimension ? element_count(index.sizes) : sizes[i])) return false;
    return true;
}

/// `index_add(dim, index, source, alpha=)` and `index_copy(dim, index, source)`.
template <bool also_int>
bool index_with_slices(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor(), *source = call[3].tensor();
    auto where = call[1].integer();
    if (self == nullptr || !where || !is_index_vector(index, *self, also_int)) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || !has_slices(*self, *dimension, *index, source) || is_known_empty(self->sizes)) return false;
    if (call[4].is_given()) {
        bool whole = torch_room::is_integral(self->dtype);
        if (self->dtype == kBool || !(whole ? call[4].integer().has_value() : call[4].real().has_value())) return false;
    }
    return give(call, source, call.variant() & kInPlace);
}

bool index_fill(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor(), *value = call[3].tensor();
    auto where = call[1].integer();
    if (self == nullptr || !where || !is_index_vector(index, *self, false)) return false;
    if (!wrap_dimension(*where, self->dimensions())) return false;
    if (value != nullptr ? !value->sizes.empty() || value->device != self->device || value->dtype != self->dtype
                         : !is_real_number(call[3]))
        return false;
    bool recorded = call.records({self, value});
    if (call.variant() & kInPlace) return call.returns_written(call[0], recorded);
    return call.returns(call.fresh(self->sizes, preserved_strides(*self), self->dtype, self->device), recorded);
}

bool masked_scatter(Call& call) {
    const TensorMeta *self = call[0].tensor(), *mask = call[1].tensor(), *source = call[2].tensor();
    if (self == nullptr || mask == nullptr || source == nullptr || mask->dtype != kBool ||
        source->dtype != self->dtype || mask->device != self->device || source->device != self->device)
        return false;
    auto sizes = broadcast(self->sizes, mask->sizes);
    if (!sizes) return false;
    bool recorded = call.records({self, source});
    if (call.variant() & kInPlace) return *sizes == self->sizes && call.returns_written(call[0], recorded);
    return call.returns(call.fresh(std::move(*sizes), self->dtype, self->device), recorded);
}

/// `take_along_dim(indices, dim)`: gather, with the other dimensions broadcast.
bool take_along_dim(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[1].tensor();
    if (self == nullptr || index == nullptr || index->dtype != kLong || index->device != self->device) return false;
    Dims sizes;
    if (call[2].is_absent()) {
        // Both are viewed as vectors, without a copy.
        if (!is_contiguous(self->sizes, self->strides) || !is_contiguous(index->sizes, index->strides)) return false;
        sizes = {element_count(index->sizes)};
    } else {
        auto where = call[2].integer();
        if (!where || self->sizes.empty() || index->dimensions() != self->dimensions()) return false;
        auto dimension = wrap_dimension(*where, self->dimensions());
        if (!dimension) return false;
        Dims without = self->sizes;
        without[*dimension] = index->sizes[*dimension];
        auto both = broadcast(without, index->sizes);
        if (!both || (*both)[*dimension] != index->sizes[*dimension]) return false;
        sizes = std::move(*both);
    }
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self}));
}

bool take(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[1].tensor();
    if (self == nullptr || index == nullptr || index->dtype != kLong || index->device != self->device) return false;
    if (is_known_empty(self->sizes) && !is_known_empty(index->sizes)) return false;
    return call.returns(call.fresh(index->sizes, self->dtype, self->device), call.records({self}));
}

/// `index_put(indices, values, accumulate)` with tensors of integers.
bool index_put(Call& call) {
    const TensorMeta *self = call[0].tensor(), *values = call[2].tensor();
    auto accumulate = call[3].boolean_or(false);
    if (self == nullptr || values == nullptr || values->dtype != self->dtype || values->device != self->device ||
        !accumulate || !call[1].is_sequence())
        return false;
    std::vector<Operand> indices = call[1].items();
    if (indices.empty() || indices.size() > self->dimensions()) return false;
    Choosers choosers(self->dimensions());
    Dims chosen;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i].is_none()) continue;
        choosers[i] = as_chooser(indices[i], *self);
        if (!choosers[i]) return false;
    }
    IndexedPart whole{self->sizes, self->strides, self->storage_offset};
    if (indices.size() == 1 && choosers[0] && choosers[0]->is_mask) {
        const Dims mask = choosers[0]->sizes;
        if (mask.size() > self->dimensions() || !std::equal(mask.begin(), mask.end(), self->sizes.begin()))
            return false;
        choosers[mask.size() - 1] = std::exchange(choosers[0], std::nullopt);
        chosen = sizes_for_mask(whole, choosers, values->sizes).value();
    } else {
        for (const auto& chooser : choosers)
            if (chooser && chooser->is_mask) return false;
        auto part = choose_elements(whole, choosers);
        if (!part) return false;
        chosen = std::move(part->sizes);
    }
    auto expanded = broadcast(chosen, values->sizes);
    if (!expanded || *expanded != chosen) return false;
    bool recorded = call.records({self, values});
    if (call.variant() & kInPlace) return call.returns_written(call[0], recorded);
    return call.returns(call.fresh(self->sizes, preserved_strides(*self), self->dtype, self->device), recorded);
}

}  // namespace

void add_scatter_rules(Registry& registry) {
    struct Family {
        const char* name;
        const char* signature;
        RuleFunction function;
        Autocast autocast = Autocast::Neutral;
    };
    const Family families[] = {
        {"scatter_add", "self dim index src", scatter_add, Autocast::NeutralOnCpu},
        {"scatter_reduce", "self dim index src reduce * include_self?", scatter_reduce},
        {"index_add", "self dim index source * alpha?", index_with_slices<true>},
        {"index_copy", "self dim index source", index_with_slices<false>, Autocast::Unknown},
        {"index_fill", "self dim index value", index_fill},
        {"masked_scatter", "self mask source", masked_scatter},
        {"index_put", "self indices values accumulate?", index_put, Autocast::NeutralOnCpu},
    };
    for (const Family& family : families) {
        std::string name(family.name);
        registry.add("torch." + name + " Tensor." + name, family.signature, family.function, 0, family.autocast);
        registry.add("torch." + name + "_ Tensor." + name + "_", family.signature, family.function, kInPlace,
                     family.autocast);
    }
    // The values may be passed as `src` or `value`.
    registry.add_neutral("torch.scatter Tensor.scatter", "self dim index src * reduce?", scatter);
    registry.add_neutral("Tensor.scatter_", "self dim index src * reduce?", scatter, kInPlace);
    registry.add_neutral("torch.take_along_dim Tensor.take_along_dim", "self indices dim?", take_along_dim);
    registry.add_neutral("torch.take Tensor.take", "self index", take);
}

}  // namespace stator::shape
