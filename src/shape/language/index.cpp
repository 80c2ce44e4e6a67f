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

std::optional<Dims> sizes_for_mask(const IndexedPart& part, const Choosers& choosers, const Dims& values) {
    std::optional<std::size_t> place;
    for (std::size_t i = 0; i < choosers.size(); ++i) {
        if (!choosers[i]) continue;
        if (place || !choosers[i]->is_mask) return std::nullopt;
        place = i;
    }
    if (!place) return std::nullopt;
    const auto behind = part.sizes.begin() + static_cast<std::ptrdiff_t>(*place) + 1;
    const auto dimensions = static_cast<std::ptrdiff_t>(choosers[*place]->sizes.size());
    const auto count_behind = static_cast<std::size_t>(part.sizes.end() - behind);
    Dims selected(part.sizes.begin(), behind - dimensions);
    selected.push_back(values.size() > count_behind ? values[values.size() - count_behind - 1] : Dim(1));
    selected.insert(selected.end(), behind, part.sizes.end());
    return selected;
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

/// How many dimensions of the tensor the indices take, and the choosers among them; empty for other kinds of indices.
static std::optional<std::size_t> read_choosers(const TensorMeta& tensor, const std::vector<Operand>& indices,
                                                Choosers& given) {
    std::size_t taken = 0, ellipses = 0;
    for (const Operand& index : indices) {
        given.push_back(std::nullopt);
        if (index.integer() || index.is_slice()) {
            ++taken;
        } else if (index.constant() == Py_Ellipsis) {
            ++ellipses;
        } else if (!index.is_none()) {
            given.back() = as_chooser(index, tensor);
            if (!given.back()) return std::nullopt;
            taken += given.back()->is_mask ? given.back()->sizes.size() : 1;
        }
    }
    return taken <= tensor.dimensions() && ellipses <= 1 ? std::optional(taken) : std::nullopt;
}

namespace {

/// The view that basic indices make, one dimension of the tensor after the other.
class PartOfTensor {
  public:
    PartOfTensor(const TensorMeta& tensor, Choosers& choosers)
        : tensor_(tensor), offset_(tensor.storage_offset), choosers_(choosers) {}

    bool is_at_end() const { return next_ == tensor_.dimensions(); }

    void keep_dimension() { add(tensor_.sizes[next_], tensor_.strides[next_]), ++next_; }

    void add_dimension() { add(1, is_at_end() ? Dim(1) : tensor_.sizes[next_] * tensor_.strides[next_]); }

    /// The dimensions stay for now: `choose_elements` applies the chooser to the last of them.
    bool keep_for(const Operand& index, const Chooser& chooser) {
        if (chooser.is_mask)
            for (std::size_t place = 1; place < chooser.sizes.size(); ++place) {
                if (!require_equal(tensor_.sizes[next_], chooser.sizes[place - 1])) return false;
                keep_dimension();
            }
        if (chooser.is_mask && !require_equal(tensor_.sizes[next_], chooser.sizes.back())) return false;
        if (index.is_list() && !are_within(*index.integers(), tensor_.sizes[next_])) return false;
        keep_dimension();
        choosers_.back() = chooser;
        return true;
    }

    bool select(Dim position) {
        Dim size = tensor_.sizes[next_];
        if (position.is_unbacked() || size.is_unbacked()) {
            // PyTorch raises if it is out of bounds. Negative ones count from the end.
            Expressions& table = *(size.is_unbacked() ? size : position).expression()->table;
            if (!known_equal(position, 0)) offset_ = unbacked_size(table, {0, Range::kNoMost});
            table.note_doubt();
            ++next_;
            return true;
        }
        if (position < 0) position += size;
        if (position < 0 || position >= size) return false;
        offset_ += position * tensor_.strides[next_++];
        return true;
    }

    bool slice(const std::vector<Operand>& bounds) {
        auto step = bounds[2].is_none() ? std::optional<Dim>(1) : bounds[2].integer();
        Dim size = tensor_.sizes[next_];
        auto start = bounds[0].is_none() ? std::optional<Dim>(0) : bounds[0].integer();
        auto stop = bounds[1].is_none() ? std::optional<Dim>(size) : bounds[1].integer();
        if (!step || !start || !stop || *step <= 0) return false;
        if (start->is_unbacked() || stop->is_unbacked() || size.is_unbacked())
            return known_equal(*step, 1) && slice_by_data(*start, *stop);
        auto clamp = [&](Dim bound) {
            if (bound < 0) bound += size;
            return std::min(std::max(bound, Dim(0)), size);
        };
        Dim first = clamp(*start), last = std::max(clamp(*stop), clamp(*start));
        offset_ += first * tensor_.strides[next_];
        add((last - first + *step - 1) / *step, tensor_.strides[next_] * *step);
        ++next_;
        return true;
    }

    /// Where a bound or the size depends on data, by steps of one.
    bool slice_by_data(Dim start, Dim stop) {
        const Dim size = tensor_.sizes[next_];
        const Dim any = start.is_unbacked() ? start : stop.is_unbacked() ? stop : size;
        Expressions& table = *any.expression()->table;
        const bool is_whole = known_equal(start, 0) && known_equal(stop, size);
        if (!known_equal(start, 0)) offset_ = unbacked_size(table, {0, Range::kNoMost});
        add(is_whole ? size : size_by_data(table, start, stop, size), tensor_.strides[next_]);
        ++next_;
        return true;
    }

    IndexedPart finish() && {
        while (!is_at_end()) keep_dimension();
        return {std::move(sizes_), std::move(strides_), offset_};
    }

  private:
    void add(Dim size, Dim stride) {
        sizes_.push_back(size);
        strides_.push_back(stride);
        choosers_.push_back(std::nullopt);
    }

    const TensorMeta& tensor_;
    Dims sizes_, strides_;
    Dim offset_;
    std::size_t next_ = 0;
    Choosers& choosers_;  // one for each dimension of the part
};

}  // namespace

std::optional<IndexedPart> apply_index(const TensorMeta& tensor, const Operand& index_operand, Choosers& choosers) {
    bool is_tuple = index_operand.is_sequence() && !index_operand.is_list();
    std::vector<Operand> indices = is_tuple ? index_operand.items() : std::vector<Operand>{index_operand};
    Choosers given;
    std::optional<std::size_t> taken = read_choosers(tensor, indices, given);
    if (!taken) return std::nullopt;
    PartOfTensor part(tensor, choosers);
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const Operand& index = indices[i];
        if (index.is_none()) {
            part.add_dimension();
        } else if (index.constant() == Py_Ellipsis) {
            for (std::size_t rest = *taken; rest < tensor.dimensions(); ++rest) part.keep_dimension();
        } else if (given[i]) {
            if (!part.keep_for(index, *given[i])) return std::nullopt;
        } else if (auto position = index.integer()) {
            if (!part.select(*position)) return std::nullopt;
        } else if (!part.slice(index.items())) {
            return std::nullopt;
        }
    }
    return std::move(part).finish();
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
    std::vector<TensorMeta> expanded;
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
        expanded.push_back(std::move(chooser));
    }
    std::vector<const TensorMeta*> inputs{&source};
    for (const TensorMeta& chooser : expanded) inputs.push_back(&chooser);
    Dims strides = elementwise_strides(inputs, source.sizes);
    return IndexedPart{std::move(source.sizes), std::move(strides), 0};
}

}  // namespace stator::shape
