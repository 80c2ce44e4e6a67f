#include "torch/jagged.h"

#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/imported.h"
#include "base/python_error.h"

namespace stator::torch_room {

namespace {

Ref<> call(PyObject* function, Borrowed<> argument) {
    return checked(PyObject_CallOneArg(function, argument.get()));
}

Dim as_dim(const Ref<>& number) {
    const long long value = PyLong_AsLongLong(number.get());
    if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    return value;
}

}  // namespace

bool is_jagged_class(PyTypeObject* type) {
    static PyTypeObject* known = nullptr;
    if (known != nullptr) return type == known;
    if (std::string_view(type->tp_name) != "NestedTensor") return false;
    Ref<> found = find_imported("torch.nested._internal.nested_tensor", "NestedTensor");
    if (found.get() != reinterpret_cast<PyObject*>(type)) return false;
    known = reinterpret_cast<PyTypeObject*>(found.release());
    return true;
}

Dims sizes_of_jagged(Borrowed<> tensor) {
    static PyObject* const sizes_of = imported("stator.jagged", "sizes_of");
    Ref<> sizes = call(sizes_of, tensor);
    Dims dims;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes.get()); ++i)
        dims.push_back(as_dim(Ref<>::share(PyTuple_GET_ITEM(sizes.get(), i))));
    return dims;
}

Layout jagged_layout() {
    return static_cast<Layout>(c10::kJagged);
}

Ref<> ragged_source(Borrowed<> tensor) {
    static PyObject* const function = imported("stator.jagged", "ragged_source");
    return call(function, tensor);
}

bool has_known_ragged_size(Borrowed<> tensor) {
    static PyObject* const function = imported("stator.jagged", "has_known_ragged_size");
    return call(function, tensor).get() == Py_True;
}

Dim registered_ragged_size(Borrowed<> source) {
    static PyObject* const function = imported("stator.jagged", "registered");
    return as_dim(call(function, source));
}

void set_ragged_size(Borrowed<> fake, Borrowed<> nested_int) {
    static PyObject* const function = imported("stator.jagged", "remember_ragged_size");
    checked(PyObject_CallFunctionObjArgs(function, fake.get(), nested_int.get(), nullptr));
}

Ref<> nested_int_object(Dim ragged_size) {
    static PyObject* const function = imported("stator.jagged", "nested_int");
    return call(function, checked(PyLong_FromLongLong(ragged_size.hint())));
}

Dim nested_int_of(Borrowed<> object) {
    static PyTypeObject* const symbol = imported_class("torch", "SymInt");
    static PyObject* const number_of = imported("stator.jagged", "number_of");
    if (Py_TYPE(object.get()) != symbol) return 0;
    Ref<> number = Ref<>::steal(PyObject_CallOneArg(number_of, object.get()));
    if (!number) PyErr_Clear();
    return number ? as_dim(number) : Dim(0);
}

}  // namespace stator::torch_room
