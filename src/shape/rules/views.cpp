/// Views: other sizes and strides over the same memory.
#include <algorithm>

#include "shape/language/call.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

/// `view(dtype)`: the same bytes. The size of the last dimension is scaled by the ratio of the element sizes.
bool view_as_dtype(Call& call, Dtype type) {
    const TensorMeta* self = call[0].tensor();
    if (self->requires_grad || !torch_room::is_ordinary(type)) return false;
    auto before = torch_room::bytes_of(self->dtype), after = torch_room::bytes_of(type);
    Dims sizes = self->sizes, strides = self->strides;
    Dim offset = self->storage_offset;
    if (before != after) {
        if (sizes.empty() || strides.back() != 1) return false;
        Dim ratio = before > after ? before / after : after / before;
        if (before < after && (sizes.back() % ratio != 0 || offset % ratio != 0)) return false;
        sizes.back() = before > after ? sizes.back() * ratio : sizes.back() / ratio;
        offset = before > after ? offset * ratio : offset / ratio;
        for (std::size_t i = 0; i + 1 < strides.size(); ++i) {
            if (before < after && strides[i] % ratio != 0) return false;
            strides[i] = before > after ? strides[i] * ratio : strides[i] / ratio;
        }
    }
    TensorMeta view = call.view_of(*self, std::move(sizes), std::move(strides), offset);
    view.dtype = type;
    return call.returns_view(call[0], std::move(view));
}

bool view(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (auto type = call[1].dtype(); self != nullptr && type) return view_as_dtype(call, *type);
    auto requested = call[1].integer_or_integers();
    if (self == nullptr || !requested) return false;
    auto sizes = resolve_sizes(*requested, element_count(self->sizes));
    if (!sizes) return false;
    auto strides = view_strides(self->sizes, self->strides, *sizes);
    if (!strides) return false;
    return call.returns_view(call[0],
                             call.view_of(*self, std::move(*sizes), std::move(*strides), self->storage_offset));
}

/// A contiguous copy, or a view if a size that depends on data is 0 or 1: writing to it may write to the original.
bool returns_copy_or_view(Call& call, Dims sizes) {
    const TensorMeta& self = *call[0].tensor();
    Dims strides = contiguous_strides(sizes);
    return call.returns_view(call[0], call.view_of(self, std::move(sizes), std::move(strides), self.storage_offset));
}

/// A view if possible, otherwise a contiguous copy.
bool reshape_to(Call& call, const Dims& requested) {
    const TensorMeta& self = *call[0].tensor();
    auto sizes = resolve_sizes(requested, element_count(self.sizes));
    if (!sizes) return false;
    if (auto strides = view_strides(self.sizes, self.strides, *sizes))
        return call.returns_view(call[0],
                                 call.view_of(self, std::move(*sizes), std::move(*strides), self.storage_offset));
    if (has_unbacked(self.sizes) || has_unbacked(*sizes)) return returns_copy_or_view(call, std::move(*sizes));
    return call.returns(call.fresh(std::move(*sizes), self.dtype, self.device), call.records({&self}));
}

bool reshape(Call& call) {
    auto requested = call[1].integer_or_integers();
    return call[0].tensor() != nullptr && requested && reshape_to(call, *requested);
}

bool view_as(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    if (self == nullptr || other == nullptr) return false;
    auto sizes = resolve_sizes(other->sizes, element_count(self->sizes));
    if (!sizes) return false;
    auto strides = view_strides(self->sizes, self->strides, *sizes);
    if (!strides) return false;
    return call.returns_view(call[0],
                             call.view_of(*self, std::move(*sizes), std::move(*strides), self->storage_offset));
}

bool reshape_as(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    return self != nullptr && other != nullptr && reshape_to(call, other->sizes);
}

bool flatten(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto first = call[1].integer_or(0), last = call[2].integer_or(-1);
    if (self == nullptr || !first || !last) return false;
    auto start = wrap_dimension(*first, self->dimensions()), end = wrap_dimension(*last, self->dimensions());
    if (!start || !end || *start > *end) return false;
    if (self->sizes.empty()) return reshape_to(call, {1});
    if (*start == *end) return call.returns_same(call[0]);
    Dims sizes(self->sizes.begin(), self->sizes.begin() + static_cast<std::ptrdiff_t>(*start));
    Dim merged = 1;
    for (std::size_t i = *start; i <= *end; ++i) merged *= self->sizes[i];
    sizes.push_back(merged);
    sizes.insert(sizes.end(), self->sizes.begin() + static_cast<std::ptrdiff_t>(*end) + 1, self->sizes.end());
    return reshape_to(call, sizes);
}

bool unflatten(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer();
    auto parts = call[2].integers();
    if (self == nullptr || !where || !parts || parts->empty()) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || self->sizes.empty()) return false;
    auto resolved = resolve_sizes(*parts, self->sizes[*dimension]);
    if (!resolved) return false;
    Dims sizes = self->sizes;
    auto position = sizes.begin() + static_cast<std::ptrdiff_t>(*dimension);
    position = sizes.erase(position);
    sizes.insert(position, resolved->begin(), resolved->end());
    auto strides = view_strides(self->sizes, self->strides, sizes);
    if (!strides) return false;
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(*strides), self->storage_offset));
}

bool permuted(Call& call, const std::vector<std::size_t>& order) {
    const TensorMeta& self = *call[0].tensor();
    Dims sizes, strides;
    for (std::size_t dimension : order) {
        sizes.push_back(self.sizes[dimension]);
        strides.push_back(self.strides[dimension]);
    }
    return call.returns_view(call[0], call.view_of(self, std::move(sizes), std::move(strides), self.storage_offset));
}

bool permute(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto requested = call[1].integer_or_integers();
    if (self == nullptr || !requested || requested->size() != self->dimensions()) return false;
    std::vector<std::size_t> order;
    std::vector<bool> is_given(self->dimensions());
    for (Dim dimension : *requested) {
        auto wrapped = wrap_dimension(dimension, self->dimensions());
        if (!wrapped || is_given[*wrapped]) return false;
        is_given[*wrapped] = true;
        order.push_back(*wrapped);
    }
    return permuted(call, order);
}

std::vector<std::size_t> identity_order(std::size_t dimensions) {
    std::vector<std::size_t> order(dimensions);
    for (std::size_t i = 0; i < dimensions; ++i) order[i] = i;
    return order;
}

bool transpose(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto first = call[1].integer(), second = call[2].integer();
    if (self == nullptr || !first || !second) return false;
    auto a = wrap_dimension(*first, self->dimensions()), b = wrap_dimension(*second, self->dimensions());
    if (!a || !b) return false;
    auto order = identity_order(self->dimensions());
    if (!order.empty()) std::swap(order[*a], order[*b]);
    return permuted(call, order);
}

/// `t`: for a matrix or fewer dimensions.
bool transpose_matrix(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() > 2) return false;
    auto order = identity_order(self->dimensions());
    if (order.size() == 2) std::swap(order[0], order[1]);
    return permuted(call, order);
}

/// `getattr(x, "T")` and `getattr(x, "mT")`.
bool attribute(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto name = call[1].string();
    if (self == nullptr || !name) return false;
    auto order = identity_order(self->dimensions());
    if (*name == "T") {
        if (self->dimensions() != 2 && self->dimensions() != 0) return false;  // deprecated, with a warning
        std::reverse(order.begin(), order.end());
        return permuted(call, order);
    }
    if (*name == "mT") {
        if (self->dimensions() < 2) return false;
        std::swap(order[order.size() - 1], order[order.size() - 2]);
        return permuted(call, order);
    }
    return false;
}

/// Moves several dimensions; the rest keep their order.
bool movedim(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto from = call[1].integer_or_integers(), to = call[2].integer_or_integers();
    if (self == nullptr || !from || !to || from->size() != to->size()) return false;
    if (from->empty()) return false;
    std::size_t dimensions = self->dimensions();
    if (dimensions == 0) return false;
    std::vector<std::size_t> order(dimensions, dimensions);
    std::vector<bool> moved(dimensions);
    for (std::size_t i = 0; i < from->size(); ++i) {
        auto source = wrap_dimension((*from)[i], dimensions), destination = wrap_dimension((*to)[i], dimensions);
        if (!source || !destination || moved[*source] || order[*destination] != dimensions) return false;
        moved[*source] = true;
        order[*destination] = *source;
    }
    std::size_t next = 0;
    for (std::size_t& place : order) {
        if (place != dimensions) continue;
        while (moved[next]) ++next;
        place = next++;
    }
    return permuted(call, order);
}

bool squeeze(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    std::vector<bool> drop(self->dimensions(), !call[1].is_given());
    if (call[1].is_given()) {
        auto requested = call[1].integer_or_integers();
        if (!requested) return false;
        for (Dim dimension : *requested) {
            auto wrapped = wrap_dimension(dimension, self->dimensions());
            if (!wrapped) return false;
            if (self->dimensions() == 0) continue;
            if (requested->size() > 1 && drop[*wrapped]) return false;  // duplicate
            drop[*wrapped] = true;
        }
    }
    Dims sizes, strides;
    for (std::size_t i = 0; i < self->dimensions(); ++i) {
        if (drop[i] && self->sizes[i] == 1) continue;
        sizes.push_back(self->sizes[i]);
        strides.push_back(self->strides[i]);
    }
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset));
}

void insert_dimension(Dims& sizes, Dims& strides, std::size_t position) {
    Dim stride = position < sizes.size() ? sizes[position] * strides[position] : Dim(1);
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(position), Dim(1));
    strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(position), stride);
}

bool unsqueeze(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto requested = call[1].integer();
    if (self == nullptr || !requested) return false;
    auto position = wrap_dimension(*requested, self->dimensions() + 1);
    if (!position) return false;
    Dims sizes = self->sizes, strides = self->strides;
    insert_dimension(sizes, strides, *position);
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset));
}

/// Whether a dimension can be expanded, where that depends on data. PyTorch raises unless the sizes are equal, or the
/// old one is 1; -1 keeps the old one.
bool expand_by_data(Dim requested, Dim size) {
    if (known_equal(requested, -1)) return true;
    if (!require_less_equal(0, requested)) return false;
    return known_equal(size, 1) || require_equal(requested, size);
}

bool expand_to(Call& call, const Dims& requested) {
    const TensorMeta& self = *call[0].tensor();
    if (requested.size() < self.dimensions()) return false;
    Dims sizes = requested, strides(requested.size(), Dim(0));
    if (self.sizes.empty()) {
        for (Dim size : sizes)
            if (!require_less_equal(0, size)) return false;
        return call.returns_view(call[0],
                                 call.view_of(self, std::move(sizes), std::move(strides), self.storage_offset));
    }
    std::size_t added = requested.size() - self.dimensions();
    for (std::size_t i = requested.size(); i-- > 0;) {
        if (i < added) {
            if (!require_less_equal(0, requested[i])) return false;
            // As PyTorch computes it: the stride of a new leading dimension spans those after it, unless it is
            // expanded.
            strides[i] = known_equal(requested[i], 1) ? sizes[i + 1] * strides[i + 1] : Dim(0);
            continue;
        }
        Dim size = self.sizes[i - added];
        if (requested[i].is_unbacked() || size.is_unbacked()) {
            if (!expand_by_data(requested[i], size)) return false;
            sizes[i] = known_equal(requested[i], -1) ? size : requested[i];
            strides[i] = known_equal(size, 1) ? Dim(0) : self.strides[i - added];
        } else if (requested[i] == -1 || requested[i] == size) {
            sizes[i] = size;
            strides[i] = self.strides[i - added];
        } else if (size == 1 && requested[i] >= 0) {
            strides[i] = 0;
        } else {
            return false;
        }
    }
    return call.returns_view(call[0], call.view_of(self, std::move(sizes), std::move(strides), self.storage_offset));
}

bool expand(Call& call) {
    auto requested = call[1].integer_or_integers();
    return call[0].tensor() != nullptr && requested && expand_to(call, *requested);
}

bool expand_as(Call& call) {
    const TensorMeta *self = call[0].tensor(), *other = call[1].tensor();
    return self != nullptr && other != nullptr && expand_to(call, other->sizes);
}

bool ravel(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (is_known_contiguous(self->sizes, self->strides)) return reshape_to(call, {element_count(self->sizes)});
    return call.returns(call.fresh({element_count(self->sizes)}, self->dtype, self->device), call.records({self}));
}

bool contiguous(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    Dims strides = contiguous_strides(self->sizes);
    if (call[1].is_given()) {
        auto format = call[1].memory_format();
        if (!format) return false;
        if (*format == torch_room::MemoryFormat::ChannelsLast || *format == torch_room::MemoryFormat::ChannelsLast3d) {
            std::size_t needed = *format == torch_room::MemoryFormat::ChannelsLast ? 4 : 5;
            if (self->dimensions() != needed) return false;
            if (is_channels_last(self->sizes, self->strides)) return call.returns_same(call[0]);
            strides = channels_last_strides(self->sizes);
            return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device),
                                call.records({self}));
        }
        if (*format != torch_room::MemoryFormat::Contiguous) return false;
    }
    if (is_known_contiguous(self->sizes, self->strides)) return call.returns_same(call[0]);
    if (has_unbacked(self->sizes)) return returns_copy_or_view(call, self->sizes);
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

bool detach(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    TensorMeta meta = call.view_of(*self, self->sizes, self->strides, self->storage_offset);
    meta.requires_grad = false;
    meta.is_leaf = true;
    return call.returns_view(call[0], std::move(meta));
}

}  // namespace

void add_view_rules(Registry& registry) {
    registry.add_neutral("Tensor.view", "self size...", view);
    registry.add_neutral("Tensor.view_as", "self other", view_as);
    registry.add_neutral("torch.reshape Tensor.reshape", "self shape...", reshape);
    registry.add_neutral("Tensor.reshape_as", "self other", reshape_as);
    registry.add_neutral("torch.flatten Tensor.flatten", "self start_dim? end_dim?", flatten);
    registry.add_neutral("torch.unflatten Tensor.unflatten", "self dim sizes", unflatten);
    registry.add_neutral("torch.permute Tensor.permute", "self dims...", permute);
    registry.add_neutral(
        "torch.transpose Tensor.transpose torch.swapaxes Tensor.swapaxes torch.swapdims Tensor.swapdims",
        "self dim0 dim1", transpose);
    registry.add_neutral("torch.t Tensor.t", "self", transpose_matrix);
    registry.add_neutral("Tensor.transpose_ Tensor.swapaxes_ Tensor.swapdims_", "self dim0 dim1", reshaped<transpose>);
    registry.add_neutral("Tensor.t_", "self", reshaped<transpose_matrix>);
    registry.add_neutral("Tensor.squeeze_", "self dim...?", reshaped<squeeze>);
    registry.add_neutral("Tensor.unsqueeze_", "self dim", reshaped<unsqueeze>);
    registry.add_neutral("builtins.getattr", "self name", attribute);
    registry.add_neutral("torch.movedim Tensor.movedim torch.moveaxis Tensor.moveaxis", "self source destination",
                         movedim);
    registry.add_neutral("torch.squeeze Tensor.squeeze", "self dim...?", squeeze);
    registry.add_neutral("torch.unsqueeze Tensor.unsqueeze", "self dim", unsqueeze);
    registry.add_neutral("Tensor.expand", "self size...", expand);
    registry.add_neutral("Tensor.expand_as", "self other", expand_as);
    registry.add_neutral("torch.broadcast_to Tensor.broadcast_to", "self size", expand);
    registry.add_neutral("torch.ravel Tensor.ravel", "self", ravel);
    registry.add_neutral("Tensor.contiguous", "self * memory_format?", contiguous);
    registry.add_neutral("torch.detach Tensor.detach", "self", detach);
}

}  // namespace stator::shape
