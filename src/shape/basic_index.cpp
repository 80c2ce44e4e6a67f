#include "shape/basic_index.h"

#include <algorithm>

namespace stator::shape {

std::optional<IndexedPart> apply_basic_index(const TensorMeta& tensor, const Operand& index_operand) {
    const TensorMeta* self = &tensor;
    bool is_tuple = index_operand.is_sequence() && !index_operand.is_list();
    std::vector<Operand> indices = is_tuple ? index_operand.items() : std::vector<Operand>{index_operand};
    std::size_t consumed = 0, ellipses = 0;
    for (const Operand& index : indices) {
        if (index.integer() || index.is_slice())
            ++consumed;
        else if (index.constant() == Py_Ellipsis)
            ++ellipses;
        else if (!index.is_none())
            return std::nullopt;
    }
    if (consumed > self->dimensions() || ellipses > 1) return std::nullopt;
    Dims sizes, strides;
    Dim offset = self->storage_offset;
    std::size_t next = 0;
    auto copy_dimension = [&] {
        sizes.push_back(self->sizes[next]);
        strides.push_back(self->strides[next]);
        ++next;
    };
    for (const Operand& index : indices) {
        if (index.is_none()) {
            sizes.push_back(1);
            strides.push_back(next < self->dimensions() ? self->sizes[next] * self->strides[next] : Dim(1));
        } else if (index.constant() == Py_Ellipsis) {
            for (std::size_t i = consumed; i < self->dimensions(); ++i) copy_dimension();
        } else if (auto position = index.integer()) {
            Dim size = self->sizes[next];
            if (*position < 0) *position += size;
            if (*position < 0 || *position >= size) return std::nullopt;
            offset += *position * self->strides[next];
            ++next;
        } else {
            std::vector<Operand> bounds = index.items();
            auto step = bounds[2].is_none() ? std::optional<Dim>(1) : bounds[2].integer();
            Dim size = self->sizes[next];
            auto start = bounds[0].is_none() ? std::optional<Dim>(0) : bounds[0].integer();
            auto stop = bounds[1].is_none() ? std::optional<Dim>(size) : bounds[1].integer();
            if (!step || !start || !stop || *step <= 0) return std::nullopt;
            auto clamp = [&](Dim bound) {
                if (bound < 0) bound += size;
                return std::min(std::max(bound, Dim(0)), size);
            };
            Dim first = clamp(*start), last = std::max(clamp(*stop), clamp(*start));
            offset += first * self->strides[next];
            sizes.push_back((last - first + *step - 1) / *step);
            strides.push_back(self->strides[next] * *step);
            ++next;
        }
    }
    while (next < self->dimensions()) copy_dimension();
    return IndexedPart{std::move(sizes), std::move(strides), offset};
}

}  // namespace stator::shape
