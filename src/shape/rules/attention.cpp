/// `F.scaled_dot_product_attention` on the CPU, where the layouts of the fused kernel and of plain matrix products
/// differ.
#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"
#include "torch/versions.h"

namespace stator::shape {

namespace {

bool same_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device;
}

/// Whether the fused kernel supports this mask: of two or four dimensions, each of full size or one.
bool is_mask_for_kernel(const TensorMeta& mask, const Dims& full) {
    if (mask.dimensions() != 2 && mask.dimensions() != 4) return false;
    for (std::size_t i = 0; i < mask.dimensions(); ++i) {
        Dim size = full[full.size() - mask.dimensions() + i];
        if (!known_equal(mask.sizes[i], 1) && !known_equal(mask.sizes[i], size)) return false;
    }
    return true;
}

bool strides_end_in_one(const TensorMeta& meta) {
    return meta.strides.back() == 1;
}

/// query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa.
bool attention(Call& call) {
    const TensorMeta *query = call[0].tensor(), *key = call[1].tensor(), *value = call[2].tensor();
    if (!same_kind(query, key) || !same_kind(query, value) || !torch_room::is_floating(query->dtype) ||
        !is_on_cpu(*query))
        return false;
    auto probability = call[4].is_given() ? call[4].real() : 0.0;
    auto causal = call[5].boolean_or(false), grouped = call[7].boolean_or(false);
    if (!probability || *probability < 0 || *probability >= 1 || !causal || !grouped) return false;
    if (!call[6].is_absent() && !call[6].real()) return false;

    std::size_t dimensions = query->dimensions();
    if (dimensions < 2 || key->dimensions() != dimensions || value->dimensions() != dimensions) return false;
    for (const TensorMeta* tensor : {query, key, value})
        if (is_known_empty(tensor->sizes)) return false;
    Dim keys = key->sizes[dimensions - 2];
    if (!require_equal(query->sizes.back(), key->sizes.back()) || !require_equal(value->sizes[dimensions - 2], keys))
        return false;
    // Batches and heads are equal; with grouped-query attention several heads of the query share one key and value
    // head.
    for (std::size_t i = 0; i + 2 < dimensions; ++i) {
        if (!require_equal(key->sizes[i], value->sizes[i])) return false;
        if (known_equal(query->sizes[i], key->sizes[i])) continue;
        if (!*grouped || dimensions != 4 || i != 1 || query->sizes[1] % key->sizes[1] != 0) return false;
    }
    if (*grouped && dimensions != 4) return false;

    Dims full(query->sizes.begin(), query->sizes.end() - 1);
    full.push_back(keys);
    const TensorMeta* mask = call[3].tensor();
    if (!call[3].is_absent()) {
        if (mask == nullptr || *causal || mask->device != query->device || mask->requires_grad) return false;
        if (mask->dtype != torch_room::dtype::kBool && mask->dtype != query->dtype) return false;
        if (mask->dimensions() < 2) return false;
        auto expanded = broadcast(full, mask->sizes);
        if (!expanded || !std::ranges::equal(*expanded, full, require_equal)) return false;
    }

    bool has_three = dimensions == 3 && torch_room::fused_attention_takes_three_dimensions();
    if (has_three && mask != nullptr && mask->dimensions() != 2) return false;
    bool fused = call.state().flash_attention && (dimensions == 4 || has_three) && *probability == 0 &&
                 value->sizes.back() == query->sizes.back() && strides_end_in_one(*query) && strides_end_in_one(*key) &&
                 strides_end_in_one(*value) && (mask == nullptr || is_mask_for_kernel(*mask, full));
    Dims sizes(query->sizes.begin(), query->sizes.end() - 1);
    sizes.push_back(value->sizes.back());
    Dims strides = fused ? preserved_strides(*query) : contiguous_strides(sizes);
    // PyTorch marks the fused kernel as random, whatever the probability; and in inference mode the operation itself.
    call.answer().random = fused || *probability > 0 || call.state().inference;
    return call.returns(call.fresh(std::move(sizes), std::move(strides), query->dtype, query->device),
                        call.records({query, key, value}));
}

}  // namespace

void add_attention_rules(Registry& registry) {
    registry.add("F.scaled_dot_product_attention",
                 "query key value attn_mask? dropout_p? is_causal? * scale? enable_gqa?", attention, 0,
                 Autocast::LowerOnCpu);
}

}  // namespace stator::shape
