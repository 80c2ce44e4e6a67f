/// Traceable wrapper subclasses: tensor subclasses with `__torch_dispatch__` that consist of other tensors, which
/// `__tensor_flatten__` names and `__tensor_unflatten__` takes.
#pragma once

#include <utility>
#include <vector>

#include "base/ref.h"
#include "torch/meta.h"

namespace stator::torch_room {

/// Whether it is a subclass of torch.Tensor with the three methods.
bool is_wrapper_class(PyTypeObject* type);

/// Whether it is a class of objects that graphs take without looking into them (`torch._library.opaque_object`), such
/// as that of device meshes.
bool is_opaque_class(PyTypeObject* type);
/// Whether such objects never change and are compared by their contents, such as the placements of a DTensor.
bool is_opaque_value_class(PyTypeObject* type);

/// What a trace knows of a wrapper besides its metadata. `TensorMeta::prototype` is a capsule that owns it.
struct Prototype {
    /// An instance of the class that holds FakeTensors, with the sizes of this call.
    Ref<> fake;
    /// The inner tensors by their names, with sizes that change between calls. Empty if none of all sizes changes.
    std::vector<std::pair<Ref<>, TensorMeta>> parts = {};
    /// Of a result with such sizes: an instance with symbols in place of them. What it holds besides is valid for all
    /// sizes.
    Ref<> symbolic = {};
    /// Of such a result, a function that makes the context from the numbers in it, and these. Null if it has none.
    Ref<> make_context = {};
    std::vector<Dim> context_numbers = {};
    /// Its attributes that are symbols themselves.
    std::vector<std::pair<Ref<>, Dim>> numbers = {};
    /// The prototypes of inner tensors.
    std::vector<Ref<>> kept = {};
};

Ref<> make_prototype(Prototype prototype);
/// Of a wrapper.
const Prototype& prototype_of(const TensorMeta& meta);

/// Calls `visit` for each size, stride and offset of a tensor, and of its inner tensors.
template <class Visit>
void for_each_dim(const TensorMeta& meta, const Visit& visit) {
    for (Dim size : meta.sizes) visit(size);
    for (Dim stride : meta.strides) visit(stride);
    visit(meta.storage_offset);
    if (meta.prototype == nullptr) return;
    for (const auto& [name, part] : prototype_of(meta).parts) for_each_dim(part, visit);
    for (Dim number : prototype_of(meta).context_numbers) visit(number);
}

/// A copy with a FakeTensor in place of each inner tensor; inner tensors that are FakeTensors become new ones. Runs
/// code of the class. Throws `PythonError`, also if the class does not give back what was taken apart.
Ref<> fake_wrapper(Borrowed<> fake_mode, Borrowed<> tensor);

/// A tensor of this class that is made of other inner tensors, a dict, and of a size and strides, and of the opaque
/// objects of this one.
Ref<> wrapper_like(Borrowed<> tensor, Borrowed<> inner, Borrowed<> size, Borrowed<> stride,
                   Borrowed<> context = nullptr);

/// Whether a tensor is a FakeTensor, or of a wrapper subclass and consists of those.
bool consists_of_fakes(Borrowed<> tensor);

/// The names of the inner tensors, without those of opaque objects among them. Throws `PythonError`.
std::vector<Ref<>> inner_names(Borrowed<> wrapper);

/// `(names, context, opaque objects)` of `__tensor_flatten__`, with a copy of the context. Throws `PythonError` if it
/// can't be copied or compared.
Ref<> flattened(Borrowed<> wrapper);
/// Whether the tensor flattens to that. Runs code of the class; never raises.
bool flattens_to(Borrowed<> wrapper, Borrowed<> flattened);
/// The context of `__tensor_flatten__`. Throws `PythonError`.
Ref<> context_of(Borrowed<> wrapper);
/// Whether two tensors of a class flatten to the same, where the second one has this context. Throws `PythonError`.
bool flatten_alike(Borrowed<> wrapper, Borrowed<> other, Borrowed<> other_context);

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
