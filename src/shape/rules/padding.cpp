/// `F.pad`: pairs of numbers, the last dimension first.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

/// Negative amounts crop, positive ones fill.
bool pad_with_constant(Call& call, const Dims& amounts) {
    const TensorMeta& self = *call[0].tensor();
    TensorMeta cut = self;
    bool grows = false;
    Dims sizes = self.sizes;
    for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
        std::size_t dimension = sizes.size() - 1 - i;
        for (Dim amount : {amounts[2 * i], amounts[2 * i + 1]}) {
            if (amount.is_unbacked() ? require_less_equal(0, amount) : amount > 0)
                grows = true;
            else
                cut.sizes[dimension] += amount;
            sizes[dimension] += amount;
        }
        if (!require_less_equal(0, sizes[dimension]) || !require_less_equal(0, cut.sizes[dimension])) return false;
    }
    // If it is only cropped, the result is a copy of a part.
    Dims strides = grows ? suggested_strides(self, sizes) : preserved_strides(cut);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), self.dtype, self.device),
                        call.records({&self}));
}

/// Reflection, replication and circular padding of the last one, two or three dimensions.
bool pad_from_contents(Call& call, const Dims& amounts, std::string_view mode) {
    const TensorMeta& self = *call[0].tensor();
    std::size_t spatial = amounts.size() / 2;
    if (torch_room::is_complex(self.dtype) || self.dtype == torch_room::dtype::kBool || spatial < 1 || spatial > 3 ||
        !is_on_cpu(self))
        return false;
    // The batch may be empty, but no image is.
    if (is_plainly_empty(self)
            ? self.dimensions() != spatial + 2 || element_count(Dims(self.sizes.begin() + 1, self.sizes.end())) == 0
            : is_known_empty(self.sizes))
        return false;
    if (self.dimensions() != spatial + 2 && (self.dimensions() != spatial + 1 || mode == "circular")) return false;
    // Autocast computes some reflections and replications in float32.
    if (call.state().autocast) return false;
    Dims sizes = self.sizes;
    for (std::size_t i = 0; i < spatial; ++i) {
        Dim& size = sizes[sizes.size() - 1 - i];
        Dim most = mode == "reflect" ? size - 1 : size;
        for (Dim amount : {amounts[2 * i], amounts[2 * i + 1]})
            if (mode != "replicate" && amount > most) return false;
        size += amounts[2 * i] + amounts[2 * i + 1];
        if (size < 1) return false;
    }
    // An unbatched volume looks like a batch of images, and has the layout of one.
    Dims strides = mode != "circular" && spatial > 1 ? suggested_strides(self, sizes) : contiguous_strides(sizes);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), self.dtype, self.device),
                        call.records({&self}));
}

bool pad(Call& call) {
    const TensorMeta* self = call[0].tensor();
    auto amounts = call[1].integers();
    if (self == nullptr || !amounts || amounts->size() % 2 != 0 || amounts->size() / 2 > self->dimensions())
        return false;
    auto mode = call[2].is_given() ? call[2].string() : "constant";
    if (mode == "constant") {
        if (!call[3].is_absent() && !call[3].real()) return false;
        return pad_with_constant(call, *amounts);
    }
    if (mode != "reflect" && mode != "replicate" && mode != "circular") return false;
    return call[3].is_absent() && pad_from_contents(call, *amounts, *mode);
}

}  // namespace

void add_padding_rules(Registry& registry) {
    registry.add_neutral("F.pad _C._nn.pad", "self pad mode? value?", pad);
}

}  // namespace stator::shape
