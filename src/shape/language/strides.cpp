#include "shape/language/strides.h"

#include <algorithm>
#include <numeric>

namespace stator::shape {

namespace {

using Order = std::vector<std::size_t>;

Dim at_least_one(Dim size) {
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
        if (sizes[dimension] == 1) continue;
        if (strides[dimension] != expected) return false;
        expected *= sizes[dimension];
    }
    return true;
}

}  // namespace

Dim element_count(const Dims& sizes) {
    Dim count = 1;
    for (Dim size : sizes) count *= size;
    return count;
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
    if (element_count(sizes) == 0) return true;
    Dim expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
        if (sizes[i] == 1) continue;
        if (strides[i] != expected) return false;
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
    if (strides[1] == 0) return false;
    Dim smallest = 0;
    Order order{1};
    for (std::size_t i = sizes.size(); i-- > 2;) order.push_back(i);
    order.push_back(0);
    for (std::size_t dimension : order) {
        if (sizes[dimension] == 0 || strides[dimension] < smallest) return false;
        if (dimension == 0 && smallest == strides[1]) return false;
        smallest = strides[dimension];
        if (sizes[dimension] > 1) smallest *= sizes[dimension];
    }
    return true;
}

Dims suggested_strides(const TensorMeta& like, const Dims& sizes) {
    return is_like_channels_last(like.sizes, like.strides) ? channels_last_strides(sizes) : contiguous_strides(sizes);
}

bool is_dense(const Dims& sizes, const Dims& strides) {
    if (is_contiguous(sizes, strides)) return true;
    if (sizes.size() == 1) return sizes[0] < 2 || strides[0] == 1;
    Order order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Dimensions of size one go last: their strides are meaningless.
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        if (sizes[a] < 2) return false;
        if (sizes[b] < 2) return true;
        return strides[a] < strides[b];
    });
    Dim expected = 1;
    for (std::size_t dimension : order) {
        if (sizes[dimension] < 2) return true;
        if (strides[dimension] != expected) return false;
        expected *= sizes[dimension];
    }
    return true;
}

bool is_plainly_empty(const TensorMeta& meta) {
    return element_count(meta.sizes) == 0 && meta.strides == contiguous_strides(meta.sizes);
}

bool has_idle_strides(const TensorMeta& meta) {
    if (std::ranges::none_of(meta.sizes, [](Dim size) { return size < 2; })) return false;
    if (meta.strides == contiguous_strides(meta.sizes)) return false;
    bool is_image = (meta.dimensions() == 4 || meta.dimensions() == 5) && element_count(meta.sizes) != 0;
    return !is_image || meta.strides != channels_last_strides(meta.sizes);
}

bool may_overlap_itself(const TensorMeta& meta) {
    if (is_dense(meta.sizes, meta.strides)) return false;
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (meta.strides[i] == 0 && meta.sizes[i] > 1) return true;
    return false;
}

std::optional<Dims> broadcast(const Dims& left, const Dims& right) {
    const Dims& longer = left.size() >= right.size() ? left : right;
    const Dims& shorter = left.size() >= right.size() ? right : left;
    Dims sizes = longer;
    std::size_t offset = longer.size() - shorter.size();
    for (std::size_t i = 0; i < shorter.size(); ++i) {
        Dim& size = sizes[offset + i];
        if (size == shorter[i] || shorter[i] == 1) continue;
        if (size != 1) return std::nullopt;
        size = shorter[i];
    }
    return sizes;
}

Dims expanded_strides(const TensorMeta& meta, const Dims& sizes) {
    Dims strides(sizes.size(), Dim(0));
    std::size_t offset = sizes.size() - meta.sizes.size();
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (meta.sizes[i] != 1 || sizes[offset + i] == 1) strides[offset + i] = meta.strides[i];
    return strides;
}

Dims elementwise_strides(std::span<const TensorMeta* const> inputs, const Dims& sizes, bool with_numbers) {
    std::size_t dimensions = sizes.size();
    if (dimensions == 0) return {};
    // If all inputs have the shape of the result, TensorIterator checks memory formats before it sorts.
    bool same_shape = !with_numbers, contiguous = true, channels_last = true, dense = true;
    for (const TensorMeta* input : inputs) {
        if (input->sizes != sizes) {
            same_shape = false;
            break;
        }
        contiguous = contiguous && is_contiguous(input->sizes, input->strides);
        channels_last = channels_last && sizes.size() == 4 && is_channels_last(input->sizes, input->strides);
        dense = dense && is_dense(input->sizes, input->strides) && input->strides == inputs.front()->strides;
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
            if (input[a] == 0 || input[b] == 0) continue;
            if (input[a] < input[b]) return -1;
            if (input[a] > input[b]) return 1;
            if (sizes[a] > sizes[b]) return 1;
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
    if (elements == 0 && old_sizes == new_sizes) return old_strides;
    Dims strides(new_sizes.size());
    if (elements == 0) {
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
        if (i != 0 && (old_sizes[i - 1] == 1 || old_strides[i - 1] == run * base)) continue;
        while (view > 0 && (covered < run || new_sizes[view - 1] == 1)) {
            --view;
            strides[view] = covered * base;
            covered *= new_sizes[view];
        }
        if (covered != run) return std::nullopt;
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
        if (sizes[i] == -1) {
            if (open) return std::nullopt;
            open = i;
        } else if (sizes[i] < 0) {
            return std::nullopt;
        } else {
            known *= sizes[i];
        }
    }
    if (!open) return known == elements ? std::optional(sizes) : std::nullopt;
    if (known == 0 || elements % known != 0) return std::nullopt;
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
