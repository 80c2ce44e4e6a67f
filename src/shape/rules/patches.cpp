/// Images as columns of patches and back: `F.unfold` and `F.fold`.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "shape/language/window.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

struct Windows {
    Dim elements;  // of one window
    Dim count;     // the number of window positions
};

/// The windows over an image, from arguments `first` on: kernel_size, dilation, padding, stride.
std::optional<Windows> windows_over(const Call& call, const Dims& image, std::size_t first) {
    auto kernel = for_each_dimension(call[first], 2, 1), dilation = for_each_dimension(call[first + 1], 2, 1);
    auto padding = for_each_dimension(call[first + 2], 2, 0), stride = for_each_dimension(call[first + 3], 2, 1);
    if (!kernel || !dilation || !padding || !stride) return std::nullopt;
    auto places = convolved_sizes(image, *kernel, *stride, *padding, *dilation);
    if (!places) return std::nullopt;
    return Windows{element_count(*kernel), element_count(*places)};
}

bool has_patches(const TensorMeta* self) {
    return self != nullptr && torch_room::is_floating(self->dtype) && !is_known_empty(self->sizes);
}

/// `F.unfold(input, kernel_size, dilation, padding, stride)`.
bool unfold_image(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !torch_room::is_floating(self->dtype)) return false;
    if (self->dimensions() != 3 && self->dimensions() != 4) return false;
    // The batch may be empty, but no image is.
    if (element_count(Dims(self->sizes.end() - 3, self->sizes.end())) == 0) return false;
    Dims image(self->sizes.end() - 2, self->sizes.end()), sizes(self->sizes.begin(), self->sizes.end() - 2);
    auto windows = windows_over(call, image, 1);
    if (!windows) return false;
    sizes.back() *= windows->elements;
    sizes.push_back(windows->count);
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self}));
}

/// `F.fold(input, output_size, kernel_size, dilation, padding, stride)`.
bool fold_image(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto image = for_each_dimension(call[1], 2, 1);
    if (!has_patches(self) || !image || (self->dimensions() != 2 && self->dimensions() != 3)) return false;
    auto windows = windows_over(call, *image, 2);
    if (!windows || self->sizes.back() != windows->count) return false;
    Dims sizes(self->sizes.begin(), self->sizes.end() - 1);
    if (sizes.back() % windows->elements != 0) return false;
    sizes.back() = sizes.back() / windows->elements;
    sizes.insert(sizes.end(), image->begin(), image->end());
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self}));
}

}  // namespace

void add_patch_rules(Registry& registry) {
    registry.add_neutral_on_cpu("F.unfold", "self kernel_size dilation? padding? stride?", unfold_image);
    registry.add_neutral_on_cpu("_C._nn.im2col", "self kernel_size dilation padding stride", unfold_image);
    registry.add_neutral_on_cpu("_C._nn.col2im", "self output_size kernel_size dilation padding stride", fold_image);
    registry.add_neutral_on_cpu("F.fold", "self output_size kernel_size dilation? padding? stride?", fold_image);
}

}  // namespace stator::shape
