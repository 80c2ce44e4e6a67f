#include "shape/language/strides.h"

#include <algorithm>
#include <numeric>

#include "number/expressions.h"

namespace stator::shape {

namespace {

using Order = std::vector<std::size_t>;

/// A size that depends on data counts as one that is not empty: see the header.
Dim at_least_one(Dim size) {
    if (size.is_unbacked()) return size;
    return size > 1 ? size : Dim(1);
}

/// Dense strides for dimensions in this order of decreasing stride.
Dims strides_in_order(const Dims& sizes, const Order& slow_to_fast, bool empty_as_one) {
    Dims strides(sizes.size());
    Dim next = 1;
    for (std::size_t i = slow_to_fast.size(); i-- > 0;) {
        std::size_t dimension = slow_to_fast[i];
        strides[dimension] = next;
        next *= empty_as_one ? at_least_one(sizes[dimension]) : sizes[dimension];
    }
    return strides;
}

Order channels_last_order(std::size_t dimensions) {
    Order order{0};
    for (std::size_t i = 2; i < dimensions; ++i) order.push_back(i);
    order.push_back(1);
    return order;
}

bool is_contiguous_in_order(const Dims& sizes, const Dims& strides, const Order& slow_to_fast) {
    Dim expected = 1;
    for (std::size_t i = slow_to_fast.size(); i-- > 0;) {
        std::size_t dimension = slow_to_fast[i];
        if (known_equal(sizes[dimension], 1)) continue;
        if (!known_equal(strides[dimension], expected)) return false;
        expected *= sizes[dimension];
    }
    return true;
}

bool are_known_equal(const Dims& left, const Dims& right) {
    return std::ranges::equal(left, right, known_equal);
}

/// Whether the size is not one, for all that is known.
bool is_known_not_one(Dim size) {
    return known_less(size, 1) || known_less(1, size);
}

/// The size of a dimension to which two are broadcast, neither of which is known to be one, or to equal the other; at
/// least one of them depends on data. PyTorch raises if they don't fit.
Dim broadcast_by_data(Dim left, Dim right) {
    const bool left_differs = is_known_not_one(left), right_differs = is_known_not_one(right);
    if (left_differs == right_differs) {
        require_equal(left, right);
        return left.is_unbacked() ? right : left;
    }
    (left.is_unbacked() ? left : right).expression()->table->note_doubt();
    return left_differs ? left : right;
}

}  // namespace

bool has_unbacked(const Dims& sizes) {
    return std::ranges::any_of(sizes, [](Dim size) { return size.is_unbacked(); });
}

Dim element_count(const Dims& sizes) {
    Dim count = 1;
    for (Dim size : sizes) count *= size;
    return count;
}

bool is_known_empty(const Dims& sizes) {
    const Dim count = element_count(sizes);
    if (!count.is_unbacked()) return count == 0;
    Expressions& table = *count.expression()->table;
    auto known = table.decided(Expression::Op::Equal, count.expression(), table.constant(0));
    if (!known) table.note_doubt();
    return known.value_or(false);
}

Dims contiguous_strides(const Dims& sizes) {
    Dims strides(sizes.size());
    Dim next = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
        strides[i] = next;
        next *= at_least_one(sizes[i]);
    }
    return strides;
}

Dims channels_last_strides(const Dims& sizes) {
    return strides_in_order(sizes, channels_last_order(sizes.size()), true);
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
    const Dim count = element_count(sizes);
    if (known_equal(count, 0)) return true;
    Dim expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
        if (known_equal(sizes[i], 1)) continue;
        // The stride of one element does not matter: that is asked only where it would not fit.
        if (!known_equal(strides[i], expected) && sizes[i] != 1) return count == 0;
        expected *= sizes[i];
    }
    return true;
}

bool is_known_contiguous(const Dims& sizes, const Dims& strides) {
    if (!has_unbacked(sizes)) return is_contiguous(sizes, strides);
    Dim expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
        if (known_equal(sizes[i], 1)) continue;
        if (!known_equal(strides[i], expected)) return false;
        expected *= sizes[i];
    }
    return true;
}

bool is_channels_last(const Dims& sizes, const Dims& strides) {
    if (sizes.size() != 4 && sizes.size() != 5) return false;
    return is_contiguous_in_order(sizes, strides, channels_last_order(sizes.size()));
}

bool is_like_channels_last(const Dims& sizes, const Dims& strides) {
    if (sizes.size() != 4 && sizes.size() != 5) return false;
    // PyTorch's test: strides grow from channels outward, and N111 counts as contiguous instead.
    if (known_equal(strides[1], 0)) return false;
    Dim smallest = 0;
    Order order{1};
    for (std::size_t i = sizes.size(); i-- > 2;) order.push_back(i);
    order.push_back(0);
    for (std::size_t dimension : order) {
        if (known_equal(sizes[dimension], 0) || typically_less(strides[dimension], smallest)) return false;
        if (dimension == 0 && known_equal(smallest, strides[1])) return false;
        smallest = strides[dimension];
        if (typically_less(1, sizes[dimension])) smallest *= sizes[dimension];
    }
    return true;
}

Dims suggested_strides(const TensorMeta& like, const Dims& sizes) {
    return is_like_channels_last(like.sizes, like.strides) ? channels_last_strides(sizes) : contiguous_strides(sizes);
}

bool is_dense(const Dims& sizes, const Dims& strides) {
    if (is_known_contiguous(sizes, strides)) return true;
    if (sizes.size() == 1) return known_less(sizes[0], 2) || known_equal(strides[0], 1);
    Order order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Dimensions of size one go last: their strides are meaningless.
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        if (known_less(sizes[a], 2)) return false;
        if (known_less(sizes[b], 2)) return true;
        return typically_less(strides[a], strides[b]);
    });
    Dim expected = 1;
    for (std::size_t dimension : order) {
        if (known_less(sizes[dimension], 2)) return true;
        if (!known_equal(strides[dimension], expected)) return false;
        expected *= sizes[dimension];
    }
    return true;
}

bool is_plainly_empty(const TensorMeta& meta) {
    return known_equal(element_count(meta.sizes), 0) && meta.strides == contiguous_strides(meta.sizes);
}

bool has_idle_strides(const TensorMeta& meta) {
    if (std::ranges::none_of(meta.sizes, [](Dim size) { return known_less(size, 2); })) return false;
    if (are_known_equal(meta.strides, contiguous_strides(meta.sizes))) return false;
    bool is_image = (meta.dimensions() == 4 || meta.dimensions() == 5) && !known_equal(element_count(meta.sizes), 0);
    return !is_image || !are_known_equal(meta.strides, channels_last_strides(meta.sizes));
}

bool may_overlap_itself(const TensorMeta& meta) {
    if (is_dense(meta.sizes, meta.strides)) return false;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (known_equal(meta.strides[i], 0) && !known_less(meta.sizes[i], 2)) return true;
    return false;
}

std::optional<Dims> broadcast(const Dims& left, const Dims& right) {
    const Dims& longer = left.size() >= right.size() ? left : right;
    const Dims& shorter = left.size() >= right.size() ? right : left;
    Dims sizes = longer;
    std::size_t offset = longer.size() - shorter.size();
    for (std::size_t i = 0; i < shorter.size(); ++i) {
        Dim& size = sizes[offset + i];
        if (known_equal(size, shorter[i]) || known_equal(shorter[i], 1)) continue;
        if (known_equal(size, 1))
            size = shorter[i];
        else if (size.is_unbacked() || shorter[i].is_unbacked())
            size = broadcast_by_data(size, shorter[i]);
        else
            return std::nullopt;
    }
    return sizes;
}

Dims expanded_strides(const TensorMeta& meta, const Dims& sizes) {
    Dims strides(sizes.size(), Dim(0));
    std::size_t offset = sizes.size() - meta.sizes.size();
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (!known_equal(meta.sizes[i], 1) || known_equal(sizes[offset + i], 1)) strides[offset + i] = meta.strides[i];
    return strides;
}

Dims elementwise_strides(std::span<const TensorMeta* const> inputs, const Dims& sizes, bool with_numbers) {
    std::size_t dimensions = sizes.size();
    if (dimensions == 0) return {};
    // If all inputs have the shape of the result, TensorIterator checks memory formats before it sorts.
    bool same_shape = !with_numbers, contiguous = true, channels_last = true, dense = true;
    for (const TensorMeta* input : inputs) {
        if (!are_known_equal(input->sizes, sizes)) {
            same_shape = false;
            break;
        }
        contiguous = contiguous && is_known_contiguous(input->sizes, input->strides);
        channels_last = channels_last && sizes.size() == 4 && is_channels_last(input->sizes, input->strides);
        dense =
            dense && is_dense(input->sizes, input->strides) && are_known_equal(input->strides, inputs.front()->strides);
    }
    if (same_shape && !inputs.empty()) {
        if (contiguous) return contiguous_strides(sizes);
        if (channels_last) return channels_last_strides(sizes);
        if (dense) return inputs.front()->strides;
    }

    // Sorts dimensions by the strides of the inputs; earlier inputs take precedence.
    std::vector<Dims> strides;
    strides.reserve(inputs.size());
    for (const TensorMeta* input : inputs) strides.push_back(expanded_strides(*input, sizes));
    auto compare = [&](std::size_t a, std::size_t b) {
        for (const Dims& input : strides) {
            if (known_equal(input[a], 0) || known_equal(input[b], 0)) continue;
            if (typically_less(input[a], input[b])) return -1;
            if (typically_less(input[b], input[a])) return 1;
            if (typically_less(sizes[b], sizes[a])) return 1;
        }
        return 0;
    };
    Order fast_to_slow(dimensions);
    for (std::size_t i = 0; i < dimensions; ++i) fast_to_slow[i] = dimensions - 1 - i;
    for (std::size_t i = 1; i < dimensions; ++i) {
        std::size_t moving = i;
        for (std::size_t other = i; other-- > 0;) {
            int order = compare(fast_to_slow[other], fast_to_slow[moving]);
            if (order > 0) {
                std::swap(fast_to_slow[other], fast_to_slow[moving]);
                moving = other;
            } else if (order < 0) {
                break;
            }
        }
    }
    Order slow_to_fast(fast_to_slow.rbegin(), fast_to_slow.rend());
    bool in_order = std::is_sorted(slow_to_fast.begin(), slow_to_fast.end());
    return in_order ? contiguous_strides(sizes) : strides_in_order(sizes, slow_to_fast, false);
}

Dims preserved_strides(const TensorMeta& meta) {
    if (is_dense(meta.sizes, meta.strides)) return meta.strides;
    const TensorMeta* inputs[] = {&meta};
    return elementwise_strides(inputs, meta.sizes);
}

std::optional<Dims> view_strides(const Dims& old_sizes, const Dims& old_strides, const Dims& new_sizes) {
    if (old_sizes.empty()) return Dims(new_sizes.size(), Dim(1));
    Dim elements = element_count(old_sizes);
    const bool depends_on_data = has_unbacked(old_sizes) || has_unbacked(new_sizes);
    if (depends_on_data && is_known_contiguous(old_sizes, old_strides)) return contiguous_strides(new_sizes);
    const bool is_empty = known_equal(elements, 0);
    if (is_empty && old_sizes == new_sizes) return old_strides;
    Dims strides(new_sizes.size());
    if (is_empty) {
        for (std::size_t i = new_sizes.size(); i-- > 0;)
            strides[i] = i + 1 == new_sizes.size() ? Dim(1) : at_least_one(new_sizes[i + 1]) * strides[i + 1];
        return strides;
    }
    // Runs of old dimensions that are contiguous in memory; each run has to be split into new dimensions.
    std::size_t view = new_sizes.size();
    Dim base = old_strides.back();
    Dim run = 1, covered = 1;
    for (std::size_t i = old_sizes.size(); i-- > 0;) {
        run *= old_sizes[i];
        if (i != 0 && (known_equal(old_sizes[i - 1], 1) || known_equal(old_strides[i - 1], run * base))) continue;
        while (view > 0 && (typically_less(covered, run) || known_equal(new_sizes[view - 1], 1))) {
            --view;
            strides[view] = covered * base;
            covered *= new_sizes[view];
        }
        if (!known_equal(covered, run)) return std::nullopt;
        if (i > 0) {
            base = old_strides[i - 1];
            run = 1;
            covered = 1;
        }
    }
    if (view != 0) return std::nullopt;
    return strides;
}

std::optional<Dims> resolve_sizes(const Dims& requested, Dim elements) {
    Dims sizes = requested;
    Dim known = 1;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        // (-1 from data would mean something else to PyTorch.)
        if (sizes[i].is_unbacked()) {
            if (!require_less_equal(0, sizes[i])) return std::nullopt;
            known *= sizes[i];
        } else if (sizes[i] == -1) {
            if (open) return std::nullopt;
            open = i;
        } else if (sizes[i] < 0) {
            return std::nullopt;
        } else {
            known *= sizes[i];
        }
    }
    if (!open) return require_equal(known, elements) ? std::optional(sizes) : std::nullopt;
    if (known.is_unbacked() ? !require_less_equal(1, known) : known == 0) return std::nullopt;
    if (!require_equal(elements % known, 0)) return std::nullopt;
    sizes[*open] = elements / known;
    return sizes;
}

std::optional<std::size_t> wrap_dimension(Dim dimension, std::size_t dimensions) {
    Dim count = dimensions == 0 ? Dim(1) : Dim(static_cast<std::int64_t>(dimensions));
    if (dimension < 0) dimension += count;
    if (dimension < 0 || dimension >= count) return std::nullopt;
    return static_cast<std::size_t>(dimension.value());
}

}  // namespace stator::shape
