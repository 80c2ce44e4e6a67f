/// Views: other sizes and strides over the same memory.
#include <algorithm>

#include "shape/call.h"
#include "shape/index.h"
#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool view(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto requested = call[1].integer_or_integers();
    if (self == nullptr || !requested) return false;
    auto sizes = resolve_sizes(*requested, element_count(self->sizes));
    if (!sizes) return false;
    auto strides = view_strides(self->sizes, self->strides, *sizes);
    if (!strides) return false;
    return call.returns_view(call[0],
                             call.view_of(*self, std::move(*sizes), std::move(*strides), self->storage_offset));
}

/// A view where that is possible, else a contiguous copy.
bool reshape_to(Call& call, const Dims& requested) {
    const TensorMeta& self = *call[0].tensor();
    auto sizes = resolve_sizes(requested, element_count(self.sizes));
    if (!sizes) return false;
    if (auto strides = view_strides(self.sizes, self.strides, *sizes))
        return call.returns_view(call[0],
                                 call.view_of(self, std::move(*sizes), std::move(*strides), self.storage_offset));
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
    std::vector<bool> seen(self->dimensions());
    for (Dim dimension : *requested) {
        auto wrapped = wrap_dimension(dimension, self->dimensions());
        if (!wrapped || seen[*wrapped]) return false;
        seen[*wrapped] = true;
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

/// `t`: of a matrix, or of anything with fewer dimensions.
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

/// Several dimensions moved to other places; the rest keep their order.
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
            if (requested->size() > 1 && drop[*wrapped]) return false;  // given twice
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

bool expand_to(Call& call, const Dims& requested) {
    const TensorMeta& self = *call[0].tensor();
    if (requested.size() < self.dimensions()) return false;
    Dims sizes = requested, strides(requested.size(), Dim(0));
    if (self.sizes.empty()) {
        for (Dim size : sizes)
            if (size < 0) return false;
        return call.returns_view(call[0],
                                 call.view_of(self, std::move(sizes), std::move(strides), self.storage_offset));
    }
    std::size_t added = requested.size() - self.dimensions();
    for (std::size_t i = requested.size(); i-- > 0;) {
        if (i < added) {
            if (requested[i] < 0) return false;
            // As PyTorch computes it: a dimension in front strides over all behind it, unless it is expanded.
            strides[i] = requested[i] == 1 ? sizes[i + 1] * strides[i + 1] : Dim(0);
            continue;
        }
        Dim size = self.sizes[i - added];
        if (requested[i] == -1 || requested[i] == size) {
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

/// One part of a dimension.
TensorMeta part(Call& call, const TensorMeta& self, std::size_t dimension, Dim start, Dim length) {
    Dims sizes = self.sizes;
    sizes[dimension] = length;
    return call.view_of(self, std::move(sizes), self.strides, self.storage_offset + start * self.strides[dimension]);
}

bool narrow(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer(), start = call[2].integer(), length = call[3].integer();
    if (call[2].tensor() != nullptr && call[2].tensor()->sizes.empty() && call[2].tensor()->dtype == kLong && length &&
        self != nullptr)
        return call.depends_on_contents();
    if (self == nullptr || self->sizes.empty() || !where || !start || !length) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dim size = self->sizes[*dimension];
    if (*start < 0) *start += size;
    if (*start < 0 || *length < 0 || *start > size || *start + *length > size) return false;
    return call.returns_view(call[0], part(call, *self, *dimension, *start, *length));
}

TensorMeta selected(Call& call, const TensorMeta& self, std::size_t dimension, Dim index) {
    Dims sizes = self.sizes, strides = self.strides;
    Dim offset = self.storage_offset + index * strides[dimension];
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dimension));
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(dimension));
    return call.view_of(self, std::move(sizes), std::move(strides), offset);
}

bool ravel(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (is_contiguous(self->sizes, self->strides)) return reshape_to(call, {element_count(self->sizes)});
    return call.returns(call.fresh({element_count(self->sizes)}, self->dtype, self->device), call.records({self}));
}

bool select(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer(), index = call[2].integer();
    if (self == nullptr || self->sizes.empty() || !where || !index) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dim size = self->sizes[*dimension];
    if (*index < 0) *index += size;
    if (*index < 0 || *index >= size) return false;
    return call.returns_view(call[0], selected(call, *self, *dimension, *index));
}

bool unbind(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer_or(0);
    if (self == nullptr || self->sizes.empty() || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    std::vector<TensorMeta> views;
    for (Dim i = 0; i < self->sizes[*dimension]; i += 1) views.push_back(selected(call, *self, *dimension, i));
    return call.returns_views(call[0], std::move(views), false);
}

bool in_parts(Call& call, std::size_t dimension, Dim step) {
    const TensorMeta& self = *call[0].tensor();
    Dim size = self.sizes[dimension];
    std::vector<TensorMeta> views;
    if (size == 0) views.push_back(part(call, self, dimension, 0, 0));
    for (Dim start = 0; start < size; start += step)
        views.push_back(part(call, self, dimension, start, std::min(step, size - start)));
    return call.returns_views(call[0], std::move(views), false);
}

bool split(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[2].integer_or(0);
    if (self == nullptr || self->sizes.empty() || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dim size = self->sizes[*dimension];
    if (auto step = call[1].integer()) {
        if (*step <= 0) return false;
        return in_parts(call, *dimension, *step);
    }
    auto lengths = call[1].integers();
    if (!lengths) return false;
    std::vector<TensorMeta> views;
    Dim start = 0;
    for (Dim length : *lengths) {
        if (length < 0 || start + length > size) return false;
        views.push_back(part(call, *self, *dimension, start, length));
        start += length;
    }
    if (start != size) return false;
    return call.returns_views(call[0], std::move(views), false);
}

bool chunk(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto chunks = call[1].integer(), where = call[2].integer_or(0);
    if (self == nullptr || self->sizes.empty() || !chunks || *chunks <= 0 || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dim size = self->sizes[*dimension];
    if (size == 0) return false;  // as many empty chunks as asked for, by another way
    return in_parts(call, *dimension, (size + *chunks - 1) / *chunks);
}

bool diagonal(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto offset = call[1].integer_or(0), first = call[2].integer_or(0), second = call[3].integer_or(1);
    if (self == nullptr || !offset || !first || !second) return false;
    auto a = wrap_dimension(*first, self->dimensions()), b = wrap_dimension(*second, self->dimensions());
    if (!a || !b || *a == *b || self->dimensions() < 2) return false;
    Dim length, start = self->storage_offset;
    if (*offset >= 0)
        length = std::max(std::min(self->sizes[*a], self->sizes[*b] - *offset), Dim(0));
    else
        length = std::max(std::min(self->sizes[*a] + *offset, self->sizes[*b]), Dim(0));
    if (length != 0) start += *offset >= 0 ? *offset * self->strides[*b] : (Dim(0) - *offset) * self->strides[*a];
    Dims sizes, strides;
    for (std::size_t i = 0; i < self->dimensions(); ++i) {
        if (i == *a || i == *b) continue;
        sizes.push_back(self->sizes[i]);
        strides.push_back(self->strides[i]);
    }
    sizes.push_back(length);
    strides.push_back(self->strides[*a] + self->strides[*b]);
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(strides), start));
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
    if (is_contiguous(self->sizes, self->strides)) return call.returns_same(call[0]);
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

bool unfold(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer(), size = call[2].integer(), step = call[3].integer();
    if (self == nullptr || self->sizes.empty() || !where || !size || !step) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension || *size < 0 || *step <= 0 || *size > self->sizes[*dimension]) return false;
    Dims sizes = self->sizes, strides = self->strides;
    sizes.push_back(*size);
    strides.push_back(strides[*dimension]);
    sizes[*dimension] = (self->sizes[*dimension] - *size) / *step + 1;
    strides[*dimension] *= *step;
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset));
}

/// The last place in its storage that a tensor reaches.
Dim last_place(const Dims& sizes, const Dims& strides, Dim offset) {
    for (std::size_t i = 0; i < sizes.size(); ++i) offset += (sizes[i] - 1) * strides[i];
    return offset;
}

/// `as_strided(size, stride, storage_offset)`, where it stays inside of what the tensor itself reaches: how large a
/// storage is beyond that is no part of metadata.
bool as_strided(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto sizes = call[1].integers(), strides = call[2].integers();
    if (self == nullptr || !sizes || !strides || sizes->size() != strides->size()) return false;
    auto offset = call[3].is_absent() ? std::optional(self->storage_offset) : call[3].integer();
    if (!offset || *offset < 0) return false;
    for (std::size_t i = 0; i < sizes->size(); ++i)
        if ((*sizes)[i] < 1 || (*strides)[i] < 0) return false;
    if (element_count(self->sizes) == 0 ||
        last_place(*sizes, *strides, *offset) > last_place(self->sizes, self->strides, self->storage_offset))
        return false;
    return call.returns_view(call[0], call.view_of(*self, std::move(*sizes), std::move(*strides), *offset));
}

bool getitem(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    Choosers choosers;
    auto part = apply_index(*self, call[1], choosers);
    if (!part) return false;
    if (depends_on_contents(choosers)) return call.depends_on_contents();
    if (has_chooser(choosers)) {
        auto chosen = choose_elements(*part, choosers);
        if (!chosen) return false;
        return call.returns(call.fresh(std::move(chosen->sizes), std::move(chosen->strides), self->dtype, self->device),
                            call.records({self}));
    }
    return call.returns_view(
        call[0], call.view_of(*self, std::move(part->sizes), std::move(part->strides), part->storage_offset));
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
    registry.add_neutral("torch.narrow Tensor.narrow", "self dim start length", narrow);
    registry.add_neutral("torch.select Tensor.select", "self dim index", select);
    registry.add_neutral("torch.unbind Tensor.unbind", "self dim?", unbind);
    registry.add_neutral("torch.split Tensor.split", "self split_size_or_sections dim?", split);
    registry.add_neutral("torch.split_with_sizes Tensor.split_with_sizes", "self split_sizes dim?", split);
    registry.add_neutral("torch.ravel Tensor.ravel", "self", ravel);
    registry.add_neutral("torch.chunk Tensor.chunk", "self chunks dim?", chunk);
    registry.add_neutral("torch.diagonal Tensor.diagonal", "self offset? dim1? dim2?", diagonal);
    registry.add_neutral("Tensor.unfold", "self dimension size step", unfold);
    registry.add_neutral("torch.as_strided Tensor.as_strided", "self size stride storage_offset?", as_strided);
    registry.add_neutral("Tensor.as_strided_ torch.as_strided_", "self size stride storage_offset?",
                         reshaped<as_strided>);
    registry.add_neutral("Tensor.contiguous", "self * memory_format?", contiguous);
    registry.add_neutral("torch.detach Tensor.detach", "self", detach);
    registry.add_neutral("operator.getitem Tensor.__getitem__", "self index", getitem);
}

}  // namespace stator::shape
