/// Nested tensors of `torch.jagged` layout: wrappers (torch/wrappers.h) around values and offsets, of which one size is
/// a nested int (number/nested_int.h).
#pragma once

#include "base/ref.h"
#include "number/nested_int.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// PyTorch's class of such tensors. Its `__torch_function__` is part of PyTorch: operations on such tensors call it
/// when the graph runs.
bool is_jagged_class(PyTypeObject* type);
inline bool is_jagged(Borrowed<> object) {
    return is_jagged_class(Py_TYPE(object.get()));
}
inline bool is_jagged(const TensorMeta& meta) {
    return meta.prototype != nullptr && meta.python_class != nullptr && is_jagged_class(meta.python_class);
}

/// The sizes of such a tensor. Throws PythonError if one of them is a symbol.
Dims sizes_of_jagged(Borrowed<> tensor);
/// Strides and storage of such tensors are those of their values.
Layout jagged_layout();

/// The tensor by whose identity PyTorch knows the ragged size: the offsets, or the lengths.
Ref<> ragged_source(Borrowed<> tensor);
/// Whether PyTorch knows it so.
bool has_known_ragged_size(Borrowed<> tensor);
/// The ragged size of the tensors that were made of these offsets or lengths; 0 if there are none.
Dim registered_ragged_size(Borrowed<> source);
/// The ragged size of the tensors that are made of this FakeTensor.
void set_ragged_size(Borrowed<> fake, Borrowed<> nested_int);

/// The SymInt that PyTorch has for a nested int.
Ref<> nested_int_object(Dim ragged_size);
/// The nested int that this object is; 0 for any other object.
Dim nested_int_of(Borrowed<> object);

}  // namespace stator::torch_room
