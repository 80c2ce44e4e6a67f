#include "shape/language/reduction.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "shape/language/strides.h"

namespace stator::shape {

std::optional<std::vector<bool>> chosen_dimensions(const TensorMeta& self, const Operand& dimensions) {
    if (dimensions.is_absent()) return std::vector<bool>(self.dimensions(), true);
    auto named = dimensions.integer_or_integers();
    if (!named) return std::nullopt;
    if (named->empty()) return std::vector<bool>(self.dimensions(), true);
    std::vector<bool> chosen(self.dimensions(), false);
    for (Dim dimension : *named) {
        auto wrapped = wrap_dimension(dimension, self.dimensions());
        if (!wrapped) return std::nullopt;
        if (self.dimensions() == 0) {
            if (named->size() > 1) return std::nullopt;
            continue;
        }
        if (chosen[*wrapped]) return std::nullopt;
        chosen[*wrapped] = true;
    }
    return chosen;
}

std::optional<Dims> reduced_sizes(const TensorMeta& self, const Operand& dimensions, const Operand& keep) {
    auto kept = keep.boolean_or(false);
    auto chosen = chosen_dimensions(self, dimensions);
    if (!kept || !chosen) return std::nullopt;
    Dims sizes;
    for (std::size_t i = 0; i < self.dimensions(); ++i) {
        if (!(*chosen)[i])
            sizes.push_back(self.sizes[i]);
        else if (*kept)
            sizes.push_back(1);
    }
    return sizes;
}

PyTypeObject* return_type(const char* name) {
    return imported_class("torch.return_types", name);
}

}  // namespace stator::shape
