/// Convolutions. Results with four dimensions are channels last if the input or the weight is; with five it depends on
/// the library that computes them.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "shape/language/window.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

bool is_convolvable(Dtype type) {
    return torch_room::is_floating(type) || type == torch_room::dtype::kLong;
}

bool plain(const TensorMeta* tensor, const TensorMeta& like) {
    return tensor != nullptr && tensor->dtype == like.dtype && tensor->device == like.device;
}

/// Strides of the result; empty if they depend on the library that computes it.
std::optional<Dims> result_strides(const TensorMeta& input, const TensorMeta& weight, const Dims& sizes) {
    std::size_t dimensions = weight.dimensions();
    if (dimensions == 3) {
        // Computed as an image with one row.
        Dims image{weight.sizes[0], weight.sizes[1], 1, weight.sizes[2]};
        Dims strides{weight.strides[0], weight.strides[1], weight.sizes[2] * weight.strides[2], weight.strides[2]};
        return is_like_channels_last(image, strides) ? std::nullopt : std::optional(contiguous_strides(sizes));
    }
    bool batched = input.dimensions() == dimensions;
    Dims image = input.sizes, strides = input.strides;
    if (!batched) {
        image.insert(image.begin(), Dim(1));
        strides.insert(strides.begin(), input.sizes[0] * input.strides[0]);
    }
    if (!is_like_channels_last(image, strides) && !is_like_channels_last(weight.sizes, weight.strides))
        return contiguous_strides(sizes);
    if (dimensions != 4) return std::nullopt;
    if (batched) return channels_last_strides(sizes);
    Dims with_batch = sizes;
    with_batch.insert(with_batch.begin(), Dim(1));
    Dims result = channels_last_strides(with_batch);
    result.erase(result.begin());
    return result;
}

/// An input with its batch and channels; an unbatched one has no batch.
struct Image {
    Dims batch;
    Dim channels;
    Dims spatial;
};

std::optional<Image> as_image(const TensorMeta& input, std::size_t spatial) {
    if (input.dimensions() != spatial + 2 && input.dimensions() != spatial + 1) return std::nullopt;
    Image image;
    std::size_t first = input.dimensions() - spatial - 1;
    if (first == 1) image.batch.push_back(input.sizes[0]);
    image.channels = input.sizes[first];
    image.spatial.assign(input.sizes.begin() + static_cast<std::ptrdiff_t>(first) + 1, input.sizes.end());
    return image;
}

/// Whether input, weight and bias are tensors that can be convolved with each other.
bool takes_tensors(const Call& call, std::size_t spatial) {
    const TensorMeta *input = call[0].tensor(), *weight = call[1].tensor();
    if (input == nullptr || !is_convolvable(input->dtype) || !plain(weight, *input)) return false;
    if (!call[2].is_absent() && !plain(call[2].tensor(), *input)) return false;
    return weight->dimensions() == spatial + 2;
}

/// `conv1d`, `conv2d` and `conv3d`: input, weight, bias, stride, padding, dilation, groups.
bool convolution(Call& call) {
    auto spatial = static_cast<std::size_t>(call.variant());
    if (!takes_tensors(call, spatial)) return false;
    const TensorMeta *input = call[0].tensor(), *weight = call[1].tensor(), *bias = call[2].tensor();
    auto image = as_image(*input, spatial);
    auto stride = for_each_dimension(call[3], spatial, 1), dilation = for_each_dimension(call[5], spatial, 1);
    auto groups = call[6].integer_or(1);
    if (!image || !stride || !dilation || !groups || *groups <= 0) return false;
    std::optional<Dims> padding;
    bool keeps_size = call[4].string() == "same";
    if (keeps_size || call[4].string() == "valid")
        padding = Dims(spatial, Dim(0));
    else
        padding = for_each_dimension(call[4], spatial, 0);
    if (!padding) return false;
    if (weight->sizes[1] * *groups != image->channels || weight->sizes[0] % *groups != 0) return false;
    if (bias != nullptr && bias->sizes != Dims{weight->sizes[0]}) return false;
    Dims kernel(weight->sizes.begin() + 2, weight->sizes.end());
    std::optional<Dims> sizes;
    if (keeps_size) {
        for (std::size_t i = 0; i < spatial; ++i)
            if ((*stride)[i] != 1 || (*dilation)[i] <= 0) return false;
        sizes = image->spatial;
    } else {
        sizes = convolved_sizes(image->spatial, kernel, *stride, *padding, *dilation);
    }
    if (!sizes || is_known_empty(input->sizes) || is_known_empty(weight->sizes)) return false;
    Dims result = image->batch;
    result.push_back(weight->sizes[0]);
    result.insert(result.end(), sizes->begin(), sizes->end());
    auto strides = result_strides(*input, *weight, result);
    if (!strides) return false;
    return call.returns(call.fresh(std::move(result), std::move(*strides), input->dtype, input->device),
                        call.records({input, weight, bias}));
}

/// input, weight, bias, stride, padding, output_padding, groups, dilation.
bool transposed_convolution(Call& call) {
    auto spatial = static_cast<std::size_t>(call.variant());
    if (!takes_tensors(call, spatial)) return false;
    const TensorMeta *input = call[0].tensor(), *weight = call[1].tensor(), *bias = call[2].tensor();
    auto image = as_image(*input, spatial);
    auto stride = for_each_dimension(call[3], spatial, 1), padding = for_each_dimension(call[4], spatial, 0);
    auto extra = for_each_dimension(call[5], spatial, 0), dilation = for_each_dimension(call[7], spatial, 1);
    auto groups = call[6].integer_or(1);
    if (!image || !stride || !padding || !extra || !dilation || !groups || *groups <= 0) return false;
    if (weight->sizes[0] != image->channels || image->channels % *groups != 0) return false;
    Dim channels = weight->sizes[1] * *groups;
    if (bias != nullptr && bias->sizes != Dims{channels}) return false;
    if (is_known_empty(input->sizes) || is_known_empty(weight->sizes)) return false;
    Dims result = image->batch;
    result.push_back(channels);
    for (std::size_t i = 0; i < spatial; ++i) {
        if ((*stride)[i] <= 0 || (*dilation)[i] <= 0 || (*padding)[i] < 0 || (*extra)[i] < 0) return false;
        if ((*extra)[i] >= (*stride)[i] && (*extra)[i] >= (*dilation)[i]) return false;
        Dim size = (image->spatial[i] - 1) * (*stride)[i] - (*padding)[i] * 2 +
                   (*dilation)[i] * (weight->sizes[i + 2] - 1) + (*extra)[i] + 1;
        if (size <= 0) return false;
        result.push_back(size);
    }
    auto strides = result_strides(*input, *weight, result);
    if (!strides) return false;
    return call.returns(call.fresh(std::move(result), std::move(*strides), input->dtype, input->device),
                        call.records({input, weight, bias}));
}

}  // namespace

void add_convolution_rules(Registry& registry) {
    const char* names[] = {"torch.conv1d F.conv1d", "torch.conv2d F.conv2d", "torch.conv3d F.conv3d"};
    const char* transposed[] = {"torch.conv_transpose1d F.conv_transpose1d",
                                "torch.conv_transpose2d F.conv_transpose2d",
                                "torch.conv_transpose3d F.conv_transpose3d"};
    for (int i = 0; i < 3; ++i) {
        registry.add_lowered(names[i], "self weight bias? stride? padding? dilation? groups?", convolution, i + 1);
        registry.add_lowered(transposed[i], "self weight bias? stride? padding? output_padding? groups? dilation?",
                             transposed_convolution, i + 1);
    }
}

}  // namespace stator::shape
