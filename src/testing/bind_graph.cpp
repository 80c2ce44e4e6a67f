/// Graphs for tests: one that a test writes itself, and how `torch.fx` nodes are built.
#include "base/boundary.h"
#include "graph/fx_layout.h"
#include "testing/graph_builder.h"

namespace stator {

namespace {

PyObject* knows_fx_layout(PyObject*, PyObject*) {
    return at_boundary([] { return Ref<>::share(graph::node_layout() ? Py_True : Py_False); });
}

PyMethodDef kFunctions[] = {
    {"knows_fx_layout", knows_fx_layout, METH_NOARGS, "Whether torch.fx nodes are built through their fields."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_graph_for_tests(PyObject* module) {
    return add_graph_builder_type(module) && PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
