#include "shape/language/index.h"

#include <algorithm>

#include "number/expressions.h"
#include "shape/language/strides.h"

namespace stator::shape {

using namespace torch_room::dtype;

std::optional<Chooser> as_chooser(const Operand& index, const TensorMeta& self) {
    if (const TensorMeta* tensor = index.tensor()) {
        bool is_mask = tensor->dtype == kBool;
        if (tensor->device != self.device || (!is_mask && tensor->dtype != kLong && tensor->dtype != kInt))
            return std::nullopt;
        if (is_mask && tensor->sizes.empty()) return std::nullopt;
        return Chooser{tensor->sizes, tensor->strides, is_mask, tensor->sizes.empty(), index};
    }
    if (!index.is_list()) return std::nullopt;
    auto numbers = index.integers();
    if (!numbers || numbers->empty()) return std::nullopt;
    return Chooser{{Dim(static_cast<std::int64_t>(numbers->size()))}, {Dim(1)}};
}

bool has_chooser(const Choosers& choosers) {
    return std::any_of(choosers.begin(), choosers.end(), [](const auto& chooser) { return chooser.has_value(); });
}

bool depends_on_contents(const Choosers& choosers) {
    return std::any_of(choosers.begin(), choosers.end(),
                       [](const auto& chooser) { return chooser && (chooser->is_mask || chooser->is_hidden_number); });
}

std::optional<Dims> sizes_behind_mask(const IndexedPart& part, const Choosers& choosers) {
    std::optional<std::size_t> place;
    for (std::size_t i = 0; i < choosers.size(); ++i) {
        if (!choosers[i]) continue;
        if (place || !choosers[i]->is_mask) return std::nullopt;
        place = i;
    }
    if (!place) return std::nullopt;
    return Dims(part.sizes.begin() + static_cast<std::ptrdiff_t>(*place) + 1, part.sizes.end());
}

void find_positions(Choosers& choosers, const std::function<Dim(const Operand& mask)>& count) {
    for (std::size_t i = 0; i < choosers.size(); ++i) {
        if (!choosers[i] || !choosers[i]->is_mask) continue;
        const std::size_t dimensions = choosers[i]->sizes.size();
        const Chooser positions{{count(choosers[i]->given)}, {Dim(1)}};
        for (std::size_t place = 0; place < dimensions; ++place) choosers[i - place] = positions;
    }
}

bool returns_positions(Call& call, const Operand& tensor) {
    if (!call.captures_data_sizes()) return call.depends_on_contents();
    const Dim count = call.count_of(tensor);
    // (A scalar counts as a vector.)
    const std::size_t dimensions = std::max<std::size_t>(tensor.tensor()->dimensions(), 1);
    std::vector<TensorMeta> positions;
    for (std::size_t i = 0; i < dimensions; ++i) {
        positions.push_back(call.fresh({count}, kLong, tensor.tensor()->device));
        positions.back().storage_offset = count * static_cast<std::int64_t>(i);
    }
    return call.returns_several(std::move(positions), std::vector<bool>(dimensions));
}

/// Whether these indices, which may be negative, are within bounds.
static bool are_within(const std::vector<Dim>& numbers, Dim size) {
    if (size.is_unbacked()) {
        size.expression()->table->note_doubt();
        return true;
    }
    return std::ranges::all_of(numbers, [&](Dim number) { return number < size && number + size >= 0; });
}

/// The size of a part from `start` to `stop` where a bound depends on data, by steps of one.
static Dim size_by_data(Expressions& table, Dim start, Dim stop, Dim size) {
    const bool is_within = known_less(-1, start) && known_less(-1, stop - start);
    if (is_within && known_less(stop, size + 1)) return stop - start;
    const Expression*& known = table.size_of_slice(start.in(table), stop.in(table), size.in(table));
    if (known != nullptr) return Dim::of(table.resolved(known));
    Dim part = unbacked_size(table, {0, size.is_constant() ? size.value() : Range::kNoMost});
    auto at_most = [&](Dim bound) {
        table.learn(*table.condition(Expression::Op::LessEqual, part.in(table), bound.in(table)));
    };
    at_most(size);
    if (is_within) at_most(stop - start);
    known = part.in(table);
    return part;
}

std::optional<IndexedPart> apply_index(const TensorMeta& tensor, const Operand& index_operand, Choosers& choosers) {
    const TensorMeta* self = &tensor;
    bool is_tuple = index_operand.is_sequence() && !index_operand.is_list();
    std::vector<Operand> indices = is_tuple ? index_operand.items() : std::vector<Operand>{index_operand};
    std::size_t consumed = 0, ellipses = 0;
    Choosers given;
    for (const Operand& index : indices) {
        given.push_back(std::nullopt);
        if (index.integer() || index.is_slice()) {
            ++consumed;
        } else if (index.constant() == Py_Ellipsis) {
            ++ellipses;
        } else if (!index.is_none()) {
            given.back() = as_chooser(index, tensor);
            if (!given.back()) return std::nullopt;
            consumed += given.back()->is_mask ? given.back()->sizes.size() : 1;
        }
    }
    if (consumed > self->dimensions() || ellipses > 1) return std::nullopt;
    Dims sizes, strides;
    Dim offset = self->storage_offset;
    std::size_t next = 0;
    auto copy_dimension = [&] {
        sizes.push_back(self->sizes[next]);
        strides.push_back(self->strides[next]);
        ++next;
        choosers.push_back(std::nullopt);
    };
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const Operand& index = indices[i];
        if (index.is_none()) {
            sizes.push_back(1);
            choosers.push_back(std::nullopt);
            strides.push_back(next < self->dimensions() ? self->sizes[next] * self->strides[next] : Dim(1));
        } else if (index.constant() == Py_Ellipsis) {
            for (std::size_t rest = consumed; rest < self->dimensions(); ++rest) copy_dimension();
        } else if (given[i]) {
            if (given[i]->is_mask)
                for (std::size_t place = 1; place < given[i]->sizes.size(); ++place) {
                    if (!require_equal(self->sizes[next], given[i]->sizes[place - 1])) return std::nullopt;
                    copy_dimension();
                }
            if (given[i]->is_mask && !require_equal(self->sizes[next], given[i]->sizes.back())) return std::nullopt;
            if (index.is_list() && !are_within(*index.integers(), self->sizes[next])) return std::nullopt;
            copy_dimension();
            choosers.back() = given[i];
        } else if (auto position = index.integer()) {
            Dim size = self->sizes[next];
            if (position->is_unbacked() || size.is_unbacked()) {
                // PyTorch raises if it is out of bounds. Negative ones count from the end.
                Expressions& table = *(size.is_unbacked() ? size : *position).expression()->table;
                if (!known_equal(*position, 0)) offset = unbacked_size(table, {0, Range::kNoMost});
                table.note_doubt();
                ++next;
                continue;
            }
            if (*position < 0) *position += size;
            if (*position < 0 || *position >= size) return std::nullopt;
            offset += *position * self->strides[next];
            ++next;
        } else {
            std::vector<Operand> bounds = index.items();
            auto step = bounds[2].is_none() ? std::optional<Dim>(1) : bounds[2].integer();
            Dim size = self->sizes[next];
            auto start = bounds[0].is_none() ? std::optional<Dim>(0) : bounds[0].integer();
            auto stop = bounds[1].is_none() ? std::optional<Dim>(size) : bounds[1].integer();
            if (!step || !start || !stop || *step <= 0) return std::nullopt;
            if (start->is_unbacked() || stop->is_unbacked() || size.is_unbacked()) {
                if (!known_equal(*step, 1)) return std::nullopt;
                const Dim any = start->is_unbacked() ? *start : stop->is_unbacked() ? *stop : size;
                Expressions& table = *any.expression()->table;
                const bool is_whole = known_equal(*start, 0) && known_equal(*stop, size);
                sizes.push_back(is_whole ? size : size_by_data(table, *start, *stop, size));
                if (!known_equal(*start, 0)) offset = unbacked_size(table, {0, Range::kNoMost});
                strides.push_back(self->strides[next]);
                choosers.push_back(std::nullopt);
                ++next;
                continue;
            }
            auto clamp = [&](Dim bound) {
                if (bound < 0) bound += size;
                return std::min(std::max(bound, Dim(0)), size);
            };
            Dim first = clamp(*start), last = std::max(clamp(*stop), clamp(*start));
            offset += first * self->strides[next];
            sizes.push_back((last - first + *step - 1) / *step);
            strides.push_back(self->strides[next] * *step);
            choosers.push_back(std::nullopt);
            ++next;
        }
    }
    while (next < self->dimensions()) copy_dimension();
    return IndexedPart{std::move(sizes), std::move(strides), offset};
}

std::optional<IndexedPart> choose_elements(const IndexedPart& part, const Choosers& choosers) {
    // All index tensors are broadcast to one shape.
    Dims chosen;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < choosers.size(); ++i) {
        if (!choosers[i]) continue;
        auto sizes = broadcast(chosen, choosers[i]->sizes);
        if (!sizes) return std::nullopt;
        chosen = std::move(*sizes);
        places.push_back(i);
    }
    if (places.empty()) return std::nullopt;
    for (Dim size : part.sizes)
        if (known_equal(size, 0)) return std::nullopt;
    // The indexed dimensions replace those of the index tensors, or go first if those are not adjacent.
    bool adjacent = places.back() - places.front() + 1 == places.size();
    TensorMeta source;
    std::size_t front = adjacent ? places.front() : 0;
    auto add_rest = [&](bool before) {
        for (std::size_t i = 0; i < part.sizes.size(); ++i) {
            if (choosers[i] || (adjacent && (i < places.front()) != before) || (!adjacent && before)) continue;
            source.sizes.push_back(part.sizes[i]);
            source.strides.push_back(part.strides[i]);
        }
    };
    add_rest(true);
    source.sizes.insert(source.sizes.end(), chosen.begin(), chosen.end());
    source.strides.insert(source.strides.end(), chosen.size(), Dim(0));
    add_rest(false);
    // The result has the layout of an elementwise operation on the source and the index tensors, each in its position.
    std::vector<TensorMeta> seen;
    for (std::size_t place : places) {
        TensorMeta chooser;
        chooser.sizes.assign(source.sizes.size(), Dim(1));
        chooser.strides.assign(source.sizes.size(), Dim(0));
        TensorMeta own;
        own.sizes = choosers[place]->sizes;
        own.strides = choosers[place]->strides;
        Dims strides = expanded_strides(own, chosen);
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            chooser.sizes[front + i] = chosen[i];
            chooser.strides[front + i] = strides[i];
        }
        seen.push_back(std::move(chooser));
    }
    std::vector<const TensorMeta*> inputs{&source};
    for (const TensorMeta& chooser : seen) inputs.push_back(&chooser);
    Dims strides = elementwise_strides(inputs, source.sizes);
    return IndexedPart{std::move(source.sizes), std::move(strides), 0};
}

}  // namespace stator::shape
