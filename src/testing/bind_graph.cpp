/// Graphs for tests: one that a test writes itself, and how `torch.fx` nodes are built.
#include "base/boundary.h"
#include "graph/fx_layout.h"
#include "graph/program.h"
#include "testing/graph_builder.h"

namespace stator {

namespace {

PyObject* knows_fx_layout(PyObject*, PyObject*) {
    return at_boundary([] { return Ref<>::share(graph::node_layout() ? Py_True : Py_False); });
}

PyObject* observe_first_runs(PyObject*, PyObject* observes) {
    return at_boundary([&] {
        graph::observe_first_runs(observes == Py_True);
        return Ref<>::share(Py_None);
    });
}

PyMethodDef kFunctions[] = {
    {"knows_fx_layout", knows_fx_layout, METH_NOARGS, "Whether torch.fx nodes are built through their fields."},
    {"observe_first_runs", observe_first_runs, METH_O,
     "Whether programs of prepared calls observe their first run, and not the second."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_graph_for_tests(PyObject* module) {
    return add_graph_builder_type(module) && PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
