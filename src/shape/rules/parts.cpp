/// Parts of tensors: slices, splits, diagonals, windows, index results; and copies with a part replaced.
#include <algorithm>

#include "shape/language/index.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

/// The dimension along which a tensor is split.
struct Along {
    const TensorMeta& self;
    std::size_t dimension;
    Dim size;
};

std::optional<Along> along(const Call& call, const std::optional<Dim>& where) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->sizes.empty() || !where) return std::nullopt;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return std::nullopt;
    return Along{*self, *dimension, self->sizes[*dimension]};
}

TensorMeta part(Call& call, const Along& cut, Dim start, Dim length) {
    Dims sizes = cut.self.sizes;
    sizes[cut.dimension] = length;
    return call.view_of(cut.self, std::move(sizes), cut.self.strides,
                        cut.self.storage_offset + start * cut.self.strides[cut.dimension]);
}

bool narrow(Call& call) {
    auto cut = along(call, call[1].integer());
    auto start = call[2].integer(), length = call[3].integer();
    if (!cut || !length) return false;
    if (const TensorMeta* hidden = call[2].tensor(); hidden != nullptr && hidden->sizes.empty())
        return hidden->dtype == kLong && call.depends_on_contents();
    if (!start) return false;
    if (start->is_unbacked() || length->is_unbacked()) {
        // PyTorch raises unless the part is within the dimension; a negative start counts from the end.
        if (!require_less_equal(0, *length) || !require_less_equal(*length, cut->size)) return false;
        TensorMeta view = part(call, *cut, 0, *length);
        if (!known_equal(*start, 0)) view.storage_offset = call.data_size(Range::kNoMost);
        return call.returns_view(call[0], std::move(view));
    }
    if (*start < 0) *start += cut->size;
    if (*start < 0 || *length < 0 || *start > cut->size || *start + *length > cut->size) return false;
    return call.returns_view(call[0], part(call, *cut, *start, *length));
}

TensorMeta selected(Call& call, const Along& cut, Dim index) {
    Dims sizes = cut.self.sizes, strides = cut.self.strides;
    auto place = static_cast<std::ptrdiff_t>(cut.dimension);
    Dim offset = cut.self.storage_offset + index * strides[cut.dimension];
    sizes.erase(sizes.begin() + place);
    strides.erase(strides.begin() + place);
    return call.view_of(cut.self, std::move(sizes), std::move(strides), offset);
}

bool select(Call& call) {
    auto cut = along(call, call[1].integer());
    auto index = call[2].integer();
    if (!cut || !index) return false;
    if (index->is_unbacked() || cut->size.is_unbacked()) {
        // PyTorch raises unless it is within bounds; a negative one counts from the end.
        TensorMeta view = selected(call, *cut, 0);
        if (!known_equal(*index, 0)) view.storage_offset = call.data_size(Range::kNoMost);
        call.note_doubt();
        return call.returns_view(call[0], std::move(view));
    }
    if (*index < 0) *index += cut->size;
    if (*index < 0 || *index >= cut->size) return false;
    return call.returns_view(call[0], selected(call, *cut, *index));
}

bool unbind(Call& call) {
    auto cut = along(call, call[1].integer_or(0));
    if (!cut) return false;
    std::vector<TensorMeta> views;
    for (Dim i = 0; i < cut->size; i += 1) views.push_back(selected(call, *cut, i));
    return call.returns_views(call[0], std::move(views), false);
}

/// The pieces between non-decreasing positions.
bool cut_at(Call& call, const Along& cut, const std::vector<Dim>& places) {
    std::vector<TensorMeta> views;
    for (std::size_t i = 0; i + 1 < places.size(); ++i)
        views.push_back(part(call, cut, places[i], places[i + 1] - places[i]));
    return call.returns_views(call[0], std::move(views), false);
}

bool cut_in_steps(Call& call, const Along& cut, Dim step) {
    std::vector<Dim> places{Dim(0)};
    // (Whether the last piece is a whole one is no question: even and odd sizes have the same pieces.)
    while (places.back() + step < cut.size) places.push_back(places.back() + step);
    places.push_back(cut.size);
    return cut_at(call, cut, places);
}

bool split(Call& call) {
    auto cut = along(call, call[2].integer_or(0));
    if (!cut) return false;
    if (auto step = call[1].integer()) return *step > 0 && cut_in_steps(call, *cut, *step);
    auto lengths = call[1].integers();
    if (!lengths) return false;
    std::vector<Dim> places{Dim(0)};
    for (Dim length : *lengths) {
        const Dim end = places.back() + length;
        if (!require_less_equal(0, length)) return false;
        if (!end.is_unbacked() && !cut->size.is_unbacked() && end > cut->size) return false;
        places.push_back(end);
    }
    return require_equal(places.back(), cut->size) && cut_at(call, *cut, places);
}

bool chunk(Call& call) {
    auto cut = along(call, call[2].integer_or(0));
    auto chunks = call[1].integer();
    if (!cut || !chunks || *chunks <= 0) return false;
    if (cut->size != 0) return cut_in_steps(call, *cut, (cut->size + *chunks - 1) / *chunks);
    // For an empty dimension, as many as requested.
    std::vector<Dim> places;
    for (Dim i = 0; i <= *chunks; i += 1) places.push_back(0);
    return cut_at(call, *cut, places);
}

/// Into so many pieces of about equal size, or at these positions.
bool split_at(Call& call, const Along& cut, const Operand& indices_or_sections) {
    std::vector<Dim> places{Dim(0)};
    if (auto sections = indices_or_sections.integer()) {
        if (*sections <= 0) return false;
        Dim least = cut.size / *sections, larger = cut.size % *sections;
        for (Dim i = 0; i < *sections; i += 1) places.push_back(places.back() + least + (i < larger ? Dim(1) : Dim(0)));
        return cut_at(call, cut, places);
    }
    auto indices = indices_or_sections.integers();
    if (!indices) return false;
    for (Dim index : *indices) {
        if (index < 0 || index < places.back() || index > cut.size) return false;
        places.push_back(index);
    }
    places.push_back(cut.size);
    return cut_at(call, cut, places);
}

/// `tensor_split(sections or indices, dim)`.
bool tensor_split(Call& call) {
    auto cut = along(call, call[2].integer_or(0));
    if (!cut) return false;
    if (const TensorMeta* hidden = call[1].tensor())
        return hidden->dtype == kLong && hidden->dimensions() <= 1 && is_on_cpu(*hidden) && call.depends_on_contents();
    return split_at(call, *cut, call[1]);
}

/// `vsplit`, `hsplit` and `dsplit`: along the first, second and third dimension. A number of pieces has to divide the
/// size.
bool split_along(Call& call) {
    const TensorMeta* self = call[0].tensor();
    Dim where = call.variant();
    if (self == nullptr) return false;
    if (call.variant() == 1 && self->dimensions() == 1) where = 0;
    std::size_t least = call.variant() == 0 ? 2 : call.variant() == 1 ? 1 : 3;
    auto cut = self->dimensions() < least ? std::nullopt : along(call, where);
    if (!cut) return false;
    if (auto sections = call[1].integer(); sections && (*sections <= 0 || cut->size % *sections != 0)) return false;
    return split_at(call, *cut, call[1]);
}

bool diagonal(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto offset = call[1].integer_or(0), first = call[2].integer_or(call.variant() == 0 ? 0 : -2),
         second = call[3].integer_or(call.variant() == 0 ? 1 : -1);
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

/// `unfold(dimension, size, step)`: a scalar is a vector of one element.
bool unfold(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto where = call[1].integer(), size = call[2].integer(), step = call[3].integer();
    if (self == nullptr || !where || !size || !step) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    Dim most = !dimension || self->sizes.empty() ? Dim(1) : self->sizes[*dimension];
    if (!dimension || *size < 0 || *step <= 0 || *size > most) return false;
    Dims sizes = self->sizes, strides = self->strides;
    sizes.push_back(*size);
    strides.push_back(self->sizes.empty() ? Dim(1) : strides[*dimension]);
    if (!self->sizes.empty()) {
        sizes[*dimension] = (most - *size) / *step + 1;
        strides[*dimension] *= *step;
    }
    return call.returns_view(call[0], call.view_of(*self, std::move(sizes), std::move(strides), self->storage_offset));
}

/// The last offset in its storage that a tensor reaches.
Dim last_place(const Dims& sizes, const Dims& strides, Dim offset) {
    for (std::size_t i = 0; i < sizes.size(); ++i) offset += (sizes[i] - 1) * strides[i];
    return offset;
}

/// `as_strided(size, stride, storage_offset)`, if it stays within the range of the tensor itself: the size of the
/// storage is not part of metadata.
bool as_strided(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto sizes = call[1].integers(), strides = call[2].integers();
    if (self == nullptr || !sizes || !strides || sizes->size() != strides->size()) return false;
    auto offset = call[3].is_absent() ? std::optional(self->storage_offset) : call[3].integer();
    if (!offset || *offset < 0) return false;
    for (std::size_t i = 0; i < sizes->size(); ++i)
        if ((*sizes)[i] < 1 || (*strides)[i] < 0) return false;
    if (is_known_empty(self->sizes) ||
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
    if (call.captures_data_sizes()) find_positions(choosers, [&](const Operand& mask) { return call.count_of(mask); });
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

/// `slice(dim, start, end, step)` with Python's semantics.
bool slice(Call& call) {
    auto cut = along(call, call[1].integer_or(0));
    if (!cut) return false;
    auto start = call[2].is_absent() ? Dim(0) : call[2].integer(),
         end = call[3].is_absent() ? cut->size : call[3].integer();
    auto step = call[4].integer_or(1);
    if (!start || !end || !step || *step <= 0) return false;
    for (auto* place : {&*start, &*end}) {
        if (*place < 0) *place += cut->size;
        *place = std::clamp(*place, Dim(0), cut->size);
    }
    TensorMeta view = part(call, *cut, *start, std::max(*end - *start + *step - 1, Dim(0)) / *step);
    view.strides[cut->dimension] *= *step;
    return call.returns_view(call[0], std::move(view));
}

/// A copy in which the part that a view selects is replaced: the source is the second argument.
template <RuleFunction view>
bool replaced_part(Call& call) {
    const TensorMeta *self = call[0].tensor(), *source = call[1].tensor();
    if (self == nullptr || source == nullptr || source->dtype != self->dtype || source->device != self->device)
        return false;
    // The copy has the strides of the original, over as much memory, whose size is not part of metadata.
    if (!is_dense(self->sizes, self->strides) || self->storage_offset != 0 || is_known_empty(self->sizes)) return false;
    auto& slots = call.slots();
    std::move(slots.begin() + 2, slots.end(), slots.begin() + 1);
    if (!view(call)) return false;
    bool fits = call.answer().result.tensor->sizes == source->sizes;
    call.answer() = Answer();
    return fits && call.returns(call.fresh(self->sizes, self->strides, self->dtype, self->device),
                                call.records({self, source}));
}

}  // namespace

void add_part_rules(Registry& registry) {
    registry.add_neutral("torch.narrow Tensor.narrow", "self dim start length", narrow);
    registry.add_neutral("torch.select Tensor.select", "self dim index", select);
    registry.add_neutral("torch.unbind Tensor.unbind", "self dim?", unbind);
    registry.add_neutral("torch.split Tensor.split", "self split_size_or_sections dim?", split);
    registry.add_neutral("torch.split_with_sizes Tensor.split_with_sizes", "self split_sizes dim?", split);
    registry.add_neutral("torch.chunk Tensor.chunk", "self chunks dim?", chunk);
    registry.add_neutral("torch.diagonal Tensor.diagonal", "self offset? dim1? dim2?", diagonal);
    registry.add_neutral("Tensor.unfold", "self dimension size step", unfold);
    registry.add_neutral("torch.as_strided Tensor.as_strided", "self size stride storage_offset?", as_strided);
    registry.add_neutral("Tensor.as_strided_ torch.as_strided_", "self size stride storage_offset?",
                         reshaped<as_strided>);
    registry.add_neutral("operator.getitem Tensor.__getitem__", "self index", getitem);
    registry.add_neutral("_VF.split", "self split_size_or_sections dim?", split);
    registry.add_neutral("torch.tensor_split Tensor.tensor_split", "self indices_or_sections dim?", tensor_split);
    registry.add_neutral("torch.vsplit Tensor.vsplit", "self indices_or_sections", split_along, 0);
    registry.add_neutral("torch.hsplit Tensor.hsplit", "self indices_or_sections", split_along, 1);
    registry.add_neutral("torch.dsplit Tensor.dsplit", "self indices_or_sections", split_along, 2);
    registry.add_neutral("linalg.diagonal", "self * offset? dim1? dim2?", diagonal, 1);
    registry.add_neutral("torch.select_scatter Tensor.select_scatter", "self src dim index", replaced_part<select>);
    registry.add_neutral("torch.slice_scatter Tensor.slice_scatter", "self src dim? start? end? step?",
                         replaced_part<slice>);
    registry.add_neutral("torch.diagonal_scatter Tensor.diagonal_scatter", "self src offset? dim1? dim2?",
                         replaced_part<diagonal>);
}

}  // namespace stator::shape
