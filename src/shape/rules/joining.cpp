/// Joins several tensors: cat, stack and similar operations.
#include <algorithm>

#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

std::optional<std::vector<const TensorMeta*>> tensors_of(const Operand& operand) {
    if (!operand.is_sequence()) return std::nullopt;
    std::vector<const TensorMeta*> tensors;
    for (const Operand& item : operand.items()) {
        if (item.tensor() == nullptr) return std::nullopt;
        tensors.push_back(item.tensor());
    }
    if (tensors.empty()) return std::nullopt;
    return tensors;
}

/// The common type, as for an elementwise operation: zero-dimensional tensors have less weight.
std::optional<Dtype> joined_type(const Call& call, const std::vector<const TensorMeta*>& tensors) {
    Promotion promotion(call.state().default_dtype);
    for (const TensorMeta* tensor : tensors) {
        if (tensor->device != tensors.front()->device) return std::nullopt;
        // Autocast combines different float types by its own rules.
        if (call.state().autocast && tensor->dtype != tensors.front()->dtype) return std::nullopt;
        promotion.add(*tensor);
    }
    return promotion.result();
}

/// An empty vector is skipped among tensors of any shape, for backward compatibility.
bool is_skipped(const TensorMeta& tensor) {
    return tensor.dimensions() == 1 && known_equal(tensor.sizes[0], 0);
}

bool join(Call& call, const std::vector<const TensorMeta*>& tensors, Dim where) {
    auto type = joined_type(call, tensors);
    auto first = std::find_if(tensors.begin(), tensors.end(), [](const auto* one) { return !is_skipped(*one); });
    if (!type) return false;
    if (first == tensors.end() && wrap_dimension(where, 1))
        return call.returns(call.fresh({Dim(0)}, *type, tensors.front()->device), call.records(tensors));
    if (first == tensors.end() || (*first)->sizes.empty()) return false;
    auto dimension = wrap_dimension(where, (*first)->dimensions());
    if (!dimension) return false;
    Dims sizes = (*first)->sizes;
    bool all_channels_last = true;
    sizes[*dimension] = 0;
    for (const TensorMeta* tensor : tensors) {
        all_channels_last = all_channels_last && is_like_channels_last(tensor->sizes, tensor->strides);
        if (is_skipped(*tensor)) continue;
        if (tensor->dimensions() != sizes.size()) return false;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if (i != *dimension && !require_equal(tensor->sizes[i], (*first)->sizes[i])) return false;
        sizes[*dimension] += tensor->sizes[*dimension];
    }
    Dims strides = all_channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), *type, tensors.front()->device),
                        call.records(tensors));
}

bool cat(Call& call) {
    auto tensors = tensors_of(call[0]);
    auto where = call[1].integer_or(0);
    return tensors && where && join(call, *tensors, *where);
}

bool stack(Call& call) {
    auto tensors = tensors_of(call[0]);
    auto where = call[1].integer_or(0);
    if (!tensors || !where) return false;
    auto type = joined_type(call, *tensors);
    const TensorMeta& first = *tensors->front();
    auto dimension = wrap_dimension(*where, first.dimensions() + 1);
    if (!type || !dimension) return false;
    for (const TensorMeta* tensor : *tensors) {
        if (!std::ranges::equal(tensor->sizes, first.sizes, require_equal)) return false;
        // Concatenated, and then viewed with one more dimension.
        if (is_like_channels_last(tensor->sizes, tensor->strides)) return false;
    }
    Dims sizes = first.sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(*dimension),
                 Dim(static_cast<std::int64_t>(tensors->size())));
    return call.returns(call.fresh(std::move(sizes), *type, first.device), call.records(*tensors));
}

/// Viewed with at least so many dimensions: `atleast_2d` and others.
TensorMeta with_dimensions(const TensorMeta& tensor, std::size_t least) {
    TensorMeta view = tensor;
    auto append = [&view] {
        view.sizes.push_back(1);
        view.strides.push_back(1);
    };
    if (view.sizes.empty()) append();
    if (least >= 2 && view.dimensions() == 1) {
        view.strides.insert(view.strides.begin(), view.sizes[0] * view.strides[0]);
        view.sizes.insert(view.sizes.begin(), Dim(1));
    }
    if (least >= 3 && view.dimensions() == 2) append();
    return view;
}

/// `atleast_1d` and others, for one or several tensors.
bool at_least(Call& call) {
    // In inference mode FakeTensor misses some of the views that these return.
    if (call.state().inference) return false;
    auto least = static_cast<std::size_t>(call.variant());
    auto view_of = [&](const TensorMeta& tensor) -> std::optional<TensorMeta> {
        if (tensor.dimensions() >= least) return std::nullopt;
        TensorMeta view = with_dimensions(tensor, least);
        return call.view_of(tensor, std::move(view.sizes), std::move(view.strides), tensor.storage_offset);
    };
    std::vector<Operand> operands = call[0].is_sequence() ? call[0].items() : std::vector<Operand>{call[0]};
    std::vector<std::optional<TensorMeta>> views;
    for (const Operand& operand : operands) {
        if (operand.tensor() == nullptr) return false;
        views.push_back(view_of(*operand.tensor()));
    }
    if (call[0].is_sequence()) return call.returns_views(operands, std::move(views), false);
    return views[0] ? call.returns_view(call[0], std::move(*views[0])) : call.returns_same(call[0]);
}

/// `broadcast_tensors(*tensors)`: a tensor that has the common shape is returned itself.
bool broadcast_tensors(Call& call) {
    std::vector<Operand> operands = call[0].is_sequence() ? call[0].items() : std::vector<Operand>{call[0]};
    Dims sizes;
    for (const Operand& operand : operands) {
        auto both = operand.tensor() == nullptr ? std::nullopt : broadcast(sizes, operand.tensor()->sizes);
        if (!both) return false;
        sizes = std::move(*both);
    }
    std::vector<std::optional<TensorMeta>> views;
    for (const Operand& operand : operands) {
        const TensorMeta& tensor = *operand.tensor();
        if (tensor.sizes == sizes) {
            views.emplace_back();
            continue;
        }
        // The stride of a new leading dimension of size one depends on those after it: the rule of `expand` computes
        // it.
        if (tensor.dimensions() < sizes.size() && std::find(sizes.begin(), sizes.end(), Dim(1)) != sizes.end())
            return false;
        views.push_back(call.view_of(tensor, sizes, expanded_strides(tensor, sizes), tensor.storage_offset));
    }
    return !operands.empty() && call.returns_views(operands, std::move(views), false);
}

/// `hstack`, `vstack` and `dstack`: concatenation along the first, second or third dimension.
bool stack_along(Call& call) {
    auto tensors = tensors_of(call[0]);
    if (!tensors) return false;
    auto least = static_cast<std::size_t>(call.variant());
    std::vector<TensorMeta> views;
    for (const TensorMeta* tensor : *tensors) views.push_back(with_dimensions(*tensor, least));
    std::vector<const TensorMeta*> pointers;
    for (const TensorMeta& view : views) pointers.push_back(&view);
    Dim where = least == 1 ? Dim(views.front().dimensions() == 1 ? 0 : 1) : least == 2 ? Dim(0) : Dim(2);
    return join(call, pointers, where);
}

/// `column_stack`: scalars and vectors become columns.
bool column_stack(Call& call) {
    auto tensors = tensors_of(call[0]);
    if (!tensors) return false;
    std::vector<TensorMeta> views;
    for (const TensorMeta* tensor : *tensors) {
        views.push_back(*tensor);
        if (tensor->dimensions() > 1) continue;
        views.back().sizes = {element_count(tensor->sizes), Dim(1)};
        views.back().strides = {tensor->sizes.empty() ? Dim(1) : tensor->strides[0], Dim(1)};
    }
    std::vector<const TensorMeta*> pointers;
    for (const TensorMeta& view : views) pointers.push_back(&view);
    return join(call, pointers, 1);
}

}  // namespace

void add_joining_rules(Registry& registry) {
    registry.add_neutral_on_cpu("torch.cat torch.concat torch.concatenate", "tensors dim?", cat);
    registry.add_neutral_on_cpu("torch.stack", "tensors dim?", stack);
    registry.add_neutral("torch.atleast_1d _VF.atleast_1d", "tensors...", at_least, 1);
    registry.add_neutral("torch.atleast_2d _VF.atleast_2d", "tensors...", at_least, 2);
    registry.add_neutral("torch.atleast_3d _VF.atleast_3d", "tensors...", at_least, 3);
    registry.add_neutral("torch.broadcast_tensors _VF.broadcast_tensors", "tensors...", broadcast_tensors);
    registry.add_neutral_on_cpu("torch.hstack", "tensors", stack_along, 1);
    registry.add_neutral_on_cpu("torch.vstack torch.row_stack", "tensors", stack_along, 2);
    registry.add_neutral_on_cpu("torch.column_stack", "tensors", column_stack);
    registry.add_neutral_on_cpu("torch.dstack", "tensors", stack_along, 3);
}

}  // namespace stator::shape
