/// Traceable wrapper subclasses: tensor subclasses with `__torch_dispatch__` that consist of other tensors, which
/// `__tensor_flatten__` names and `__tensor_unflatten__` takes.
#pragma once

#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// Of the metadata of a wrapper: an instance that holds FakeTensors, borrowed from the arena that holds the metadata.
/// Null for any other tensor.
inline PyObject* prototype_of(const TensorMeta& meta) {
    return reinterpret_cast<PyObject*>(static_cast<std::uintptr_t>(meta.dispatch_keys >> 16));
}
inline void set_prototype(TensorMeta& meta, PyObject* prototype) {
    meta.dispatch_keys = (meta.dispatch_keys & 0xffff) | reinterpret_cast<std::uintptr_t>(prototype) << 16;
}

/// In `number` of a guard on a subclass: `__tensor_flatten__` returns `expected`.
inline constexpr std::int64_t kFlattened = 2;

/// Whether it is a subclass of torch.Tensor with the three methods.
bool is_wrapper_class(PyTypeObject* type);

/// A copy with a FakeTensor in place of each inner tensor; inner tensors that are FakeTensors become new ones. Runs
/// code of the class. Throws `PythonError`, also if the class does not give back what was taken apart.
Ref<> fake_wrapper(Borrowed<> fake_mode, Borrowed<> tensor);

/// Whether a tensor is a FakeTensor, or of a wrapper subclass and consists of those.
bool consists_of_fakes(Borrowed<> tensor);

/// The names of the inner tensors. Throws `PythonError`.
std::vector<Ref<>> inner_names(Borrowed<> wrapper);

/// `(names, context)` of `__tensor_flatten__`, with a copy of the context. Throws `PythonError` if it can't be copied
/// or compared.
Ref<> flattened(Borrowed<> wrapper);
/// Whether the tensor flattens to that. Runs code of the class; never raises.
bool flattens_to(Borrowed<> wrapper, Borrowed<> flattened);

/// The storages of a tensor and of its inner tensors.
std::vector<const void*> storages_of(Borrowed<> tensor);

/// Switches `__torch_function__` of subclasses off while it lives.
class WithoutTorchFunctions {
  public:
    explicit WithoutTorchFunctions(bool is_wanted = true);
    ~WithoutTorchFunctions();
    WithoutTorchFunctions(const WithoutTorchFunctions&) = delete;
    WithoutTorchFunctions& operator=(const WithoutTorchFunctions&) = delete;

  private:
    bool is_active_;
};

}  // namespace stator::torch_room
