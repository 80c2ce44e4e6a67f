#include "torch/arrays.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/errors.h"

namespace stator::torch_room {

namespace {

/// The fields of an array, which numpy guarantees to extensions that are compiled without its headers' version.
struct ArrayFields {
    PyObject_HEAD char* data;
    int dimension_count;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;
    PyObject* base;
    PyObject* dtype;
    int flags;
};

constexpr int kAligned = 0x0100, kWriteable = 0x0400, kIsTemporaryCopy = 0x2000;

int& flags_of(Borrowed<> array) {
    return reinterpret_cast<ArrayFields*>(array.get())->flags;
}

bool is_numpy_class(PyTypeObject* type, const char* name) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && std::strcmp(type->tp_name, name) == 0;
}

struct ScalarClass {
    std::string_view name;
    at::ScalarType dtype;
};

constexpr ScalarClass kScalarClasses[] = {
    {"float64", at::kDouble}, {"float32", at::kFloat}, {"float16", at::kHalf}, {"int64", at::kLong},
    {"int32", at::kInt},      {"int16", at::kShort},   {"int8", at::kChar},    {"uint8", at::kByte},
    {"bool", at::kBool},      {"bool_", at::kBool},
};

/// Null for other classes.
const ScalarClass* scalar_class(PyTypeObject* type) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || std::strncmp(type->tp_name, "numpy.", 6) != 0) return nullptr;
    for (const ScalarClass& one : kScalarClasses)
        if (one.name == type->tp_name + 6) return &one;
    return nullptr;
}

/// A numpy scalar has its number right after the object header.
at::Tensor tensor_of_scalar(PyObject* scalar, const ScalarClass& known) {
    at::Tensor tensor = at::detail::empty_cpu({}, known.dtype);
    std::memcpy(tensor.mutable_data_ptr(), reinterpret_cast<const char*>(scalar) + sizeof(PyObject), tensor.itemsize());
    return tensor;
}

Ref<> array_over(PyObject* tensor) {
    if (!THPVariable_Check(tensor)) {
        PyErr_SetString(PyExc_TypeError, "a tensor is expected");
        throw PythonError();
    }
    return translating_errors(
        [&] { return checked(torch::utils::tensor_to_numpy(THPVariable_Unpack(tensor), false)); });
}

template <class Make>
PyObject* without_exceptions(Make make) {
    try {
        return make().release();
    } catch (const PythonError&) {
        return nullptr;
    }
}

PyObject* array(PyObject*, PyObject* tensor) {
    return without_exceptions([&] { return array_over(tensor); });
}

PyObject* read_only_array(PyObject*, PyObject* tensor) {
    return without_exceptions([&] {
        Ref<> made = array_over(tensor);
        flags_of(made.get()) &= ~kWriteable;
        return made;
    });
}

PyObject* array_scalar(PyObject*, PyObject* tensor) {
    return without_exceptions([&] {
        Ref<> made = array_over(tensor), no_index = checked(PyTuple_New(0));
        return checked(PyObject_GetItem(made.get(), no_index.get()));
    });
}

PyMethodDef kArray = {"array_of_tensor", array, METH_O, nullptr};
PyMethodDef kReadOnlyArray = {"read_only_array_of_tensor", read_only_array, METH_O, nullptr};
PyMethodDef kArrayScalar = {"scalar_of_tensor", array_scalar, METH_O, nullptr};

}  // namespace

bool is_array_class(PyTypeObject* type) {
    static PyTypeObject* known = nullptr;
    if (known == nullptr && is_numpy_class(type, "numpy.ndarray")) known = type;
    return type == known;
}

bool is_writeable(Borrowed<> array) {
    return (flags_of(array) & kWriteable) != 0;
}

Ref<> tensor_of_array(Borrowed<> object, bool writeable) {
    const ScalarClass* scalar = nullptr;
    if (is_array(object)) {
        const int flags = flags_of(object);
        if (((flags & kWriteable) != 0) != writeable || (flags & kAligned) == 0 || (flags & kIsTemporaryCopy) != 0)
            return {};
    } else if (scalar = writeable ? nullptr : scalar_class(Py_TYPE(object.get())); scalar == nullptr) {
        return {};
    }
    try {
        return translating_errors([&] {
            c10::InferenceMode inference(false);
            return checked(THPVariable_Wrap(scalar != nullptr ? tensor_of_scalar(object.get(), *scalar)
                                                              : torch::utils::tensor_from_numpy(object.get(), false)));
        });
    } catch (const PythonError&) {
        PyErr_Clear();
        return {};
    }
}

bool calls_numpy(Borrowed<> target) {
    constexpr std::string_view kWrappers = "torch._dynamo.utils.numpy_";
    if (!PyFunction_Check(target.get()))
        return std::strncmp(Py_TYPE(target.get())->tp_name, "numpy_", 6) == 0 &&
               type_name(Py_TYPE(target.get())).starts_with(kWrappers);
    auto* function = reinterpret_cast<PyFunctionObject*>(target.get());
    return function->func_module != nullptr && PyUnicode_Check(function->func_module) &&
           utf8(function->func_module) == "torch._dynamo.utils" && utf8(function->func_name).starts_with("numpy_");
}

bool raises_numpy_errors() {
    // A context variable that holds another object after every change; the last one that was fine is kept.
    static PyObject* const variable = [] {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("numpy._core.umath"));
        Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "_extobj_contextvar")) : Ref<>();
        PyErr_Clear();
        return found && PyContextVar_CheckExact(found.get()) ? found.release() : nullptr;
    }();
    static PyObject* fine = nullptr;
    PyObject* current = nullptr;
    if (variable != nullptr && PyContextVar_Get(variable, nullptr, &current) != 0) PyErr_Clear();
    Ref<> held = Ref<>::steal(current);
    if (held && held.get() == fine) return false;
    static PyObject* const raises = imported("stator.arrays", "raises_errors");
    if (checked(PyObject_CallNoArgs(raises)).get() == Py_True) return true;
    if (held) Py_XSETREF(fine, held.release());
    return false;
}

bool has_array_dtype(Dtype dtype) {
    return array_dtype(dtype) != nullptr;
}

PyObject* array_dtype(Dtype dtype) {
    static auto* const known = new std::unordered_map<int, PyObject*>();
    auto [found, is_new] = known->try_emplace(static_cast<int>(dtype), nullptr);
    if (!is_new) return found->second;
    try {
        Ref<> empty = translating_errors([&] {
            c10::InferenceMode inference(false);
            at::Tensor tensor = at::detail::empty_cpu({0}, static_cast<c10::ScalarType>(dtype));
            return checked(torch::utils::tensor_to_numpy(tensor, false));
        });
        found->second = Py_NewRef(reinterpret_cast<ArrayFields*>(empty.get())->dtype);
    } catch (const PythonError&) {
        PyErr_Clear();
    }
    return found->second;
}

PyObject* array_function() {
    static PyObject* const function = PyCFunction_New(&kArray, nullptr);
    return function;
}

PyObject* read_only_array_function() {
    static PyObject* const function = PyCFunction_New(&kReadOnlyArray, nullptr);
    return function;
}

PyObject* array_scalar_function() {
    static PyObject* const function = PyCFunction_New(&kArrayScalar, nullptr);
    return function;
}

}  // namespace stator::torch_room
