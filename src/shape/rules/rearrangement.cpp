/// Copies with rearranged elements: repeat, tile, flip, roll, rotate, triangles, diagonals, differences.
#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool like_contiguous(Call& call, const TensorMeta& self, Dims sizes) {
    return call.returns(call.fresh(std::move(sizes), self.dtype, self.device), call.records({&self}));
}

bool repeat(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto times = call[1].integer_or_integers();
    if (self == nullptr || !times || times->size() < self->dimensions()) return false;
    Dims sizes = *times;
    std::size_t added = times->size() - self->dimensions();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] < 0) return false;
        if (i >= added) sizes[i] *= self->sizes[i - added];
    }
    return like_contiguous(call, *self, std::move(sizes));
}

bool triangle(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() < 2 || !call[1].integer_or(0)) return false;
    return like_contiguous(call, *self, self->sizes);
}

bool flip(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto dimensions = call[1].integer_or_integers();
    if (self == nullptr || !dimensions) return false;
    std::vector<bool> is_given(self->dimensions() + 1);
    for (Dim dimension : *dimensions) {
        auto wrapped = wrap_dimension(dimension, self->dimensions());
        if (!wrapped || is_given[*wrapped]) return false;
        is_given[*wrapped] = true;
    }
    Dims strides = preserved_strides(*self);
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

bool roll(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto shifts = call[1].integer_or_integers();
    if (self == nullptr || !shifts || shifts->empty()) return false;
    if (is_known_empty(self->sizes) && !is_plainly_empty(*self)) return false;
    if (!call[2].is_given() || (call[2].integers() && call[2].integers()->empty())) {
        if (shifts->size() != 1) return false;
        return like_contiguous(call, *self, self->sizes);
    }
    auto dimensions = call[2].integer_or_integers();
    if (!dimensions || dimensions->size() != shifts->size() || self->sizes.empty()) return false;
    for (Dim dimension : *dimensions)
        if (!wrap_dimension(dimension, self->dimensions())) return false;
    if (!is_on_cpu(*self) && is_like_channels_last(self->sizes, self->strides)) return false;
    return call.returns(call.fresh(self->sizes, suggested_strides(*self, self->sizes), self->dtype, self->device),
                        call.records({self}));
}

/// A copy with a memory format.
bool clone(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    using torch_room::MemoryFormat;
    auto format = call[1].is_absent() ? std::optional(MemoryFormat::Preserve) : call[1].memory_format();
    if (!format) return false;
    Dims strides;
    if (*format == MemoryFormat::Preserve)
        strides = preserved_strides(*self);
    else if (*format == MemoryFormat::Contiguous)
        strides = contiguous_strides(self->sizes);
    else if (self->dimensions() == (*format == MemoryFormat::ChannelsLast ? 4u : 5u))
        strides = channels_last_strides(self->sizes);
    else
        return false;
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

/// `tile(dims)`: as `repeat`, with leading ones for missing numbers.
bool tile(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto times = call[1].integer_or_integers();
    if (self == nullptr || !times) return false;
    while (times->size() < self->dimensions()) times->insert(times->begin(), Dim(1));
    std::size_t added = times->size() - self->dimensions();
    for (std::size_t i = 0; i < times->size(); ++i) {
        if ((*times)[i] < 0) return false;
        if (i >= added) (*times)[i] *= self->sizes[i - added];
    }
    return like_contiguous(call, *self, std::move(*times));
}

/// `repeat_interleave(repeats, dim, output_size=)` with a tensor of repeats, whose sum is the new size.
bool repeat_each(Call& call, const TensorMeta& self, const TensorMeta& each) {
    if (each.dtype != kLong || each.device != self.device || each.dimensions() > 1) return false;
    if (call[3].is_absent() && !call.captures_data_sizes()) return call.depends_on_contents();
    if (is_known_empty(self.sizes) || self.sizes.empty()) return false;
    const bool is_flat = call[2].is_absent();
    auto where = is_flat ? Dim(0) : call[2].integer();
    auto dimension = where ? wrap_dimension(*where, self.dimensions()) : std::nullopt;
    if (!dimension) return false;
    Dims sizes = is_flat ? Dims{element_count(self.sizes)} : self.sizes;
    // One number for each index of the dimension, or one for all.
    const Dim counts = element_count(each.sizes);
    if (!known_equal(counts, 1) && !require_equal(counts, sizes[*dimension])) return false;
    auto size = call[3].is_absent() ? call.data_size(Range::kNoMost) : call[3].integer();
    if (!size || !require_less_equal(0, *size)) return false;
    sizes[*dimension] = *size;
    return like_contiguous(call, self, std::move(sizes));
}

/// `repeat_interleave(times, dim)`.
bool repeat_interleave(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    if (const TensorMeta* each = call[1].tensor()) return repeat_each(call, *self, *each);
    // The indices, each as often as the tensor says.
    if (call[1].is_absent() && call[2].is_absent() && call[3].is_absent()) {
        if (self->dtype != kLong || self->dimensions() != 1) return false;
        if (!call.captures_data_sizes()) return call.depends_on_contents();
        return call.returns(call.fresh({call.data_size(Range::kNoMost)}, kLong, self->device));
    }
    if (!call[3].is_absent()) return false;
    auto times = call[1].integer();
    if (!times || !require_less_equal(0, *times)) return false;
    Dims sizes = self->sizes;
    if (call[2].is_absent()) {
        sizes = {element_count(self->sizes) * *times};
    } else {
        auto where = call[2].integer();
        auto dimension = where ? wrap_dimension(*where, self->dimensions()) : std::nullopt;
        if (!dimension) return false;
        sizes[*dimension] *= *times;
    }
    if (is_known_empty(self->sizes)) return false;
    return like_contiguous(call, *self, std::move(sizes));
}

/// `fliplr` and `flipud`: the variant is the dimension.
bool flip_one(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() <= static_cast<std::size_t>(call.variant())) return false;
    return call.returns(call.fresh(self->sizes, preserved_strides(*self), self->dtype, self->device),
                        call.records({self}));
}

/// `diag`: a matrix with a vector as its diagonal, or a copy of the diagonal of a matrix.
bool diag(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto offset = call[1].integer_or(0);
    if (self == nullptr || !offset) return false;
    if (self->dimensions() == 1) {
        Dim size = self->sizes[0] + (*offset < 0 ? Dim(0) - *offset : *offset);
        return like_contiguous(call, *self, {size, size});
    }
    if (self->dimensions() != 2) return false;
    Dim rows = self->sizes[0], columns = self->sizes[1];
    Dim length = *offset >= 0 ? std::min(rows, columns - *offset) : std::min(rows + *offset, columns);
    return like_contiguous(call, *self, {std::max(length, Dim(0))});
}

/// `diagflat`: a matrix with all elements on its diagonal.
bool diag_flat(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto offset = call[1].integer_or(0);
    if (self == nullptr || !offset) return false;
    Dim size = element_count(self->sizes) + (*offset < 0 ? Dim(0) - *offset : *offset);
    return like_contiguous(call, *self, {size, size});
}

/// `diag_embed(offset, dim1, dim2)`: the last dimension becomes the diagonal of two new ones.
bool diag_embed(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto offset = call[1].integer_or(0), first = call[2].integer_or(-2), second = call[3].integer_or(-1);
    if (self == nullptr || self->sizes.empty() || !offset || !first || !second) return false;
    auto a = wrap_dimension(*first, self->dimensions() + 1), b = wrap_dimension(*second, self->dimensions() + 1);
    if (!a || !b || *a == *b) return false;
    Dim size = self->sizes.back() + (*offset < 0 ? Dim(0) - *offset : *offset);
    Dims sizes(self->sizes.begin(), self->sizes.end() - 1);
    for (std::size_t dimension : {std::min(*a, *b), std::max(*a, *b)})
        sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dimension), size);
    return like_contiguous(call, *self, std::move(sizes));
}

/// `rot90(k, dims)`: a quarter turn swaps two dimensions of a flipped copy.
bool rotate(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto times = call[1].integer_or(1);
    auto dimensions = call[2].is_given() ? call[2].integers() : Dims{Dim(0), Dim(1)};
    if (self == nullptr || !times || !dimensions || dimensions->size() != 2 || self->dimensions() < 2) return false;
    auto a = wrap_dimension((*dimensions)[0], self->dimensions());
    auto b = wrap_dimension((*dimensions)[1], self->dimensions());
    if (!a || !b || *a == *b || is_known_empty(self->sizes)) return false;
    // A full turn returns a contiguous copy.
    if (*times % 4 == 0) return like_contiguous(call, *self, self->sizes);
    Dims sizes = self->sizes, strides = preserved_strides(*self);
    if (*times % 2 == 1) {
        std::swap(sizes[*a], sizes[*b]);
        std::swap(strides[*a], strides[*b]);
    }
    return call.returns(call.fresh(std::move(sizes), std::move(strides), self->dtype, self->device),
                        call.records({self}));
}

/// `one_hot(tensor, num_classes)`; without a number it depends on the data.
bool one_hot(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto classes = call[1].integer_or(-1);
    if (self == nullptr || self->dtype != kLong || !classes || is_known_empty(self->sizes)) return false;
    if (*classes == -1) return call.depends_on_contents();
    if (*classes < 1) return false;
    Dims sizes = self->sizes;
    sizes.push_back(*classes);
    return call.returns(call.fresh(std::move(sizes), kLong, self->device));
}

/// `diff(n, dim)`: differences of neighbors, `n` times.
bool diff(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto times = call[1].integer_or(1), where = call[2].integer_or(-1);
    if (self == nullptr || self->sizes.empty() || !times || !where || *times < 0) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    TensorMeta part = *self;
    bool recorded = call.records({self});
    // `prepend` and `append` are concatenated first.
    for (std::size_t slot : {3, 4}) {
        if (call[slot].is_absent()) continue;
        const TensorMeta* more = call[slot].tensor();
        if (more == nullptr || more->dtype != self->dtype || more->device != self->device ||
            more->dimensions() != self->dimensions() || is_like_channels_last(self->sizes, self->strides))
            return false;
        for (std::size_t i = 0; i < self->dimensions(); ++i)
            if (i != *dimension && more->sizes[i] != self->sizes[i]) return false;
        if (*times == 0) continue;
        recorded = recorded || call.records({more});
        part.sizes[*dimension] += more->sizes[*dimension];
        part.strides = contiguous_strides(part.sizes);
    }
    if (*times == 0) {
        if (is_known_empty(self->sizes)) return false;
        return call.returns(call.fresh(self->sizes, preserved_strides(*self), self->dtype, self->device),
                            call.records({self}));
    }
    if (*times >= part.sizes[*dimension]) {
        // The result is empty.
        if (!is_contiguous(self->sizes, self->strides) || is_known_empty(part.sizes)) return false;
        part.sizes[*dimension] = 0;
        return call.returns(call.fresh(part.sizes, self->dtype, self->device), recorded);
    }
    for (Dim i = 0; i < *times; i += 1) {
        part.sizes[*dimension] -= 1;
        const TensorMeta* sides[] = {&part, &part};
        part.strides = elementwise_strides(sides, part.sizes);
    }
    return call.returns(call.fresh(part.sizes, part.strides, self->dtype, self->device), recorded);
}

}  // namespace

void add_rearrangement_rules(Registry& registry) {
    registry.add_neutral("Tensor.repeat", "self repeats...", repeat);
    registry.add_neutral("torch.tril Tensor.tril torch.triu Tensor.triu", "self diagonal?", triangle);
    registry.add_neutral("Tensor.tril_ Tensor.triu_", "self diagonal?", written<triangle>);
    registry.add_neutral("torch.flip Tensor.flip", "self dims...", flip);
    registry.add_neutral("torch.roll Tensor.roll", "self shifts dims?", roll);
    registry.add_neutral("torch.clone Tensor.clone", "self * memory_format?", clone);
    registry.add_neutral("torch.tile Tensor.tile", "self dims...", tile);
    registry.add_neutral("torch.repeat_interleave Tensor.repeat_interleave", "self repeats? dim? * output_size?",
                         repeat_interleave);
    registry.add_neutral("torch.flipud Tensor.flipud", "self", flip_one, 0);
    registry.add_neutral("torch.fliplr Tensor.fliplr", "self", flip_one, 1);
    registry.add_neutral("torch.diag Tensor.diag", "self diagonal?", diag);
    registry.add_neutral("torch.diagflat Tensor.diagflat", "self offset?", diag_flat);
    registry.add_neutral("torch.diag_embed Tensor.diag_embed", "self offset? dim1? dim2?", diag_embed);
    registry.add_neutral("torch.rot90 Tensor.rot90", "self k? dims?", rotate);
    registry.add_neutral("F.one_hot", "self num_classes?", one_hot);
    registry.add_neutral("torch.diff Tensor.diff", "self n? dim? prepend? append?", diff);
}

}  // namespace stator::shape
