/// `stator._testing`: what tests and benchmarks call of the rooms. It is in the library of `stator._C`, so that both
/// see the same globals, and a development build links to that library by this name. Packages are built without this
/// room.
#include "module/make_module.h"

namespace stator {

bool bind_capture(PyObject* module);
bool bind_frames(PyObject* module);
bool bind_graph_for_tests(PyObject* module);
bool bind_guard(PyObject* module);
bool bind_number(PyObject* module);
bool bind_plan(PyObject* module);
bool bind_reached(PyObject* module);
bool bind_shape(PyObject* module);
bool bind_torch(PyObject* module);

}  // namespace stator

namespace {

PyModuleDef kDefinition = {PyModuleDef_HEAD_INIT,
                           "stator._testing",
                           "The rooms of Stator, for tests.",
                           -1,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr,
                           nullptr};

constexpr stator::Binder kBinders[] = {stator::bind_capture, stator::bind_frames, stator::bind_graph_for_tests,
                                       stator::bind_guard,   stator::bind_number, stator::bind_plan,
                                       stator::bind_reached, stator::bind_shape,  stator::bind_torch};

}  // namespace

PyMODINIT_FUNC PyInit__testing() {
    // Its types are made ready when it is imported.
    PyObject* engine = PyImport_ImportModule("stator._C");
    if (engine == nullptr) return nullptr;
    Py_DECREF(engine);
    return stator::make_module(&kDefinition, kBinders);
}
