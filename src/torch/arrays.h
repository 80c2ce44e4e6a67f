/// numpy arrays and tensors over one memory. Nothing here runs Python code.
#pragma once

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// Whether the class is exactly `numpy.ndarray`. Does not import numpy.
bool is_array_class(PyTypeObject* type);
inline bool is_array(Borrowed<> object) {
    return is_array_class(Py_TYPE(object.get()));
}
/// Whether an array may be written to.
bool is_writeable(Borrowed<> array);

/// A tensor that shares the memory of an array that is (or is not) writeable; of a numpy scalar, a tensor without
/// dimensions that holds it. Empty, with no error set, for any other object and where PyTorch has no such tensor: for
/// other dtypes, for negative strides.
Ref<> tensor_of_array(Borrowed<> object, bool is_writeable);

/// Whether a node with this target calls `torch._numpy` (see `python/stator/arrays.py`).
bool calls_numpy(Borrowed<> target);

/// Whether numpy raises floating-point errors instead of warning (`numpy.seterr`, `numpy.errstate`).
bool raises_numpy_errors();

/// Whether numpy has the dtype.
bool has_array_dtype(Dtype dtype);
/// The `numpy.dtype` of such a dtype; never freed.
PyObject* array_dtype(Dtype dtype);

/// Functions of one tensor, for plans: an array over the tensor's memory; the same, read-only; the numpy scalar in a
/// tensor without dimensions. Never freed.
PyObject* array_function();
PyObject* read_only_array_function();
PyObject* array_scalar_function();

}  // namespace stator::torch_room
