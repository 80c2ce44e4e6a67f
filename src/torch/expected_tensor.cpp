#include "torch/expected_tensor.h"

#include "torch/implementation.h"

namespace stator::torch_room {

namespace {

/// The tensor and its check decide alone: no base is read.
bool is_plain(const c10::TensorImpl& tensor, const TensorCheck& check) {
    const AutogradMeta* autograd = autograd_of(tensor);
    return check.image.is_there && looks_like(tensor, check.image) &&
           (autograd == nullptr || (!autograd->is_view_ && autograd->requires_grad_ == check.requires_grad));
}

/// Needs `is_plain` of the tensor when it was recorded, with this implementation and these autograd fields. If it did
/// not require grad, a new `grad_fn` would make it require grad.
inline bool requires_gradient_as_before(const AutogradMeta* autograd, bool expected) {
    if (autograd == nullptr) return !expected;
    return autograd->requires_grad_ == expected && (expected || autograd->grad_fn_ == nullptr);
}

}  // namespace

ExpectedTensor expect_again(Borrowed<> object, const TensorCheck& check) {
    const c10::TensorImpl& tensor = *implementation(object.get());
    return {object.get(), &check, &tensor, autograd_of(tensor), is_plain(tensor, check)};
}

bool all_match(std::span<const ExpectedTensor> tensors) {
    for (const ExpectedTensor& expected : tensors) {
        const TensorCheck& check = *expected.check;
        if (Py_TYPE(expected.object) != check.type) return false;
        if (!expected.is_plain) {
            if (!matches(expected.object, check)) return false;
            continue;
        }
        if (implementation(expected.object) != expected.implementation) return false;
        const auto& tensor = *static_cast<const c10::TensorImpl*>(expected.implementation);
        if (!looks_like(tensor, check.image) || autograd_of(tensor) != expected.autograd) return false;
        if (!requires_gradient_as_before(static_cast<const AutogradMeta*>(expected.autograd), check.requires_grad))
            return false;
    }
    return true;
}

}  // namespace stator::torch_room
