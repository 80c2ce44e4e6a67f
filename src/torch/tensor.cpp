#include "torch/tensor.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "torch/errors.h"
#include "torch/implementation.h"
#include "torch/jagged.h"
#include "torch/names.h"

namespace stator::torch_room {

namespace {

std::uint64_t traits_of(const c10::TensorImpl& tensor) {
    using c10::DispatchKey;
    c10::DispatchKeySet keys = tensor.key_set();
    std::uint64_t traits = 0;
    if (keys.has(DispatchKey::Conjugate)) traits |= trait::kConjugate;
    if (keys.has(DispatchKey::Negative)) traits |= trait::kNegative;
    if (keys.has(DispatchKey::ZeroTensor)) traits |= trait::kZero;
    if (const_cast<c10::TensorImpl&>(tensor).is_inference()) traits |= trait::kInference;
    if (keys.has(DispatchKey::FuncTorchBatched) || keys.has(DispatchKey::FuncTorchGradWrapper) ||
        keys.has(DispatchKey::BatchedNestedTensor) || keys.has(DispatchKey::Batched))
        traits |= trait::kFunctorch;
    if (keys.has(DispatchKey::Python)) traits |= trait::kPythonDispatch;
    if (keys.has(DispatchKey::Functionalize)) traits |= trait::kFunctional;
    if (keys.has(DispatchKey::NestedTensor)) traits |= trait::kNested;
    return traits;
}

bool has_plain_strides(const c10::TensorImpl& tensor) {
    return tensor.layout() == c10::kStrided && !tensor.key_set().has(c10::DispatchKey::NestedTensor);
}

/// Whether the sizes of a tensor with these keys are those of other tensors that it consists of.
bool has_ragged_size(c10::DispatchKeySet keys) {
    return keys.has(c10::DispatchKey::NestedTensor) && keys.has(c10::DispatchKey::Python);
}

}  // namespace

bool is_plain_tensor(Borrowed<> object) {
    return THPVariable_CheckTypeExact(Py_TYPE(object.get()));
}

bool is_tensor(Borrowed<> object) {
    return is_plain_tensor(object) || PyType_IsSubtype(Py_TYPE(object.get()), tensor_class());
}

std::uint64_t read_traits(Borrowed<> object) {
    return traits_of(*implementation(object.get()));
}

TensorMeta read_meta(Borrowed<> object) {
    STATOR_DCHECK(is_tensor(object), "metadata of an object that is not a tensor");
    return translating_errors([&] {
        const at::Tensor& tensor = THPVariable_Unpack(object);
        const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
        TensorMeta meta;
        const bool is_jagged = torch_room::is_jagged(object);
        if (is_jagged) {
            meta.sizes = sizes_of_jagged(object);
        } else {
            auto sizes = tensor.sizes();
            meta.sizes.assign(sizes.begin(), sizes.end());
        }
        if (!is_jagged && has_plain_strides(impl)) {
            auto strides = tensor.strides();
            meta.strides.assign(strides.begin(), strides.end());
            meta.storage_offset = tensor.storage_offset();
        }
        meta.dtype = static_cast<Dtype>(tensor.scalar_type());
        c10::Device device = tensor.device();
        meta.device = {static_cast<DeviceKind>(device.type()), device.index()};
        meta.layout = is_jagged ? jagged_layout() : static_cast<Layout>(tensor.layout());
        meta.requires_grad = tensor.requires_grad();
        meta.is_leaf = tensor.is_leaf();
        meta.dispatch_keys = traits_of(impl);
        meta.is_wrapped_number = impl.is_wrapped_number();
        meta.python_class = Py_TYPE(object.get());
        return meta;
    });
}

Ref<> plain_view(Borrowed<> object) {
    return translating_errors([&] { return checked(THPVariable_Wrap(THPVariable_Unpack(object).alias())); });
}

Ref<> wrapped_number(Borrowed<> number) {
    return translating_errors([&]() -> Ref<> {
        c10::InferenceMode inference(false);
        const bool is_float = PyFloat_Check(number.get()) != 0;
        at::Tensor tensor = at::detail::empty_cpu({}, is_float ? at::kDouble : at::kLong);
        if (is_float)
            *static_cast<double*>(tensor.mutable_data_ptr()) = PyFloat_AS_DOUBLE(number.get());
        else
            *static_cast<std::int64_t*>(tensor.mutable_data_ptr()) = PyLong_AsLongLong(number.get());
        return Ref<>::steal(THPVariable_Wrap(tensor));
    });
}

Ref<> copy_with_own_memory(Borrowed<> object) {
    return translating_errors([&]() -> Ref<> {
        const at::Tensor& tensor = THPVariable_Unpack(object);
        const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
        if (!has_plain_strides(impl) || tensor.is_conj() || tensor.is_neg() || tensor.numel() == 0) return {};
        c10::InferenceMode inference(false);
        std::int64_t length = 1;
        for (std::int64_t i = 0; i < tensor.dim(); ++i) length += (tensor.size(i) - 1) * tensor.stride(i);
        at::Tensor memory;
        {
            c10::NoGradGuard no_grad;
            memory = tensor.detach().as_strided({length}, {1}, tensor.storage_offset()).clone();
        }
        if (tensor.requires_grad()) {
            memory.set_requires_grad(true);
            c10::AutoGradMode with_gradients(true);
            if (!tensor.is_leaf()) memory = memory.clone();
        }
        // (A view of a leaf is not a leaf.)
        const bool is_leaf = tensor.is_leaf();
        c10::AutoGradMode records(!is_leaf);
        at::Tensor copy = (is_leaf ? memory.detach() : memory).as_strided(tensor.sizes(), tensor.strides(), 0);
        if (is_leaf && tensor.requires_grad()) copy.set_requires_grad(true);
        return checked(THPVariable_Wrap(copy));
    });
}

const void* storage_identity(Borrowed<> object) {
    const c10::TensorImpl& impl = *implementation(object);
    return impl.has_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

std::pair<std::uintptr_t, std::uintptr_t> memory_of(Borrowed<> object) {
    if (!is_tensor(object)) return {0, 0};
    const c10::TensorImpl& impl = *implementation(object);
    if (!has_plain_strides(impl) || !impl.has_storage() || impl.numel() == 0) return {0, 0};
    auto data = reinterpret_cast<std::uintptr_t>(impl.unsafe_storage().unsafeGetStorageImpl()->data());
    if (data == 0) return {0, 0};
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < impl.dim(); ++i) last += (impl.sizes()[i] - 1) * impl.strides()[i];
    auto width = static_cast<std::uintptr_t>(impl.itemsize());
    std::uintptr_t begin = data + static_cast<std::uintptr_t>(impl.storage_offset()) * width;
    return {begin, begin + static_cast<std::uintptr_t>(last + 1) * width};
}

std::int64_t storage_offset(Borrowed<> object) {
    if (!is_tensor(object)) return -1;
    const c10::TensorImpl& impl = *implementation(object);
    return has_plain_strides(impl) && impl.has_storage() ? impl.storage_offset() : -1;
}

TensorCheck make_check(Borrowed<> object, const DynamicSizes* dynamic) {
    return translating_errors([&] {
        const c10::TensorImpl& tensor = *implementation(object);
        TensorCheck check;
        check.type = Py_TYPE(object.get());
        check.dispatch_keys = tensor.key_set().raw_repr();
        check.dtype = static_cast<Dtype>(tensor.dtype().toScalarType());
        c10::Device device = tensor.device();
        check.device = {static_cast<DeviceKind>(device.type()), device.index()};
        check.requires_grad = tensor.requires_grad();
        if (has_ragged_size(tensor.key_set())) {
            check.has_strides = false;
            return check;
        }
        check.has_strides = has_plain_strides(tensor);
        auto sizes = tensor.sizes();
        check.dimensions = static_cast<std::uint32_t>(sizes.size());
        check.sizes_and_strides.assign(sizes.begin(), sizes.end());
        if (check.has_strides) {
            auto strides = tensor.strides();
            check.sizes_and_strides.insert(check.sizes_and_strides.end(), strides.begin(), strides.end());
        }
        if (dynamic != nullptr)
            check.dynamic = *dynamic;
        else
            check.image = image_of(tensor);
        return check;
    });
}

std::int64_t layout_number(Borrowed<> object, std::size_t number) {
    if (!is_tensor(object)) return -1;
    if (number == kStorageOffset) return storage_offset(object);
    const c10::TensorImpl& tensor = *implementation(object);
    auto numbers = number < kFirstStride ? tensor.sizes() : tensor.strides();
    const std::size_t dimension = number % kFirstStride;
    return dimension < numbers.size() ? numbers[dimension] : -1;
}

std::string print_layout_number(std::size_t number) {
    if (number == kStorageOffset) return ".storage_offset()";
    return (number < kFirstStride ? ".size()[" : ".stride()[") + std::to_string(number % kFirstStride) + "]";
}

std::vector<std::size_t> by_stride(std::span<const std::int64_t> strides) {
    std::vector<std::size_t> order(strides.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return strides[i]; });
    return order;
}

std::vector<std::int8_t> followed_by_strides(std::span<const std::int64_t> sizes,
                                             std::span<const std::int64_t> strides) {
    std::vector<std::int8_t> followed(strides.size(), -1);
    const std::vector<std::size_t> order = by_stride(strides);
    for (std::size_t at = 0; at < order.size(); ++at)
        for (std::size_t before = at; before-- > 0;) {
            const std::size_t other = order[before];
            std::int64_t product = 0;
            if (strides[other] == 0 || __builtin_mul_overflow(sizes[other], strides[other], &product)) continue;
            if (product != strides[order[at]]) continue;
            followed[order[at]] = static_cast<std::int8_t>(other);
            break;
        }
    return followed;
}

AutogradState read_autograd_state(Borrowed<> object) {
    if (!is_tensor(object)) return {};
    const AutogradMeta* autograd = autograd_of(*implementation(object));
    if (autograd == nullptr) return {};
    bool needs_gradient = requires_grad(autograd);
    AutogradState state;
    state.is_leaf = autograd->grad_fn_ == nullptr;
    state.refuses_writes = state.is_leaf && needs_gradient;
    if (!autograd->is_view_) return state;
    const auto& view = static_cast<const torch::autograd::DifferentiableViewMeta&>(*autograd);
    if (!view.has_bw_view()) return state;
    state.is_loose_view = view.get_creation_meta() != torch::autograd::CreationMeta::DEFAULT;
    auto version = static_cast<std::uint32_t>(view.get_attr_version());
    state.is_given_up =
        state.is_loose_view && needs_gradient && version != implementation(object)->version_counter().current_version();
    const AutogradMeta* base = autograd_of(*view.get_backward_view().base_.unsafeGetTensorImpl());
    bool is_of_leaf = base == nullptr || base->grad_fn_ == nullptr;
    state.refuses_writes = state.refuses_writes || state.is_loose_view || (needs_gradient && is_of_leaf);
    return state;
}

namespace {

bool are_equal(const std::int64_t* left, const std::int64_t* right, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if (left[i] != right[i]) return false;
    return true;
}

/// Sizes and strides, where some of them change between calls.
bool matches_dynamic(const c10::TensorImpl& tensor, const TensorCheck& check) {
    auto sizes = tensor.sizes(), strides = tensor.strides();
    if (sizes.size() != check.dimensions) return false;
    const std::int64_t* expected = check.sizes_and_strides.data();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (check.dynamic.is_dynamic(i) ? sizes[i] < check.dynamic.least(i) : sizes[i] != expected[i]) return false;
        if (check.dynamic.has_dynamic_stride(i)) {
            if (strides[i] < 2) return false;
            continue;
        }
        const int follows = check.dynamic.stride_follows[i];
        std::int64_t stride = expected[sizes.size() + i];
        if (follows >= 0 && __builtin_mul_overflow(sizes[static_cast<std::size_t>(follows)],
                                                   strides[static_cast<std::size_t>(follows)], &stride))
            return false;
        if (strides[i] != stride) return false;
    }
    return true;
}

inline bool matches_fixed(const c10::TensorImpl& tensor, const TensorCheck& check) {
    auto sizes = tensor.sizes();
    const std::int64_t* expected = check.sizes_and_strides.data();
    if (sizes.size() != check.dimensions || !are_equal(sizes.data(), expected, sizes.size())) return false;
    return !check.has_strides || are_equal(tensor.strides().data(), expected + sizes.size(), sizes.size());
}

/// All but the class and `requires_grad`. Throws where a subclass computes its sizes and can't.
inline bool matches_or_throws(const c10::TensorImpl& tensor, const TensorCheck& check) {
    // The key set is compared first: it tells whether this tensor stores sizes and strides itself.
    if (tensor.key_set().raw_repr() != check.dispatch_keys) return false;
    const bool has_sizes = !has_ragged_size(tensor.key_set());
    if (has_sizes && !(check.dynamic.any() ? matches_dynamic(tensor, check) : matches_fixed(tensor, check)))
        return false;
    if (!tensor.dtype().isScalarType(static_cast<c10::ScalarType>(check.dtype))) return false;
    c10::Device device = tensor.device();
    return device.index() == check.device.index && static_cast<DeviceKind>(device.type()) == check.device.kind;
}

template <class Test>
bool false_if_it_throws(Test test) {
    try {
        return test();
    } catch (...) {
        PyErr_Clear();
        return false;
    }
}

}  // namespace

bool matches(Borrowed<> object, const TensorCheck& check) {
    if (Py_TYPE(object.get()) != check.type) return false;
    return false_if_it_throws([&] {
        const c10::TensorImpl& tensor = *implementation(object);
        return matches_or_throws(tensor, check) && requires_grad(autograd_of(tensor)) == check.requires_grad;
    });
}

namespace {

/// Strides that differ from what is expected and do not follow from sizes, before or now.
void add_changed_strides(const c10::TensorImpl& tensor, const TensorCheck& check, std::vector<std::size_t>& changed) {
    const std::span<const std::int64_t> expected = check.sizes_and_strides;
    const auto old_sizes = expected.first(check.dimensions), old_strides = expected.subspan(check.dimensions);
    const std::span<const std::int64_t> sizes(tensor.sizes().data(), check.dimensions);
    const std::span<const std::int64_t> strides(tensor.strides().data(), check.dimensions);
    if (by_stride(old_strides) != by_stride(strides)) return;
    const auto before = followed_by_strides(old_sizes, old_strides), now = followed_by_strides(sizes, strides);
    for (std::size_t i = 0; i < check.dimensions; ++i)
        if (!check.dynamic.has_dynamic_stride(i) && old_strides[i] != strides[i] && (before[i] != now[i] || now[i] < 0))
            changed.push_back(kFirstStride + i);
}

}  // namespace

std::vector<std::size_t> changed_layout(Borrowed<> object, const TensorCheck& check) {
    std::vector<std::size_t> changed;
    if (Py_TYPE(object.get()) != check.type || !check.has_strides || check.dimensions > DynamicSizes::kMostDimensions)
        return changed;
    const c10::TensorImpl& tensor = *implementation(object);
    if (computes_sizes(tensor)) return changed;
    c10::Device device = tensor.device();
    if (tensor.key_set().raw_repr() != check.dispatch_keys || tensor.sizes().size() != check.dimensions ||
        !tensor.dtype().isScalarType(static_cast<c10::ScalarType>(check.dtype)) ||
        device.index() != check.device.index || static_cast<DeviceKind>(device.type()) != check.device.kind ||
        requires_grad(autograd_of(tensor)) != check.requires_grad)
        return changed;
    for (std::size_t i = 0; i < check.dimensions; ++i)
        if (!check.dynamic.is_dynamic(i) && tensor.sizes()[i] != check.sizes_and_strides[i]) changed.push_back(i);
    add_changed_strides(tensor, check, changed);
    return changed;
}

bool may_run_python(const TensorCheck& check) {
    return c10::DispatchKeySet(c10::DispatchKeySet::RAW, check.dispatch_keys).has(c10::DispatchKey::Python);
}

std::string explain_mismatch(Borrowed<> object, const TensorCheck& check) {
    if (Py_TYPE(object.get()) != check.type)
        return "type is " + type_name(Py_TYPE(object.get())) + ", was " + type_name(check.type);
    if (matches(object, check)) return "";
    TensorCheck now;
    try {
        now = make_check(object);
    } catch (const PythonError&) {
        PyErr_Clear();
        return "sizes can't be read";
    }
    auto differs = [](const std::string& what, const std::string& is, const std::string& was) {
        return what + " is " + is + ", was " + was;
    };
    auto yes_no = [](bool value) -> std::string { return value ? "True" : "False"; };
    if (now.dtype != check.dtype) return differs("dtype", dtype_name(now.dtype), dtype_name(check.dtype));
    if (now.device != check.device) return differs("device", device_name(now.device), device_name(check.device));
    if (now.requires_grad != check.requires_grad)
        return differs("requires_grad", yes_no(now.requires_grad), yes_no(check.requires_grad));
    if (now.dimensions != check.dimensions)
        return differs("number of dimensions", std::to_string(now.dimensions), std::to_string(check.dimensions));
    for (std::size_t i = 0; i < now.sizes_and_strides.size() && i < check.sizes_and_strides.size(); ++i) {
        if (now.sizes_and_strides[i] == check.sizes_and_strides[i]) continue;
        bool is_size = i < now.dimensions;
        if (is_size && check.dynamic.is_dynamic(i)) {
            if (now.sizes_and_strides[i] >= 2) continue;
            return "size of dimension " + std::to_string(i) + " is " + std::to_string(now.sizes_and_strides[i]) +
                   ", was at least 2";
        }
        if (!is_size && check.dynamic.has_dynamic_stride(i - now.dimensions)) {
            if (now.sizes_and_strides[i] >= 2) continue;
            return "stride of dimension " + std::to_string(i - now.dimensions) + " is " +
                   std::to_string(now.sizes_and_strides[i]) + ", was at least 2";
        }
        if (!is_size && check.dynamic.any()) {
            const int follows = check.dynamic.stride_follows[i - now.dimensions];
            if (follows >= 0 && now.sizes_and_strides[i] ==
                                    now.sizes_and_strides[static_cast<std::size_t>(follows)] *
                                        now.sizes_and_strides[now.dimensions + static_cast<std::size_t>(follows)])
                continue;
        }
        std::string what = (is_size ? "size of dimension " : "stride of dimension ") +
                           std::to_string(is_size ? i : i - now.dimensions);
        return differs(what, std::to_string(now.sizes_and_strides[i]), std::to_string(check.sizes_and_strides[i]));
    }
    return differs("dispatch keys", c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, now.dispatch_keys)),
                   c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, check.dispatch_keys)));
}

std::string print(const TensorCheck& check) {
    std::string text = type_name(check.type) + " " + short_dtype_name(check.dtype);
    auto list = [&](std::size_t start, const auto& is_any) {
        std::vector<std::string> part;
        for (std::size_t i = 0; i < check.dimensions; ++i)
            part.push_back(is_any(i) ? "?" : std::to_string(check.sizes_and_strides[start + i]));
        return "[" + joined(part, [](const std::string& value) { return value; }) + "]";
    };
    const DynamicSizes& dynamic = check.dynamic;
    text += list(0, [&](std::size_t i) { return dynamic.is_dynamic(i); });
    if (check.has_strides)
        text += " strides " + list(check.dimensions, [&](std::size_t i) {
                    return dynamic.has_dynamic_stride(i) || (dynamic.any() && dynamic.stride_follows[i] >= 0);
                });
    text += " " + device_name(check.device);
    if (check.requires_grad) text += " requires_grad";
    return text;
}

}  // namespace stator::torch_room
