/// `F.multi_head_attention_forward`, which `nn.MultiheadAttention` calls: projections, attention, and optionally the
/// weights.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

enum Slot : std::size_t {
    kQuery,
    kKey,
    kValue,
    kEmbedding,
    kHeads,
    kInWeight,
    kInBias,
    kKeyBias,
    kValueBias,
    kAddZero,
    kDropout,
    kOutWeight,
    kOutBias,
    kTraining,
    kPaddingMask,
    kNeedWeights,
    kMask,
    kSeparate,
    kQueryWeight,
    kKeyWeight,
    kValueWeight,
    kStaticKey,
    kStaticValue,
    kAverage,
    kCausal,
};

/// Absent, or a tensor of these sizes with the dtype and device of the query.
bool fits(const Call& call, Slot slot, const Dims& sizes) {
    if (call[slot].is_absent()) return true;
    const TensorMeta *tensor = call[slot].tensor(), *query = call[kQuery].tensor();
    return tensor != nullptr && tensor->sizes == sizes && tensor->dtype == query->dtype &&
           tensor->device == query->device;
}

bool is_there(const Call& call, Slot slot, const Dims& sizes) {
    return !call[slot].is_absent() && fits(call, slot, sizes);
}

bool is_mask(const TensorMeta* mask, const TensorMeta& query) {
    return mask != nullptr && mask->device == query.device && !mask->requires_grad &&
           (mask->dtype == torch_room::dtype::kBool || mask->dtype == query.dtype);
}

struct Lengths {
    Dim batch, heads, target, source;
    bool batched;
};

bool are_masks(const Call& call, const Lengths& lengths) {
    const TensorMeta &query = *call[kQuery].tensor(), *mask = call[kMask].tensor();
    const TensorMeta* padding = call[kPaddingMask].tensor();
    if (!call[kMask].is_absent()) {
        if (!is_mask(mask, query)) return false;
        Dims rows{lengths.target, lengths.source}, batches{lengths.batch * lengths.heads, rows[0], rows[1]};
        if (mask->sizes != rows && mask->sizes != batches) return false;
    }
    if (!call[kPaddingMask].is_absent()) {
        if (!is_mask(padding, query)) return false;
        if (padding->sizes != (lengths.batched ? Dims{lengths.batch, lengths.source} : Dims{lengths.source}))
            return false;
        // Masks of different dtypes give a warning.
        if (mask != nullptr && mask->dtype != padding->dtype) return false;
    }
    return true;
}

bool are_projections(const Call& call, bool separate) {
    const TensorMeta &query = *call[kQuery].tensor(), &key = *call[kKey].tensor(), &value = *call[kValue].tensor();
    Dim width = query.sizes.back();
    if (!fits(call, kInBias, {width * 3}) || !fits(call, kKeyBias, {Dim(1), Dim(1), width}) ||
        !fits(call, kValueBias, {Dim(1), Dim(1), width}))
        return false;
    if (call[kKeyBias].is_absent() != call[kValueBias].is_absent()) return false;
    const TensorMeta* out = call[kOutWeight].tensor();
    if (out == nullptr || out->dimensions() != 2 || !is_there(call, kOutWeight, {out->sizes[0], width}) ||
        !fits(call, kOutBias, {out->sizes[0]}))
        return false;
    if (separate)
        return is_there(call, kQueryWeight, {width, width}) && is_there(call, kKeyWeight, {width, key.sizes.back()}) &&
               is_there(call, kValueWeight, {width, value.sizes.back()});
    return key.sizes == value.sizes && key.sizes.back() == width && is_there(call, kInWeight, {width * 3, width});
}

/// Lengths of sequences and batches, if query, key and value agree on them.
std::optional<Lengths> lengths_of(const Call& call) {
    const TensorMeta *query = call[kQuery].tensor(), *key = call[kKey].tensor(), *value = call[kValue].tensor();
    for (const TensorMeta* one : {query, key, value})
        if (one == nullptr || query == nullptr || one->dtype != query->dtype || one->device != query->device ||
            one->dimensions() != query->dimensions() || is_known_empty(one->sizes))
            return std::nullopt;
    auto embedding = call[kEmbedding].integer(), heads = call[kHeads].integer();
    if (!torch_room::is_floating(query->dtype) || !is_on_cpu(*query) || !embedding || !heads || *heads <= 0 ||
        (query->dimensions() != 2 && query->dimensions() != 3) || query->sizes.back() != *embedding ||
        *embedding % *heads != 0 || key->sizes[0] != value->sizes[0])
        return std::nullopt;
    bool batched = query->dimensions() == 3;
    if (batched && (key->sizes[1] != query->sizes[1] || value->sizes[1] != query->sizes[1])) return std::nullopt;
    return Lengths{batched ? query->sizes[1] : Dim(1), *heads, query->sizes[0], key->sizes[0], batched};
}

bool multi_head_attention(Call& call) {
    auto lengths = lengths_of(call);
    auto adds_zero = call[kAddZero].boolean(), training = call[kTraining].boolean_or(true);
    auto needs_weights = call[kNeedWeights].boolean_or(true), separate = call[kSeparate].boolean_or(false);
    auto average = call[kAverage].boolean_or(true), causal = call[kCausal].boolean_or(false);
    auto probability = call[kDropout].real();
    if (!lengths || !adds_zero || !training || !needs_weights || !separate || !average || !causal || !probability ||
        *probability < 0 || *probability >= 1)
        return false;
    if (!call[kStaticKey].is_absent() || !call[kStaticValue].is_absent() || (*causal && call[kMask].is_absent()))
        return false;
    if (!are_projections(call, *separate) || !are_masks(call, *lengths)) return false;

    const TensorMeta& query = *call[kQuery].tensor();
    auto recorded = [&](std::initializer_list<Slot> slots) {
        for (Slot slot : slots)
            if (call.records({call[slot].tensor()})) return true;
        return false;
    };
    bool scores_recorded = recorded({kQuery, kKey, kInBias, kKeyBias}) ||
                           (*separate ? recorded({kQueryWeight, kKeyWeight}) : recorded({kInWeight}));
    bool output_recorded = scores_recorded || recorded({kValue, kValueBias, kOutWeight, kOutBias}) ||
                           (*separate && recorded({kValueWeight}));
    Dim width = call[kOutWeight].tensor()->sizes[0];
    Dims sizes = lengths->batched ? Dims{lengths->target, lengths->batch, width} : Dims{lengths->target, width};
    TensorMeta output = call.fresh(std::move(sizes), query.dtype, query.device);
    bool drops = *training && *probability > 0;
    if (!*needs_weights) {
        // PyTorch marks the fused kernel as random, whatever the probability.
        call.answer().random = drops || call.state().flash_attention;
        call.returns_several({std::move(output)}, {output_recorded});
        call.answer().result.items.emplace_back();  // None
        return true;
    }
    Dim source = lengths->source + (call[kKeyBias].is_absent() ? 0 : 1) + (*adds_zero ? 1 : 0);
    Dims weights;
    if (lengths->batched) weights.push_back(lengths->batch);
    if (!*average) weights.push_back(lengths->heads);
    weights.insert(weights.end(), {lengths->target, source});
    call.answer().random = drops;
    return call.returns_several({std::move(output), call.fresh(std::move(weights), query.dtype, query.device)},
                                {output_recorded, scores_recorded});
}

}  // namespace

void add_multihead_rules(Registry& registry) {
    registry.add("F.multi_head_attention_forward",
                 "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn "
                 "dropout_p out_proj_weight out_proj_bias training? key_padding_mask? need_weights? attn_mask? "
                 "use_separate_proj_weight? q_proj_weight? k_proj_weight? v_proj_weight? static_k? static_v? "
                 "average_attn_weights? is_causal?",
                 multi_head_attention);
}

}  // namespace stator::shape
