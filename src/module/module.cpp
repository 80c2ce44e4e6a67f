/// `stator._C`: what Python sees. Each room that Python may call has a `bind_` file beside this one.
#include "module/make_module.h"

namespace stator {

bool bind_graph(PyObject* module);
bool bind_run(PyObject* module);
bool bind_tracker(PyObject* module);
bool bind_wrapper(PyObject* module);
bool bind_coroutine(PyObject* module);

}  // namespace stator

namespace {

PyModuleDef kDefinition = {
    PyModuleDef_HEAD_INIT, "stator._C", "The engine of Stator.", -1, nullptr, nullptr, nullptr, nullptr, nullptr};

constexpr stator::Binder kBinders[] = {stator::bind_graph, stator::bind_run, stator::bind_tracker, stator::bind_wrapper,
                                       stator::bind_coroutine};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
    return stator::make_module(&kDefinition, kBinders);
}
