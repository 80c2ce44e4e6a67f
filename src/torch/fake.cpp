#include "torch/fake.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "base/check.h"
#include "base/imported.h"
#include "torch/errors.h"
#include "torch/global_state.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"

namespace stator::torch_room {

namespace {

/// Objects of `torch._subclasses.fake_tensor`, found once.
struct FakeModule {
    PyObject* tensor_class;
    PyObject* mode_class;
};

const FakeModule& fake_module() {
    static FakeModule found = {imported("torch._subclasses.fake_tensor", "FakeTensor"),
                               imported("torch._subclasses.fake_tensor", "FakeTensorMode")};
    return found;
}

PyObject* interned(const char* name) {
    PyObject* string = PyUnicode_InternFromString(name);
    if (string == nullptr) throw PythonError();
    return string;
}

struct Names {
    PyObject* fake_mode = interned("fake_mode");
    // If `fake_device` is a property, the device is stored under another name; before PyTorch 2.13 it is not.
    PyObject* fake_device = interned(
        PyObject_HasAttrString(fake_module().tensor_class, "fake_device") != 0 ? "_fake_device" : "fake_device");
    PyObject* is_param = interned("_is_param");
};

const Names& names() {
    static Names all;
    return all;
}

/// The `__dict__` of a FakeTensor that PyTorch created, without entries that differ between tensors.
Borrowed<> attribute_template(Borrowed<> fake_mode) {
    static PyObject* made = nullptr;
    if (made != nullptr) return made;
    Ref<> element = checked(THPVariable_Wrap(at::detail::empty_meta({0}, at::kFloat)));
    Ref<> device = device_object({});
    Ref<> prototype = checked(PyObject_CallFunctionObjArgs(fake_module().tensor_class, fake_mode.get(), element.get(),
                                                           device.get(), nullptr));
    Ref<> attributes = checked(PyObject_GenericGetDict(prototype.get(), nullptr));
    attributes = checked(PyDict_Copy(attributes.get()));
    checked(PyDict_DelItem(attributes.get(), names().fake_mode));
    checked(PyDict_DelItem(attributes.get(), names().fake_device));
    return made = attributes.release();
}

at::TensorBase empty_meta_like(const TensorMeta& meta) {
    c10::SmallVector<std::int64_t, 8> sizes, strides;
    for (Dim size : meta.sizes) sizes.push_back(size.hint());
    for (Dim stride : meta.strides) strides.push_back(stride.hint());
    auto dtype = static_cast<c10::ScalarType>(meta.dtype);
    auto tensor = at::detail::empty_strided_meta(sizes, strides, dtype);
    if (std::int64_t offset = meta.storage_offset.hint(); offset != 0) {
        // The storage has to reach as far as the view does: PyTorch checks that in as_strided, set_ and resize_.
        tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
        auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
        storage->set_nbytes(storage->nbytes() + static_cast<std::size_t>(offset) * c10::elementSize(dtype));
    }
    return tensor;
}

c10::SymInt symint_of(Borrowed<> number) {
    return pybind11::cast<c10::SymInt>(pybind11::handle(number.get()));
}

at::TensorBase empty_meta_like(const TensorMeta& meta, const NumberOf& number_of) {
    c10::SmallVector<c10::SymInt, 8> sizes, strides;
    for (Dim size : meta.sizes) sizes.push_back(symint_of(number_of(size).get()));
    for (Dim stride : meta.strides) strides.push_back(symint_of(number_of(stride).get()));
    auto dtype = static_cast<c10::ScalarType>(meta.dtype);
    auto tensor = at::detail::empty_strided_symint_meta(sizes, strides, dtype);
    if (meta.storage_offset.hint() != 0) {
        c10::SymInt offset = symint_of(number_of(meta.storage_offset).get());
        auto* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
        storage->set_nbytes(storage->sym_nbytes() + offset * c10::SymInt(c10::elementSize(dtype)));
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    }
    return tensor;
}

/// PyTorch 2.13 counts references to nodes inside them, earlier versions beside them.
template <class Node, class Pointer>
Pointer make_node(const char* message) {
    if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
        return std::make_shared<Node>(message);
    else
        return c10::make_intrusive<Node>(message);
}

torch::autograd::Edge history_without_data(const at::Tensor& tensor) {
    using Pointer = decltype(torch::autograd::Edge::function);
    auto error = make_node<torch::autograd::Error, Pointer>("the history of a tensor without data can't be run");
    error->add_input_metadata(tensor);
    return {std::move(error), 0};
}

void give_history(at::Tensor& tensor, const TensorMeta& meta) {
    if (meta.requires_grad && meta.is_leaf)
        tensor.set_requires_grad(true);
    else if (meta.requires_grad)
        torch::autograd::impl::set_gradient_edge(tensor, history_without_data(tensor));
}

Ref<> numbers_of(const Dims& dims, const NumberOf& number_of) {
    Ref<> numbers = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (std::size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i), number_of(dims[i]).release());
    return numbers;
}

/// The number as a new object of Python: by these aot_autograd knows which input of its graph is the size of a wrapper.
Ref<> renewed(Ref<> number) {
    static PyObject* const renew = imported("stator.symbols", "renewed");
    return PyLong_CheckExact(number.get()) ? std::move(number) : checked(PyObject_CallOneArg(renew, number.get()));
}

/// The metadata of the inner tensors, also where none of their sizes changes.
std::vector<std::pair<Ref<>, TensorMeta>> with_parts(const Prototype& prototype) {
    if (!prototype.parts.empty()) return prototype.parts;
    std::vector<std::pair<Ref<>, TensorMeta>> parts;
    for (Ref<>& name : inner_names(prototype.fake)) {
        Ref<> part = checked(PyObject_GetAttr(prototype.fake.get(), name.get()));
        parts.emplace_back(std::move(name), read_fake_meta(part));
    }
    return parts;
}

/// A wrapper with symbols. The class may compute its sizes from those of the inner tensors: comparing them with the
/// sizes that are expected tells the ShapeEnv that they are equal.
Ref<> symbolic_wrapper(Borrowed<> fake_mode, const TensorMeta& meta, const NumberOf& known_number) {
    static PyObject* const size = interned("size");
    const NumberOf number_of = [&](Dim dim) { return renewed(known_number(dim)); };
    const Prototype& prototype = prototype_of(meta);
    Ref<> inner = checked(PyDict_New());
    for (const auto& [name, part] : with_parts(prototype))
        checked(PyDict_SetItem(inner.get(), name.get(), make_fake(fake_mode, part, number_of).get()));
    Ref<> sizes = numbers_of(meta.sizes, number_of);
    Ref<> strides = numbers_of(meta.strides, number_of);
    Ref<> context;
    if (prototype.make_context) {
        Ref<> numbers = numbers_of(prototype.context_numbers, number_of);
        context = checked(PyObject_CallOneArg(prototype.make_context.get(), numbers.get()));
    }
    Ref<> made = wrapper_like(prototype.fake, inner.get(), sizes.get(), strides.get(), context);
    WithoutTorchFunctions without_torch_functions;
    Ref<> made_sizes = checked(PyObject_CallMethodNoArgs(made.get(), size));
    if (checked(PyObject_RichCompareBool(made_sizes.get(), sizes.get(), Py_EQ)) == 0) {
        PyErr_SetString(PyExc_TypeError, "__tensor_unflatten__ makes a tensor of another size");
        throw PythonError();
    }
    return made;
}

Ref<> make_fake_wrapper(Borrowed<> fake_mode, const TensorMeta& meta, const NumberOf* number_of) {
    Ref<> fake = number_of != nullptr ? symbolic_wrapper(fake_mode, meta, *number_of)
                                      : fake_wrapper(fake_mode, prototype_of(meta).fake);
    return translating_errors([&] {
        at::Tensor tensor = THPVariable_Unpack(fake.get());
        // (`__tensor_unflatten__` may make a leaf that requires a gradient.)
        if (tensor.requires_grad() && tensor.is_leaf() && !(meta.requires_grad && meta.is_leaf))
            tensor.set_requires_grad(false);
        if (!tensor.requires_grad()) give_history(tensor, meta);
        return fake;
    });
}

[[noreturn]] void refuse(const char* what) {
    PyErr_Format(PyExc_NotImplementedError, "no FakeTensor for %s", what);
    throw PythonError();
}

}  // namespace

Ref<> new_fake_mode() {
    return checked(PyObject_CallNoArgs(fake_module().mode_class));
}

Borrowed<> fake_mode_of_thread() {
    // A mode stores that one of its kernels is running, so two threads can't share one.
    static PyObject* const name = PyUnicode_InternFromString("stator fake mode");
    PyObject* of_thread = PyThreadState_GetDict();
    STATOR_CHECK(of_thread != nullptr, "the thread state has no dict");
    if (PyObject* made = PyDict_GetItemWithError(of_thread, name)) return made;
    Ref<> mode = new_fake_mode();
    checked(PyDict_SetItem(of_thread, name, mode.get()));
    return mode.get();
}

bool is_fake(Borrowed<> object) {
    return PyType_IsSubtype(Py_TYPE(object.get()), reinterpret_cast<PyTypeObject*>(fake_module().tensor_class));
}

namespace {

template <class MakeEmpty>
Ref<> make_fake_from(Borrowed<> fake_mode, const TensorMeta& meta, const MakeEmpty& make_empty) {
    if (meta.layout != Layout{}) refuse("a layout other than strided");
    if (meta.python_class != nullptr && meta.python_class != tensor_class() && meta.python_class != parameter_class())
        refuse("a subclass of torch.Tensor");
    constexpr std::uint64_t understood = trait::kConjugate | trait::kNegative | trait::kInference;
    if (meta.dispatch_keys & ~understood) refuse("a tensor with unusual dispatch keys");
    return translating_errors([&] {
        // A tensor created in inference mode is an inference tensor, and one created outside is not.
        WithInferenceMode inference((meta.dispatch_keys & trait::kInference) != 0);
        at::Tensor tensor(make_empty());
        c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
        if (meta.dispatch_keys & trait::kConjugate) impl->_set_conj(true);
        if (meta.dispatch_keys & trait::kNegative) impl->_set_neg(true);
        if (meta.is_wrapped_number) impl->set_wrapped_number(true);
        // As `Tensor._make_subclass` does for `FakeTensor.__new__`.
        impl->set_python_dispatch(true);
        impl->set_python_custom_device(true);
        impl->_change_backend_component_keys(c10::Device(static_cast<c10::DeviceType>(meta.device.kind),
                                                         static_cast<c10::DeviceIndex>(meta.device.index)));
        impl->unsafe_storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();

        Ref<> fake = checked(THPVariable_Wrap(tensor, reinterpret_cast<PyTypeObject*>(fake_module().tensor_class)));
        Ref<> attributes = checked(PyObject_GenericGetDict(fake.get(), nullptr));
        checked(PyDict_Update(attributes.get(), attribute_template(fake_mode)));
        checked(PyDict_SetItem(attributes.get(), names().fake_mode, fake_mode));
        checked(PyDict_SetItem(attributes.get(), names().fake_device, device_object(meta.device).get()));
        if (meta.python_class == parameter_class())
            checked(PyDict_SetItem(attributes.get(), names().is_param, Py_True));

        // Last, because history belongs to the Python tensor.
        give_history(tensor, meta);
        return fake;
    });
}

}  // namespace

Ref<> make_fake(Borrowed<> fake_mode, const TensorMeta& meta) {
    if (meta.prototype != nullptr) return make_fake_wrapper(fake_mode, meta, nullptr);
    return make_fake_from(fake_mode, meta, [&] { return empty_meta_like(meta); });
}

Ref<> make_fake(Borrowed<> fake_mode, const TensorMeta& meta, const NumberOf& number_of) {
    // (A nested int is a symbol wherever a size is one.)
    if (!meta.is_dynamic() && !is_jagged(meta)) return make_fake(fake_mode, meta);
    if (meta.prototype != nullptr) return make_fake_wrapper(fake_mode, meta, &number_of);
    return make_fake_from(fake_mode, meta, [&] { return empty_meta_like(meta, number_of); });
}

TensorMeta read_fake_meta(Borrowed<> fake) {
    if (!is_fake(fake)) return read_meta(fake);
    Ref<> device = checked(PyObject_GetAttr(fake, names().fake_device));
    Ref<> attributes = checked(PyObject_GenericGetDict(fake, nullptr));
    return translating_errors([&] {
        TensorMeta meta = read_meta(fake);
        meta.device = *as_device(device.get());
        meta.dispatch_keys &= ~trait::kPythonDispatch;
        PyObject* is_param = PyDict_GetItemWithError(attributes.get(), names().is_param);
        meta.python_class = is_param == Py_True ? parameter_class() : tensor_class();
        return meta;
    });
}

}  // namespace stator::torch_room
