/// `stator._frames`: the rooms that need no PyTorch, for their tests on every supported Python.
#include "testing/bind_frames.h"

namespace {

PyModuleDef kDefinition = {PyModuleDef_HEAD_INIT,
                           "stator._frames",
                           "Frames and bytecode, for tests.",
                           -1,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__frames() {
    PyObject* module = PyModule_Create(&kDefinition);
    if (module != nullptr && !stator::bind_frames(module)) Py_CLEAR(module);
    return module;
}
