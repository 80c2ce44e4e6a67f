/// Functions of the torch room, for tests.
#include <Python.h>

#include "base/boundary.h"
#include "base/python_error.h"
#include "torch/known.h"
#include "torch/measurements.h"
#include "torch/recordings/device_recording.h"

namespace stator {

namespace {

PyObject* role(PyObject*, PyObject* callable) {
    constexpr const char* kWords[] = {
#define ROLE(name, words) words,
#include "torch/roles.def"
#undef ROLE
    };
    return at_boundary([&] { return PyUnicode_FromString(kWords[static_cast<int>(torch_room::role_of(callable))]); });
}

PyObject* set_recorder(PyObject*, PyObject* args) {
    const char* device = nullptr;
    PyObject* recorder = nullptr;
    if (PyArg_ParseTuple(args, "sO:set_recorder", &device, &recorder) == 0) return nullptr;
    return at_boundary([&] {
        torch_room::set_recorder(device, recorder);
        return Ref<>::share(Py_None);
    });
}

PyObject* kernel_time(PyObject*, PyObject* args) {
    const char* name = nullptr;
    PyObject *first = nullptr, *second = nullptr;
    Py_ssize_t count = 0;
    if (!PyArg_ParseTuple(args, "sOOn", &name, &first, &second, &count)) return nullptr;
    return at_boundary([&]() -> Ref<> {
        const double seconds = torch_room::time_kernel(name, first, second, static_cast<std::size_t>(count));
        return checked(PyFloat_FromDouble(seconds));
    });
}

PyObject* peak_memory(PyObject*, PyObject* callable) {
    return at_boundary([&] { return checked(PyLong_FromSsize_t(torch_room::peak_memory(callable))); });
}

PyMethodDef kFunctions[] = {
    {"set_recorder", set_recorder, METH_VARARGS,
     "set_recorder(device, recorder): what records rows of calls on this kind of device; None removes it."},
    {"peak_memory", peak_memory, METH_O, "The most bytes that PyTorch has allocated at a time while a callable runs."},
    {"kernel_time", kernel_time, METH_VARARGS,
     "kernel_time(name, first, second, count): seconds of so many calls of an operator's CPU kernel, in a loop in "
     "C++."},
    {"role", role, METH_O, "How a callable of PyTorch takes part in a trace."},
    {},
};

}  // namespace

bool bind_torch(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
