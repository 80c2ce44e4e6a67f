#include "capture/graph_module.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "shape/may_fail.h"
#include "torch/fake.h"
#include "torch/tensor.h"

namespace stator {

namespace {

/// A FakeTensor in the mode that a cell of stator.fake holds; the mode is created on first use.
Ref<> make_example(PyObject* cell, const torch_room::TensorMeta& meta) {
    Ref<> mode = checked(PyObject_CallMethodNoArgs(cell, interned("get")));
    return torch_room::make_fake(mode.get(), meta);
}

Ref<> dict_of(const std::vector<Attribute>& attributes) {
    Ref<> dict = checked(PyDict_New());
    for (const Attribute& attribute : attributes)
        checked(PyDict_SetItemString(dict.get(), attribute.name.c_str(), attribute.tensor.get()));
    return dict;
}

Ref<> make_module(std::unique_ptr<graph::Graph> graph, const std::vector<Attribute>& attributes) {
    static PyObject* graph_module_class = imported("stator.graph_module", "GraphModule");
    static PyObject* mode_cell = imported("stator.fake", "ModeCell");
    Ref<> cell = checked(PyObject_CallNoArgs(mode_cell));
    Ref<> captured = graph::make_captured(std::move(graph), {make_example, cell});
    PyObject* arguments[] = {graph_module_class, captured.get(), nullptr};
    Ref<> held = attributes.empty() ? Ref<>() : dict_of(attributes);
    arguments[2] = held.get();
    Ref<> module =
        checked(PyObject_VectorcallMethod(interned("from_captured"), arguments, attributes.empty() ? 2 : 3, nullptr));
    Ref<> state = checked(PyObject_GetAttr(module.get(), interned("__dict__")));
    checked(PyDict_SetItem(state.get(), interned("_stator_fake_mode"), cell.get()));
    return module;
}

bool has_work(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) {
        return node->kind != graph::NodeKind::Placeholder && node->kind != graph::NodeKind::Output;
    });
}

void describe_nodes(GraphModule& made, const graph::Graph& graph) {
    static PyObject* const lstm = imported("torch", "lstm");
    made.nodes = graph.size();
    made.is_pure = true;
    for (const graph::Node* node : graph.nodes()) {
        made.is_visible_to_program |= node->is_visible_to_program;
        made.is_pure &= !node->is_random && !node->is_visible_to_program;
        made.has_lstm |= node->target == lstm;
        made.has_custom_operations |=
            node->may_fail && shape::is_custom({node->kind, node->target, node->arguments, node->keywords});
    }
}

void add_inputs(GraphModule& made, const std::vector<Source*>& sources) {
    for (const Source* source : sources) {
        const bool is_tensor = torch_room::is_tensor(source->object);
        const bool is_of_class = is_tensor && !torch_room::is_plain_tensor(source->object);
        if (is_of_class) made.of_classes.push_back(static_cast<std::uint32_t>(made.inputs.size()));
        made.inputs.push_back(is_of_class ? torch_room::plain_view(source->object) : Ref<>::share(source->object));
        made.paths.push_back(is_tensor ? std::string() : path(*source));
    }
}

}  // namespace

std::vector<PyObject*> GraphModule::borrowed_inputs() const {
    std::vector<PyObject*> borrowed;
    for (const Ref<>& input : inputs) borrowed.push_back(input.get());
    return borrowed;
}

GraphModule make_graph_module(Trace& trace) {
    GraphModule made;
    describe_nodes(made, *trace.graph);
    add_inputs(made, trace.inputs);
    made.written = trace.written;
    if (!has_work(*trace.graph)) {
        made.nodes = 0;
        return made;
    }
    made.undo = Undo(*trace.graph, made.borrowed_inputs(), trace.written);
    made.module = make_module(std::move(trace.graph), trace.attributes);
    describe_numbers(made.module.get(), trace.inputs, trace.guards);
    return made;
}

Ref<> make_fake_example(Borrowed<> module, PyObject* input) {
    try {
        // A tensor created in inference mode does not imply that the backend runs in it.
        torch_room::TensorMeta meta = torch_room::read_meta(input);
        meta.dispatch_keys &= ~torch_room::trait::kInference;
        Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
        PyObject* cell = PyDict_GetItemWithError(state.get(), interned("_stator_fake_mode"));
        return cell == nullptr ? Ref<>() : make_example(cell, meta);
    } catch (const PythonError&) {
        PyErr_Clear();
        return {};
    }
}

}  // namespace stator
