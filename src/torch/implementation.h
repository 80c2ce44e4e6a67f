/// Direct reads of a tensor's fields, without PyTorch's accessors: a check of a large model reads thousands. For the
/// files of this room only; it includes PyTorch's headers.
#pragma once

#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>

#include "torch/tensor.h"

namespace stator::torch_room {

using torch::autograd::AutogradMeta;

/// Bits of `trait`.
std::uint64_t read_traits(Borrowed<> tensor);

inline c10::TensorImpl* implementation(PyObject* tensor) {
    return THPVariable_Unpack(tensor).unsafeGetTensorImpl();
}

namespace detail {

/// Never instantiated: gives access to protected members of its base.
struct OpenTensor : c10::TensorImpl {
    using c10::TensorImpl::data_type_;
    using c10::TensorImpl::key_set_;
    using c10::TensorImpl::matches_policy;
    using c10::TensorImpl::sizes_and_strides_;
};

/// A private member, because its accessor is a call into another library. The arguments of an explicit instantiation
/// may name it.
struct AutogradMember {
    using Type = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
    friend constexpr Type found(AutogradMember);
};
template <AutogradMember::Type kMember>
struct Find {
    friend constexpr AutogradMember::Type found(AutogradMember) { return kMember; }
};
template struct Find<&c10::TensorImpl::autograd_meta_>;

inline std::uint64_t word_at(const char* place) {
    std::uint64_t word;
    std::memcpy(&word, place, sizeof(word));
    return word;
}

/// The number of dimensions, the sizes, the strides.
inline const char* shape_of(const c10::TensorImpl& tensor) {
    return reinterpret_cast<const char*>(&(tensor.*(&OpenTensor::sizes_and_strides_)));
}

/// From the dtype to the key set, with the device and a few flags between.
inline const char* kind_of(const c10::TensorImpl& tensor) {
    return reinterpret_cast<const char*>(&(tensor.*(&OpenTensor::data_type_)));
}

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kStrides = 1 + TensorImage::kMostDimensions;
constexpr std::size_t kKind = kStrides + TensorImage::kMostDimensions;

}  // namespace detail

/// Whether reading the sizes or strides runs code of the tensor's class.
inline bool computes_sizes(const c10::TensorImpl& tensor) {
    return (tensor.*(&detail::OpenTensor::matches_policy))(c10::TensorImpl::SizesStridesPolicy::CustomStrides);
}

inline const AutogradMeta* autograd_of(const c10::TensorImpl& tensor) {
    return static_cast<const AutogradMeta*>((tensor.*found(detail::AutogradMember{})).get());
}

/// As `TensorImpl::requires_grad`, which makes two calls. Only for a view the base is read too.
inline bool requires_grad(const AutogradMeta* autograd) {
    if (autograd == nullptr) return false;
    return autograd->is_view_ ? autograd->requires_grad() : autograd->AutogradMeta::requires_grad();
}

/// No image if sizes and strides are not stored in the tensor itself.
inline TensorImage image_of(const c10::TensorImpl& tensor) {
    using namespace detail;
    const c10::impl::SizesAndStrides& shape = tensor.*(&OpenTensor::sizes_and_strides_);
    const char* const words = shape_of(tensor);
    const char* const kind = kind_of(tensor);
    const char* const end = reinterpret_cast<const char*>(&(tensor.*(&OpenTensor::key_set_))) + kWord;
    // If PyTorch has another layout there is no image.
    if (tensor.is_python_dispatch() || tensor.layout() != c10::kStrided || end - kind != 2 * kWord ||
        shape.size() > TensorImage::kMostDimensions || word_at(words) != shape.size() ||
        reinterpret_cast<const char*>(shape.sizes_data()) != words + kWord ||
        reinterpret_cast<const char*>(shape.strides_data()) != words + kStrides * kWord ||
        tensor.sizes().data() != shape.sizes_data() || tensor.strides().data() != shape.strides_data())
        return {};
    TensorImage image{.is_there = true};
    image.words[0] = shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
        image.words[1 + i] = word_at(words + (1 + i) * kWord);
        image.words[kStrides + i] = word_at(words + (kStrides + i) * kWord);
    }
    image.words[kKind] = word_at(kind);
    image.words[kKind + 1] = word_at(kind + kWord);
    return image;
}

/// Whether the tensor has this image, which must exist.
inline bool looks_like(const c10::TensorImpl& tensor, const TensorImage& image) {
    using namespace detail;
    const char* const words = shape_of(tensor);
    const char* const kind = kind_of(tensor);
    std::uint64_t difference = (word_at(words) ^ image.words[0]) | (word_at(kind) ^ image.words[kKind]) |
                               (word_at(kind + kWord) ^ image.words[kKind + 1]);
    for (std::size_t i = 0; i < image.words[0]; ++i)
        difference |= (word_at(words + (1 + i) * kWord) ^ image.words[1 + i]) |
                      (word_at(words + (kStrides + i) * kWord) ^ image.words[kStrides + i]);
    return difference == 0;
}

}  // namespace stator::torch_room
