/// Resampling of images: `F.interpolate`, and moving pixels between channels and spatial dimensions.
#include <cmath>
#include <string>

#include "base/python_error.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

/// One number for each spatial dimension.
std::optional<std::vector<double>> factors_of(const Operand& operand, std::size_t spatial) {
    if (auto one = operand.real()) return std::vector<double>(spatial, *one);
    if (!operand.is_sequence()) return std::nullopt;
    std::vector<double> factors;
    for (const Operand& item : operand.items()) {
        auto factor = item.real();
        if (!factor) return std::nullopt;
        factors.push_back(*factor);
    }
    return factors.size() == spatial ? std::optional(factors) : std::nullopt;
}

bool is_mode_for(std::string_view mode, std::size_t spatial) {
    if (mode == "nearest" || mode == "nearest-exact" || mode == "area") return true;
    if (mode == "linear") return spatial == 1;
    if (mode == "bilinear" || mode == "bicubic") return spatial == 2;
    return mode == "trilinear" && spatial == 3;
}

/// `int(size * factor)`.
std::optional<Dim> scaled(Dim size, double factor) {
    // Such factors have an exact product with every size that a tensor can have.
    for (std::int64_t divisor : {1, 2, 4, 8, 16}) {
        double whole = factor * static_cast<double>(divisor);
        if (whole >= 1 && whole < 1 << 20 && whole == std::floor(whole))
            return size * static_cast<std::int64_t>(whole) / divisor;
    }
    double wanted = static_cast<double>(size.value()) * factor;
    return wanted >= 1 && wanted < 1e9 ? std::optional(Dim(static_cast<std::int64_t>(wanted))) : std::nullopt;
}

/// The requested spatial sizes, given directly or as factors.
std::optional<Dims> wanted_sizes(const TensorMeta& self, const Operand& size, const Operand& factor) {
    std::size_t spatial = self.dimensions() - 2;
    if (size.is_absent() == factor.is_absent()) return std::nullopt;
    if (!size.is_absent()) {
        auto one = size.integer();
        auto sizes = one ? std::optional(Dims(spatial, *one)) : size.integers();
        return sizes && sizes->size() == spatial ? sizes : std::nullopt;
    }
    auto factors = factors_of(factor, spatial);
    if (!factors) return std::nullopt;
    Dims sizes;
    for (std::size_t i = 0; i < spatial; ++i) {
        auto wanted = scaled(self.sizes[i + 2], (*factors)[i]);
        if (!wanted || *wanted < 1 || !(*wanted < 1'000'000'000)) return std::nullopt;
        sizes.push_back(*wanted);
    }
    return sizes;
}

/// `F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)`.
bool interpolate(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !torch_room::is_floating(self->dtype) || self->dimensions() < 3 || self->dimensions() > 5)
        return false;
    std::size_t spatial = self->dimensions() - 2;
    auto mode = call[3].is_given() ? call[3].string() : "nearest";
    if (!mode || !is_mode_for(*mode, spatial) || is_known_empty(self->sizes) || !is_on_cpu(*self)) return false;
    bool between = *mode != "nearest" && *mode != "nearest-exact" && *mode != "area";
    if (!call[4].is_absent() && (!between || !call[4].boolean())) return false;
    if (!call[5].is_absent() && (!call[5].boolean() || (*call[5].boolean() && !call[1].is_absent()))) return false;
    auto smooth = call[6].boolean_or(false);
    if (!smooth || (*smooth && *mode != "bilinear" && *mode != "bicubic")) return false;
    // Computed by adaptive pooling, which autocast treats differently for each number of dimensions.
    if (*mode == "area" && call.state().autocast) return false;
    if (*mode == "area" && spatial != 2 && self->strides != contiguous_strides(self->sizes)) return false;
    auto wanted = wanted_sizes(*self, call[1], call[2]);
    if (!wanted) return false;
    Dims sizes{self->sizes[0], self->sizes[1]};
    for (Dim size : *wanted) {
        if (size < 1) return false;
        sizes.push_back(size);
    }
    bool follows = spatial == 2 || (spatial == 3 && *mode != "area");
    Dims strides = follows ? suggested_strides(*self, sizes) : contiguous_strides(sizes);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), self->dtype, self->device),
                        call.records({self}));
}

/// `_C._nn.upsample_bilinear2d(input, output_size, align_corners, scale_factors)` and others: the variant is the number
/// of spatial dimensions, and those of nearest mode have no `align_corners`.
bool upsample(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto spatial = static_cast<std::size_t>(call.variant());
    if (self == nullptr || !torch_room::is_floating(self->dtype) || self->dimensions() != spatial + 2 ||
        is_known_empty(self->sizes) || !is_on_cpu(*self))
        return false;
    if (call[2].is_given() && !call[2].boolean()) return false;
    auto wanted = wanted_sizes(*self, call[1], call[3]);
    if (!wanted || (!call[1].is_absent() && !call[1].is_sequence())) return false;
    Dims sizes{self->sizes[0], self->sizes[1]};
    for (Dim size : *wanted) {
        if (size < 1) return false;
        sizes.push_back(size);
    }
    Dims strides = spatial > 1 ? suggested_strides(*self, sizes) : contiguous_strides(sizes);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), self->dtype, self->device),
                        call.records({self}));
}

/// `F.upsample_nearest(input, size, scale_factor)` and `F.upsample_bilinear`, which are now modes of `F.interpolate`.
template <bool bilinear>
bool deprecated_upsample(Call& call) {
    static PyObject* const mode = checked(PyUnicode_FromString(bilinear ? "bilinear" : "nearest")).release();
    call.slots()[3] = Operand(mode);
    return interpolate(call);
}

/// An image sampled at the positions of a grid.
bool sample_grid(Call& call, bool bicubic) {
    const TensorMeta *self = call[0].tensor(), *grid = call[1].tensor();
    if (self == nullptr || grid == nullptr || !torch_room::is_floating(self->dtype) || grid->dtype != self->dtype ||
        grid->device != self->device || !is_on_cpu(*self) || !is_contiguous(self->sizes, self->strides))
        return false;
    std::size_t spatial = self->dimensions() - 2;
    if (self->dimensions() < 4 || self->dimensions() > 5 || grid->dimensions() != self->dimensions() ||
        grid->sizes[0] != self->sizes[0] || grid->sizes.back() != Dim(static_cast<std::int64_t>(spatial)))
        return false;
    if (bicubic && spatial != 2) return false;
    if ((!call[4].is_absent() && !call[4].boolean()) || is_known_empty(self->sizes)) return false;
    Dims sizes{self->sizes[0], self->sizes[1]};
    sizes.insert(sizes.end(), grid->sizes.begin() + 1, grid->sizes.end() - 1);
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self, grid}));
}

/// `F.grid_sample(input, grid, mode, padding_mode, align_corners)`.
bool grid_sample(Call& call) {
    auto mode = call[2].is_given() ? call[2].string() : "bilinear";
    auto padding = call[3].is_given() ? call[3].string() : "zeros";
    if (mode != "bilinear" && mode != "nearest" && mode != "bicubic") return false;
    if (padding != "zeros" && padding != "border" && padding != "reflection") return false;
    return sample_grid(call, mode == "bicubic");
}

/// `torch.grid_sampler`, which has numbers for the modes.
bool native_grid_sample(Call& call) {
    auto mode = call[2].integer(), padding = call[3].integer();
    if (!mode || *mode < 0 || *mode > 2 || !padding || *padding < 0 || *padding > 2 || !call[4].boolean()) return false;
    return sample_grid(call, *mode == 2);
}

/// `pixel_shuffle` and `pixel_unshuffle`: move elements from channels to spatial dimensions, and back.
bool shuffle_pixels(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto factor = call[1].integer();
    if (self == nullptr || !factor || *factor <= 0 || self->dimensions() < 3 || !is_on_cpu(*self)) return false;
    Dims sizes = self->sizes;
    Dim &width = sizes[sizes.size() - 1], &height = sizes[sizes.size() - 2], &channels = sizes[sizes.size() - 3];
    bool back = call.variant() != 0;
    if (back) {
        if (height % *factor != 0 || width % *factor != 0) return false;
        channels = channels * *factor * *factor;
        height = height / *factor;
        width = width / *factor;
    } else {
        if (channels % (*factor * *factor) != 0) return false;
        channels = channels / (*factor * *factor);
        height = height * *factor;
        width = width * *factor;
    }
    // For an empty tensor PyTorch returns a copy, even if the sizes should differ.
    if (is_known_empty(self->sizes) || is_like_channels_last(self->sizes, self->strides) ||
        !is_contiguous(self->sizes, self->strides))
        return false;
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self}));
}

}  // namespace

void add_resampling_rules(Registry& registry) {
    registry.add_neutral_on_cpu("F.interpolate",
                                "self size? scale_factor? mode? align_corners? recompute_scale_factor? antialias?",
                                interpolate);
    registry.add_neutral_on_cpu("F.upsample_nearest", "self size? scale_factor?", deprecated_upsample<false>);
    registry.add_neutral_on_cpu("F.upsample_bilinear", "self size? scale_factor?", deprecated_upsample<true>);
    for (int spatial = 1; spatial <= 3; ++spatial) {
        std::string place = std::to_string(spatial) + "d";
        registry.add("_C._nn.upsample_nearest" + place + " _C._nn._upsample_nearest_exact" + place,
                     "self output_size scale_factors?", reordered<upsample, 0, 1, -1, 2>, spatial);
    }
    const char* corners = "self output_size align_corners scale_factors?";
    registry.add("_C._nn.upsample_linear1d", corners, upsample, 1);
    registry.add(
        "_C._nn.upsample_bilinear2d _C._nn.upsample_bicubic2d _C._nn._upsample_bilinear2d_aa "
        "_C._nn._upsample_bicubic2d_aa",
        corners, upsample, 2);
    registry.add("_C._nn.upsample_trilinear3d", corners, upsample, 3);
    registry.add("torch.grid_sampler", "self grid interpolation_mode padding_mode align_corners", native_grid_sample);
    registry.add_float32_on_cpu("F.grid_sample", "self grid mode? padding_mode? align_corners?", grid_sample);
    registry.add_neutral("F.pixel_shuffle torch.pixel_shuffle", "self upscale_factor", shuffle_pixels, 0);
    registry.add_neutral("F.pixel_unshuffle torch.pixel_unshuffle", "self downscale_factor", shuffle_pixels, 1);
}

}  // namespace stator::shape
