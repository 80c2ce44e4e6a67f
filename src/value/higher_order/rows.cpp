#include "value/higher_order/rows.h"

#include "shape/language/strides.h"

namespace stator {

TensorValue* tensor_of(Tracer& tracer, const SubgraphTrace& trace, Value* value) {
    tracer.realize(value);
    auto* tensor = cast<TensorValue>(value);
    if (tensor == nullptr) trace.refuse("it is called with a " + value->print() + " instead of a tensor");
    return tensor;
}

const torch_room::TensorMeta& rows_of(Tracer& tracer, const SubgraphTrace& trace, Value* value) {
    const torch_room::TensorMeta& meta = *tensor_of(tracer, trace, value)->meta;
    if (meta.sizes.empty() || meta.sizes[0] == 0) trace.refuse("it is called with a tensor without rows");
    return meta;
}

torch_room::TensorMeta row_of(const torch_room::TensorMeta& rows) {
    torch_room::TensorMeta row = rows;
    row.sizes.erase(row.sizes.begin());
    row.strides.erase(row.strides.begin());
    row.is_leaf = !row.requires_grad;
    return row;
}

torch_room::TensorMeta stacked(const torch_room::TensorMeta& row, Dim count) {
    torch_room::TensorMeta rows = row;
    rows.sizes.insert(rows.sizes.begin(), count);
    rows.strides = shape::contiguous_strides(rows.sizes);
    rows.storage_offset = 0;
    return rows;
}

}  // namespace stator
