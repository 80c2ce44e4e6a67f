/// Pooling of contiguous inputs.
#include "shape/registry.h"
#include "shape/strides.h"
#include "shape/window.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

bool is_poolable(const TensorMeta* input, std::size_t spatial) {
    if (input == nullptr || !torch_room::is_floating(input->dtype)) return false;
    if (input->dimensions() != spatial + 2 && input->dimensions() != spatial + 1) return false;
    return is_contiguous(input->sizes, input->strides) && !is_like_channels_last(input->sizes, input->strides) &&
           element_count(input->sizes) != 0;
}

bool pool(Call& call, std::size_t spatial, const Operand& stride_operand, const Operand& dilation_operand,
          std::optional<bool> ceil_mode) {
    const TensorMeta* input = call[0].tensor();
    if (!is_poolable(input, spatial) || !ceil_mode) return false;
    auto kernel = for_each_dimension(call[1], spatial, 1);
    bool no_stride = stride_operand.is_absent() || (stride_operand.integers() && stride_operand.integers()->empty());
    auto stride = no_stride ? kernel : for_each_dimension(stride_operand, spatial, 1);
    auto padding = for_each_dimension(call[3], spatial, 0), dilation = for_each_dimension(dilation_operand, spatial, 1);
    if (!kernel || !stride || !padding || !dilation) return false;
    Dims sizes(input->sizes.begin(), input->sizes.end() - static_cast<std::ptrdiff_t>(spatial));
    for (std::size_t i = 0; i < spatial; ++i) {
        Dim k = (*kernel)[i], s = (*stride)[i], p = (*padding)[i], d = (*dilation)[i];
        if (k <= 0 || s <= 0 || d <= 0 || p < 0 || p > k / 2) return false;
        Dim size = pooled_size(input->sizes[sizes.size()], k, p, s, d, *ceil_mode);
        if (size < 1) return false;
        sizes.push_back(size);
    }
    return call.returns(call.fresh(std::move(sizes), input->dtype, input->device), call.records({input}));
}

/// `F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)`.
bool max_pool(Call& call) {
    if (call[6].boolean_or(false) != false) return false;
    return pool(call, static_cast<std::size_t>(call.variant()), call[2], call[4], call[5].boolean_or(false));
}

bool average_pool(Call& call) {
    if (call[5].is_given() && !call[5].boolean()) return false;
    if (!call[6].is_absent() && (!call[6].integer() || *call[6].integer() == 0)) return false;
    return pool(call, static_cast<std::size_t>(call.variant()), call[2], Operand(), call[4].boolean_or(false));
}

bool adaptive_pool(Call& call) {
    auto spatial = static_cast<std::size_t>(call.variant());
    const TensorMeta* input = call[0].tensor();
    if (!is_poolable(input, spatial)) return false;
    Dims sizes(input->sizes.begin(), input->sizes.end() - static_cast<std::ptrdiff_t>(spatial));
    std::vector<Operand> wanted = call[1].is_sequence() ? call[1].items() : std::vector<Operand>(spatial, call[1]);
    if (wanted.size() != spatial) return false;
    for (const Operand& size : wanted) {
        // `None` keeps the size of the input.
        auto value = size.is_none() ? std::optional(input->sizes[sizes.size()]) : size.integer();
        if (!value || *value < 1) return false;
        sizes.push_back(*value);
    }
    return call.returns(call.fresh(std::move(sizes), input->dtype, input->device), call.records({input}));
}

}  // namespace

void add_pooling_rules(Registry& registry) {
    const char* max_names[] = {"F.max_pool1d", "F.max_pool2d", "F.max_pool3d"};
    const char* max_functions[] = {"torch.max_pool1d", "torch.max_pool2d", "torch.max_pool3d"};
    const char* adaptive[] = {"F.adaptive_avg_pool1d torch.adaptive_avg_pool1d", "F.adaptive_avg_pool2d",
                              "F.adaptive_avg_pool3d"};
    for (int i = 0; i < 3; ++i) {
        registry.add_neutral(max_names[i], "self kernel_size stride? padding? dilation? ceil_mode? return_indices?",
                             max_pool, i + 1);
        registry.add_neutral(max_functions[i], "self kernel_size stride? padding? dilation? ceil_mode?", max_pool,
                             i + 1);
        registry.add(adaptive[i], "self output_size", adaptive_pool, i + 1);
    }
    registry.add("F.avg_pool1d torch.avg_pool1d", "self kernel_size stride? padding? ceil_mode? count_include_pad?",
                 average_pool, 1);
    registry.add("F.avg_pool2d", "self kernel_size stride? padding? ceil_mode? count_include_pad? divisor_override?",
                 average_pool, 2);
    registry.add("F.avg_pool3d", "self kernel_size stride? padding? ceil_mode? count_include_pad? divisor_override?",
                 average_pool, 3);
}

}  // namespace stator::shape
