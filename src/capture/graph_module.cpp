#include "capture/graph_module.h"

#include <algorithm>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "shape/may_fail.h"
#include "torch/arrays.h"
#include "torch/fake.h"
#include "torch/jagged.h"
#include "torch/tensor.h"
#include "trace/recorder/subgraph_modules.h"

namespace stator {

namespace {

Ref<> dict_of(const std::vector<Attribute>& attributes) {
    Ref<> dict = checked(PyDict_New());
    for (const Attribute& attribute : attributes)
        checked(PyDict_SetItemString(dict.get(), attribute.name.c_str(), attribute.tensor.get()));
    return dict;
}

/// A graph on its way into a module, with what its subgraphs need to know.
struct GraphInModule {
    std::unique_ptr<graph::Graph> graph;
    const std::unordered_map<const graph::Node*, graph::Node*>* copies;  // null for the main graph
    Borrowed<> around = nullptr;                                         // the captured graph around it, or null
    const graph::Node* operation = nullptr;                              // of that graph, which runs it
};

/// Its metadata are in the graph around it, which it keeps alive.
Ref<> make_module(GraphInModule part, Borrowed<> cell, Ref<> attributes) {
    static PyObject* graph_module_class = imported("stator.graph_module", "GraphModule");
    std::vector<BuiltSubgraph> subgraphs = build_subgraphs(*part.graph, part.copies);
    Ref<> captured = graph::make_captured(std::move(part.graph), graph::examples_of(cell));
    if (part.around != nullptr)
        graph::captured_of(captured.get())->set_around(Ref<>::share(part.around.get()), part.operation);
    if (!subgraphs.empty() && !attributes) attributes = checked(PyDict_New());
    for (BuiltSubgraph& subgraph : subgraphs) {
        Ref<> module =
            make_module({std::move(subgraph.graph), &subgraph.copies, captured.get(), subgraph.operation}, cell, {});
        checked(PyDict_SetItemString(attributes.get(), subgraph.attribute.c_str(), module.get()));
    }
    PyObject* arguments[] = {graph_module_class, captured.get(), attributes.get()};
    return checked(PyObject_VectorcallMethod(interned("from_captured"), arguments, attributes ? 3 : 2, nullptr));
}

Ref<> make_module(Trace& trace) {
    static PyObject* mode_cell = imported("stator.fake", "ModeCell");
    Ref<> cell = checked(PyObject_CallNoArgs(mode_cell));
    describe_symbols(cell.get(), trace);
    Ref<> attributes = trace.attributes.empty() ? Ref<>() : dict_of(trace.attributes);
    Ref<> module = make_module({std::move(trace.graph), nullptr}, cell.get(), std::move(attributes));
    Ref<> state = checked(PyObject_GetAttr(module.get(), interned("__dict__")));
    checked(PyDict_SetItem(state.get(), interned("_stator_fake_mode"), cell.get()));
    return module;
}

/// Whether a runner that gets nothing but the graph can run it.
bool stands_alone(const Trace& trace) {
    if (!trace.attributes.empty() || !trace.symbols.empty() || !trace.unbacked.empty()) return false;
    return std::ranges::none_of(trace.graph->nodes(), [](const graph::Node* node) {
        return node->kind == graph::NodeKind::Attribute || pending_of(node) != nullptr;
    });
}

/// Whether a graph of which nothing is used was kept for the backend (`Graph::finish`).
bool is_in_vain(const graph::Graph& graph) {
    const graph::Node* output = graph.nodes().back();
    bool has_outputs = false;
    graph::for_each_input(*output, [&](const graph::Node*) { has_outputs = true; });
    return !has_outputs && std::ranges::none_of(graph.nodes(), [&](const graph::Node* node) {
        return node != output && (node->has_effect || node->may_fail);
    });
}

bool has_work(const graph::Graph& graph) {
    bool has_outputs = false;
    graph::for_each_input(*graph.nodes().back(), [&](const graph::Node*) { has_outputs = true; });
    return has_outputs || std::ranges::any_of(graph.nodes(), [](const graph::Node* node) {
               const bool is_drawn = node->kind == graph::NodeKind::Placeholder && node->has_effect;
               return is_drawn || (node->kind != graph::NodeKind::Placeholder && node->kind != graph::NodeKind::Output);
           });
}

/// Jagged tensors, or tensors of other wrapper subclasses.
template <bool kJagged>
bool has_wrapper(const graph::Result& result) {
    if (result.kind == graph::Result::Kind::Tensor)
        return result.tensor->prototype != nullptr && torch_room::is_jagged(*result.tensor) == kJagged;
    return std::ranges::any_of(result.items, has_wrapper<kJagged>);
}

/// By its name: the module of the class is not imported for graphs without such nodes.
bool is_entry_of_hooks(Borrowed<> target) {
    const char* const name = Py_TYPE(target.get())->tp_name;
    return name[0] == 'E' && std::string_view(name) == "EnterHooks";
}

void describe_nodes(GraphModule& made, const graph::Graph& graph) {
    static PyObject* const lstm = imported("torch", "lstm");
    made.nodes = graph.size();
    made.is_pure = true;
    for (const graph::Node* node : graph.nodes()) {
        const bool is_call = node->kind == graph::NodeKind::Function || node->kind == graph::NodeKind::Method;
        made.calls += is_call && pending_of(node) == nullptr;  // (The module of a subgraph is an attribute.)
        made.is_visible_to_program |= node->is_visible_to_program;
        made.is_pure &= !node->is_random && !node->is_visible_to_program;
        made.has_lstm |= node->target == lstm;
        made.enters_hooks |= node->kind == graph::NodeKind::Function && is_entry_of_hooks(node->target);
        made.has_wrappers |= has_wrapper<false>(node->result);
        made.has_jagged |= has_wrapper<true>(node->result);
        made.has_custom_operations |=
            node->may_fail && (shape::is_custom({node->kind, node->target, node->arguments, node->keywords}) ||
                               (node->kind == graph::NodeKind::Function && torch_room::calls_numpy(node->target)));
    }
}

/// The input as the graph receives it.
Ref<> given(GraphModule& made, const Source& source, const graph::Node& placeholder) {
    const auto number = static_cast<std::uint32_t>(made.inputs.size());
    if (placeholder.result.kind != graph::Result::Kind::Tensor) return Ref<>::share(source.object);
    if (PyFloat_CheckExact(source.object) || PyLong_CheckExact(source.object)) {
        made.wrapped_numbers.push_back(number);
        return torch_room::wrapped_number(source.object);
    }
    if (torch_room::is_plain_tensor(source.object) || placeholder.result.tensor->prototype != nullptr)
        return Ref<>::share(source.object);
    made.of_classes.push_back(number);
    return torch_room::plain_view(source.object);
}

void add_inputs(GraphModule& made, const Trace& trace) {
    for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
        const graph::Node& placeholder = *trace.graph->at(i);
        made.inputs.push_back(given(made, *trace.inputs[i], placeholder));
        const bool is_tensor = placeholder.result.kind == graph::Result::Kind::Tensor;
        const bool is_dynamic =
            is_tensor && (placeholder.result.tensor->is_dynamic() || placeholder.result.tensor->prototype != nullptr);
        const Expression* number = placeholder.result.expression;
        made.numbers.push_back(number == nullptr ? std::string() : print_by_symbols(*number));
        made.dynamic.push_back(is_dynamic ? placeholder.result.tensor : nullptr);
    }
}

void add_symbols(GraphModule& made, const std::vector<Symbol>& symbols) {
    for (const Symbol& symbol : symbols) {
        if (symbol.marked) made.marked_symbols.push_back(made.symbol_paths.size());
        made.symbol_paths.push_back(path(*symbol.variable->source));
    }
}

}  // namespace

std::vector<PyObject*> GraphModule::borrowed_inputs() const {
    std::vector<PyObject*> borrowed;
    for (const Ref<>& input : inputs) borrowed.push_back(input.get());
    return borrowed;
}

GraphModule make_graph_module(Trace& trace, GraphReader reader) {
    GraphModule made;
    describe_nodes(made, *trace.graph);
    add_inputs(made, trace);
    add_symbols(made, trace.symbols);
    made.written = trace.written;
    made.draws = std::move(trace.draws);
    made.depends_on_data = trace.depends_on_data;
    if (!has_work(*trace.graph)) {
        made.nodes = 0;
        return made;
    }
    made.is_in_vain = is_in_vain(*trace.graph);
    made.undo = Undo(*trace.graph, made.borrowed_inputs(), trace.written);
    if (reader == GraphReader::Runner && stands_alone(trace))
        made.captured = graph::make_captured(std::move(trace.graph), {});
    else
        made.module = make_module(trace);
    return made;
}

namespace {

/// Null if the module has none.
PyObject* cell_of(Borrowed<> module) {
    Ref<> state = checked(PyObject_GetAttr(module, interned("__dict__")));
    return PyDict_GetItemWithError(state.get(), interned("_stator_fake_mode"));
}

}  // namespace

namespace {

/// Jagged tensors that the graph makes of these offsets have the ragged size of those that were made of them before.
void note_ragged_size(PyObject* cell, const Ref<>& fake, const Ref<>& input) {
    if (!torch_room::is_plain_tensor(input)) return;
    const Dim size = torch_room::registered_ragged_size(input);
    if (nested_int::is(size)) torch_room::set_ragged_size(fake, graph::make_constant(cell, size));
}

}  // namespace

Ref<> GraphModule::number_example(std::size_t input) const {
    return checked(PyObject_CallMethod(cell_of(module.get()), "lazy_number", "s", numbers[input].c_str()));
}

Ref<> GraphModule::fake_example(std::size_t input) const {
    try {
        torch_room::TensorMeta meta =
            dynamic[input] != nullptr ? *dynamic[input] : torch_room::read_meta(inputs[input].get());
        // A tensor created in inference mode does not imply that the backend runs in it.
        meta.dispatch_keys &= ~torch_room::trait::kInference;
        PyObject* cell = cell_of(module.get());
        if (cell == nullptr) return {};
        Ref<> fake = graph::examples_of(cell).make(cell, meta);
        if (!numbers[input].empty()) {
            Ref<> number = checked(PyObject_CallMethod(cell, "number", "s", numbers[input].c_str()));
            checked(PyObject_SetAttrString(fake.get(), "item_memo", number.get()));
        }
        if (has_jagged && meta.dimensions() == 1) note_ragged_size(cell, fake, inputs[input]);
        return fake;
    } catch (const PythonError&) {
        PyErr_Clear();
        return {};
    }
}

}  // namespace stator
