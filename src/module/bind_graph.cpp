/// Captured graphs as Python objects: the owner of a graph, its conversion to `torch.fx`, its runner.
#include "base/boundary.h"
#include "graph/captured.h"
#include "graph/fx.h"
#include "graph/lazy_meta.h"
#include "graph/runner.h"

namespace stator {

namespace {

graph::Captured* captured_or_complain(PyObject* object) {
    graph::Captured* captured = graph::captured_of(object);
    if (captured == nullptr) PyErr_SetString(PyExc_TypeError, "a captured graph (stator._C.Graph) is expected");
    return captured;
}

PyObject* fx_graph(PyObject*, PyObject* args) {
    PyObject *captured, *owning_module;
    int ordinary = 0;
    if (!PyArg_ParseTuple(args, "OO|p:fx_graph", &captured, &owning_module, &ordinary)) return nullptr;
    if (captured_or_complain(captured) == nullptr) return nullptr;
    auto route = ordinary ? graph::FxRoute::Ordinary : graph::FxRoute::Fastest;
    return at_boundary([&] { return graph::make_fx_graph(captured, owning_module, route); });
}

PyObject* make_runner(PyObject*, PyObject* args) {
    PyObject *object, *module = nullptr;
    int prepared = 0, records = 1, overwrites = 0;
    if (!PyArg_ParseTuple(args, "O|Oppp:make_runner", &object, &module, &prepared, &records, &overwrites))
        return nullptr;
    if (captured_or_complain(object) == nullptr) return nullptr;
    const auto calls = prepared ? graph::Calls::Prepared : graph::Calls::AsCaptured;
    const graph::Recording recording = graph::recording_of(records != 0, overwrites != 0);
    return at_boundary([&] { return graph::make_runner(object, module, calls, recording); });
}

PyMethodDef kFunctions[] = {
    {"fx_graph", fx_graph, METH_VARARGS,
     "fx_graph(graph, owning_module, ordinary=False): the torch.fx.Graph of a captured graph."},
    {"make_runner", make_runner, METH_VARARGS,
     "make_runner(graph, module=None, prepared=False, records=True, overwrites_results=False): a callable that runs "
     "it; with prepared calls of operators, which CUDA graphs may record."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_graph(PyObject* module) {
    return graph::add_captured_type(module) && graph::add_lazy_meta_type(module) && graph::add_runner_type(module) &&
           PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
