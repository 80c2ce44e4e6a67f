/// Pooling. Results are channels last like their inputs if the kernels support it.
#include <algorithm>
#include <string>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "shape/language/window.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

/// Which pooling, packed into the variant above the number of spatial dimensions.
enum Kind : int { kSpatialMask = 3, kIndices = 4 };

std::size_t spatial_of(const Call& call) {
    return static_cast<std::size_t>(call.variant() & kSpatialMask);
}

bool is_poolable(const TensorMeta* input, std::size_t spatial, bool also_lines_of_integers = false) {
    if (input == nullptr) return false;
    if (!torch_room::is_floating(input->dtype) &&
        (input->dtype != torch_room::dtype::kLong || (spatial < 2 && !also_lines_of_integers)))
        return false;
    if (input->dimensions() != spatial + 2 && input->dimensions() != spatial + 1) return false;
    // The batch may be empty, but no image is.
    if (input->dimensions() == spatial + 2 && is_plainly_empty(*input))
        return element_count(Dims(input->sizes.begin() + 1, input->sizes.end())) != 0;
    return !is_known_empty(input->sizes);
}

/// Sizes after pooling; empty if PyTorch would reject them.
std::optional<Dims> pooled_sizes(const TensorMeta& input, std::size_t spatial, const Operand& kernel_operand,
                                 const Operand& stride_operand, const Operand& padding_operand,
                                 const Operand& dilation_operand, bool ceil_mode) {
    auto kernel = for_each_dimension(kernel_operand, spatial, 1);
    bool no_stride = stride_operand.is_absent() || (stride_operand.integers() && stride_operand.integers()->empty());
    auto stride = no_stride ? kernel : for_each_dimension(stride_operand, spatial, 1);
    auto padding = for_each_dimension(padding_operand, spatial, 0);
    auto dilation = for_each_dimension(dilation_operand, spatial, 1);
    if (!kernel || !stride || !padding || !dilation) return std::nullopt;
    Dims sizes(input.sizes.begin(), input.sizes.end() - static_cast<std::ptrdiff_t>(spatial));
    for (std::size_t i = 0; i < spatial; ++i) {
        Dim k = (*kernel)[i], s = (*stride)[i], p = (*padding)[i], d = (*dilation)[i];
        if (k <= 0 || s <= 0 || d <= 0 || p < 0 || p > k / 2) return std::nullopt;
        Dim size = pooled_size(input.sizes[sizes.size()], k, p, s, d, ceil_mode);
        if (size < 1) return std::nullopt;
        sizes.push_back(size);
    }
    return sizes;
}

/// Lines are pooled as images with one row: their layout depends on the stride of that row.
Dims strides_of_lines(const TensorMeta& input, const Dims& sizes) {
    if (input.dimensions() != 3) return contiguous_strides(sizes);
    TensorMeta image = input;
    Dim length = input.sizes[2], step = input.strides[2];
    image.sizes = {input.sizes[0], input.sizes[1], Dim(1), length};
    image.strides = {input.strides[0], input.strides[1], length * step, step};
    Dims strides = suggested_strides(image, {sizes[0], sizes[1], Dim(1), sizes[2]});
    strides.erase(strides.begin() + 2);
    return strides;
}

/// Only batches of images are laid out as channels last.
Dims strides_like(const TensorMeta& input, std::size_t spatial, const Dims& sizes) {
    return spatial >= 2 && input.dimensions() == spatial + 2 ? suggested_strides(input, sizes)
                                                             : contiguous_strides(sizes);
}

/// Values, and their indices if requested.
bool give(Call& call, Dims sizes, Dims strides, bool with_indices) {
    const TensorMeta* input = call[0].tensor();
    bool recorded = call.records({input});
    TensorMeta values = call.fresh(sizes, strides, input->dtype, input->device);
    if (!with_indices) return call.returns(std::move(values), recorded);
    TensorMeta indices = call.fresh(std::move(sizes), std::move(strides), torch_room::dtype::kLong, input->device);
    return call.returns_several({std::move(values), std::move(indices)}, {recorded, false});
}

/// `F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)`.
bool max_pool(Call& call) {
    std::size_t spatial = spatial_of(call);
    const TensorMeta* input = call[0].tensor();
    auto ceil_mode = call[5].boolean_or(false);
    auto with_indices = (call.variant() & kIndices) ? std::optional(true) : call[6].boolean_or(false);
    if (!is_poolable(input, spatial) || !ceil_mode || !with_indices) return false;
    // With indices it is another operation, which autocast does not affect.
    if (*with_indices && call.state().autocast) return false;
    auto sizes = pooled_sizes(*input, spatial, call[1], call[2], call[3], call[4], *ceil_mode);
    if (!sizes) return false;
    // Without indices, lines have their own kernel on the CPU, which does not support gradients.
    bool as_images = spatial == 1 && (*with_indices || call.records({input}) || !is_on_cpu(*input));
    Dims strides = as_images ? strides_of_lines(*input, *sizes) : strides_like(*input, spatial, *sizes);
    // An unbatched volume looks like a batch of images, which the kernel rejects if it is channels last.
    if (spatial == 3 && is_like_channels_last(input->sizes, input->strides) && input->dimensions() == 4) return false;
    return give(call, std::move(*sizes), std::move(strides), *with_indices);
}

/// `F.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)`.
bool average_pool(Call& call) {
    std::size_t spatial = spatial_of(call);
    const TensorMeta* input = call[0].tensor();
    auto ceil_mode = call[4].boolean_or(false);
    if (!is_poolable(input, spatial, true) || !ceil_mode) return false;
    if (call[5].is_given() && !call[5].boolean()) return false;
    if (!call[6].is_absent() && (!call[6].integer() || *call[6].integer() == 0)) return false;
    auto sizes = pooled_sizes(*input, spatial, call[1], call[2], call[3], Operand(), *ceil_mode);
    if (!sizes) return false;
    if (spatial == 3) {
        // In three dimensions the kernel has to fit without padding.
        auto kernel = for_each_dimension(call[1], spatial, 1);
        for (std::size_t i = 0; kernel && i < spatial; ++i)
            if (input->sizes[input->dimensions() - spatial + i] < (*kernel)[i]) return false;
    }
    Dims strides = spatial == 1   ? strides_of_lines(*input, *sizes)
                   : spatial == 2 ? strides_like(*input, spatial, *sizes)
                                  : contiguous_strides(*sizes);
    return give(call, std::move(*sizes), std::move(strides), false);
}

/// `F.lp_pool2d(input, norm_type, kernel_size, stride, ceil_mode)`: composed of average pooling and arithmetic.
bool power_pool(Call& call) {
    std::size_t spatial = spatial_of(call);
    const TensorMeta* input = call[0].tensor();
    auto ceil_mode = call[4].boolean_or(false);
    if (!is_poolable(input, spatial) || !torch_room::is_floating(input->dtype) || !call[1].real() || !ceil_mode ||
        !is_contiguous(input->sizes, input->strides) || is_like_channels_last(input->sizes, input->strides))
        return false;
    auto sizes = pooled_sizes(*input, spatial, call[2], call[3], Operand(), Operand(), *ceil_mode);
    if (!sizes) return false;
    Dims strides = contiguous_strides(*sizes);
    return give(call, std::move(*sizes), std::move(strides), false);
}

std::optional<Dims> adapted_sizes(const TensorMeta& input, std::size_t spatial, const Operand& wanted_operand) {
    Dims sizes(input.sizes.begin(), input.sizes.end() - static_cast<std::ptrdiff_t>(spatial));
    std::vector<Operand> wanted =
        wanted_operand.is_sequence() ? wanted_operand.items() : std::vector<Operand>(spatial, wanted_operand);
    if (wanted.size() != spatial) return std::nullopt;
    for (const Operand& size : wanted) {
        // `None` keeps the size of the input.
        auto value = size.is_none() ? std::optional(input.sizes[sizes.size()]) : size.integer();
        if (!value || *value < 1) return std::nullopt;
        sizes.push_back(*value);
    }
    return sizes;
}

bool adaptive_average_pool(Call& call) {
    std::size_t spatial = spatial_of(call);
    const TensorMeta* input = call[0].tensor();
    if (!is_poolable(input, spatial) || !torch_room::is_floating(input->dtype)) return false;
    auto sizes = adapted_sizes(*input, spatial, call[1]);
    if (!sizes) return false;
    // Over a whole volume it is a mean, whose layout follows its input.
    bool whole = std::all_of(sizes->end() - static_cast<std::ptrdiff_t>(spatial), sizes->end(),
                             [](Dim size) { return size == 1; });
    Dims strides = spatial == 1                                          ? strides_of_lines(*input, *sizes)
                   : spatial == 2 || (whole && input->dimensions() == 5) ? suggested_strides(*input, *sizes)
                                                                         : contiguous_strides(*sizes);
    return give(call, std::move(*sizes), std::move(strides), false);
}

/// `F.adaptive_max_pool2d(input, output_size, return_indices)`.
bool adaptive_max_pool(Call& call) {
    std::size_t spatial = spatial_of(call);
    const TensorMeta* input = call[0].tensor();
    auto with_indices = (call.variant() & kIndices) ? std::optional(true) : call[2].boolean_or(false);
    if (!is_poolable(input, spatial) || !with_indices) return false;
    auto sizes = adapted_sizes(*input, spatial, call[1]);
    if (!sizes) return false;
    Dims strides = spatial == 1   ? strides_of_lines(*input, *sizes)
                   : spatial == 2 ? strides_like(*input, spatial, *sizes)
                                  : contiguous_strides(*sizes);
    return give(call, std::move(*sizes), std::move(strides), *with_indices);
}

}  // namespace

void add_pooling_rules(Registry& registry) {
    const std::string numbers[] = {"1d", "2d", "3d"};
    for (int i = 0; i < 3; ++i) {
        const std::string& number = numbers[i];
        int spatial = i + 1;
        // Autocast computes most of those over volumes in float32 on the CPU.
        Autocast autocast = spatial == 3 ? Autocast::Float32OnCpu : Autocast::NeutralOnCpu;
        const char* window = "self kernel_size stride? padding? dilation? ceil_mode?";
        registry.add("F.adaptive_max_pool" + number + "_with_indices", "self output_size return_indices?",
                     adaptive_max_pool, spatial | kIndices);
        registry.add("F.lp_pool" + number, "self norm_type kernel_size stride? ceil_mode?", power_pool, spatial);
        registry.add("F.max_pool" + number, window + std::string(" return_indices?"), max_pool, spatial, autocast);
        registry.add("torch.max_pool" + number, window, max_pool, spatial, autocast);
        registry.add("F.max_pool" + number + "_with_indices torch.max_pool" + number + "_with_indices",
                     window + std::string(" return_indices?"), max_pool, spatial | kIndices,
                     spatial == 3 ? Autocast::Unknown : autocast);
        registry.add("F.adaptive_avg_pool" + number + " torch.adaptive_avg_pool" + number, "self output_size",
                     adaptive_average_pool, spatial, autocast);
        registry.add("F.adaptive_max_pool" + number, "self output_size return_indices?", adaptive_max_pool, spatial,
                     autocast);
        registry.add("torch.adaptive_max_pool" + number + " _C._nn.adaptive_max_pool" + number, "self output_size",
                     adaptive_max_pool, spatial | kIndices, autocast);
        registry.add("_C._nn.adaptive_avg_pool" + number, "self output_size", adaptive_average_pool, spatial, autocast);
        registry.add("_C._nn.max_pool" + number + "_with_indices", window, max_pool, spatial | kIndices,
                     spatial == 3 ? Autocast::Unknown : autocast);
        registry.add("F.avg_pool" + number + " torch.avg_pool" + number,
                     spatial == 1 ? "self kernel_size stride? padding? ceil_mode? count_include_pad?"
                                  : "self kernel_size stride? padding? ceil_mode? count_include_pad? divisor_override?",
                     average_pool, spatial, autocast);
    }
}

}  // namespace stator::shape
