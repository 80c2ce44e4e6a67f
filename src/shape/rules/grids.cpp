/// Coordinates: `meshgrid`, indices of a triangle, and positions in a sorted sequence.
#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

/// `meshgrid(*tensors, indexing=)`: each vector expanded along the dimensions of the others.
bool meshgrid(Call& call) {
    std::vector<Operand> vectors = call[0].is_sequence() ? call[0].items() : std::vector<Operand>{call[0]};
    // Without it PyTorch warns, and uses "ij".
    auto indexing = call[1].is_absent() ? "ij" : call[1].string();
    if (vectors.empty() || (indexing != "ij" && indexing != "xy")) return false;
    bool turned = indexing == "xy" && vectors.size() > 1;
    Dims sizes;
    for (const Operand& operand : vectors) {
        const TensorMeta* vector = operand.tensor();
        if (vector == nullptr || vector->dimensions() > 1 || vector->dtype != vectors[0].tensor()->dtype ||
            vector->device != vectors[0].tensor()->device)
            return false;
        sizes.push_back(element_count(vector->sizes));
    }
    if (turned) std::swap(sizes[0], sizes[1]);
    std::vector<std::optional<TensorMeta>> grids;
    for (std::size_t i = 0; i < vectors.size(); ++i) {
        const TensorMeta& vector = *vectors[i].tensor();
        std::size_t place = turned && i < 2 ? 1 - i : i;
        Dims own(sizes.size(), Dim(1));
        own[place] = sizes[place];
        auto strides = view_strides(vector.sizes, vector.strides, own);
        if (!strides) return false;
        for (std::size_t j = 0; j < sizes.size(); ++j)
            if (!known_equal(own[j], sizes[j])) (*strides)[j] = 0;
        grids.push_back(call.view_of(vector, sizes, std::move(*strides), vector.storage_offset));
    }
    return call.returns_views(vectors, std::move(grids), false);
}

/// The number of elements of a matrix on or below a diagonal.
Dim below_diagonal(Dim rows, Dim columns, Dim offset) {
    Dim count = 0;
    for (Dim row = 0; row < rows; row += 1) count += std::clamp(row + offset + 1, Dim(0), columns);
    return count;
}

/// `tril_indices(row, col, offset)` and `triu_indices`: the variant is zero for the lower triangle.
bool triangle_indices(Call& call) {
    constexpr std::int64_t most = 1 << 16;  // beyond that counting takes too long
    auto rows = call[0].integer(), columns = call[1].integer(), offset = call[2].integer_or(0);
    if (call.state().has_function_modes || !rows || !columns || !offset || *rows < 0 || *columns < 0 || *rows > most)
        return false;
    Dtype type = kLong;
    if (!call[3].is_absent()) {
        auto requested = call[3].dtype();
        if (requested != kLong && requested != kInt) return false;
        type = *requested;
    }
    if (!call[4].is_absent() && (!call[4].device() || call[4].device()->kind != torch_room::DeviceKind{})) return false;
    Dim below = below_diagonal(*rows, *columns, call.variant() == 0 ? *offset : *offset - 1);
    return call.returns(call.fresh({Dim(2), call.variant() == 0 ? below : *rows * *columns - below}, type, {}));
}

/// Insertion positions of `values` in sorted rows.
bool places_in(Call& call, const Operand& rows_operand, const Operand& values_operand, const Operand& small,
               const Operand& right) {
    const TensorMeta *rows = rows_operand.tensor(), *values = values_operand.tensor();
    auto as_int = small.boolean_or(false);
    if (rows == nullptr || rows->sizes.empty() || torch_room::is_complex(rows->dtype) || !as_int ||
        (right.is_given() && !right.boolean()))
        return false;
    if (values == nullptr) {
        if (!values_operand.real() || rows->dimensions() != 1) return false;
    } else if (values->dtype != rows->dtype || values->device != rows->device) {
        return false;
    } else if (rows->dimensions() != 1) {
        if (values->dimensions() != rows->dimensions() ||
            !std::equal(rows->sizes.begin(), rows->sizes.end() - 1, values->sizes.begin()))
            return false;
    }
    return call.returns(call.fresh(values == nullptr ? Dims{} : values->sizes, *as_int ? kInt : kLong, rows->device));
}

/// `searchsorted(sorted_sequence, input, out_int32=, right=, side=, sorter=)`.
bool search_sorted(Call& call) {
    if (!call[4].is_absent()) {
        if (call[4].string() != "left" && call[4].string() != "right") return false;
        if (call[3].boolean() == true && call[4].string() == "left") return false;
    }
    if (!call[5].is_absent()) {
        const TensorMeta *rows = call[0].tensor(), *order = call[5].tensor();
        if (rows == nullptr || order == nullptr || order->dtype != kLong || order->sizes != rows->sizes ||
            order->device != rows->device)
            return false;
    }
    return places_in(call, call[0], call[1], call[2], call[3]);
}

/// `bucketize(input, boundaries, out_int32=, right=)`.
bool bucketize(Call& call) {
    if (call[1].tensor() == nullptr || call[1].tensor()->dimensions() != 1) return false;
    return places_in(call, call[1], call[0], call[2], call[3]);
}

}  // namespace

void add_grid_rules(Registry& registry) {
    registry.add_neutral("torch.meshgrid _VF.meshgrid", "tensors... * indexing?", meshgrid);
    registry.add_neutral("torch.tril_indices", "row col offset? * dtype? device?", triangle_indices, 0);
    registry.add_neutral("torch.triu_indices", "row col offset? * dtype? device?", triangle_indices, 1);
    registry.add_neutral("torch.searchsorted", "sorted_sequence self * out_int32? right? side? sorter?", search_sorted);
    registry.add_neutral("torch.bucketize", "self boundaries * out_int32? right?", bucketize);
}

}  // namespace stator::shape
