/// Functions of the torch room, for tests.
#include <Python.h>

#include "base/boundary.h"
#include "torch/known.h"

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

PyMethodDef kFunctions[] = {
    {"role", role, METH_O, "How a callable of PyTorch takes part in a trace."},
    {},
};

}  // namespace

bool bind_torch(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
