#include "graph/fx.h"

#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/collector_paused.h"
#include "base/imported.h"
#include "base/python_error.h"
#include "graph/captured.h"
#include "graph/fx_arguments.h"
#include "graph/fx_layout.h"
#include "graph/lazy_meta.h"

namespace stator::graph {

namespace {

Ref<> text(const std::string& string) {
    return checked(PyUnicode_FromStringAndSize(string.data(), static_cast<Py_ssize_t>(string.size())));
}

/// `placeholder` nodes say the class of their tensor or number, as in torch._dynamo.
PyObject* type_expression(const Node& node) {
    if (node.kind != NodeKind::Placeholder) return Py_None;
    const Result& result = node.result;
    if (result.kind == Result::Kind::Tensor && result.tensor->python_class != nullptr)
        return reinterpret_cast<PyObject*>(result.tensor->python_class);
    if (result.kind != Result::Kind::Constant) return Py_None;
    // A number that the function of a higher-order operation takes and does not read.
    if (result.expression == nullptr && result.constant != nullptr && PyLong_CheckExact(result.constant))
        return reinterpret_cast<PyObject*>(&PyLong_Type);
    if (result.expression == nullptr) return Py_None;
    static PyObject* const of_ints = imported("torch", "SymInt");
    static PyObject* const of_floats = imported("torch", "SymFloat");
    return result.expression->is_float ? of_floats : of_ints;
}

PyObject* interned_word(NodeKind kind) {
    static PyObject* const words[] = {
        PyUnicode_InternFromString(fx_word(NodeKind::Placeholder)),
        PyUnicode_InternFromString(fx_word(NodeKind::Function)),
        PyUnicode_InternFromString(fx_word(NodeKind::Method)),
        PyUnicode_InternFromString(fx_word(NodeKind::Attribute)),
        PyUnicode_InternFromString(fx_word(NodeKind::Output)),
    };
    return words[static_cast<std::size_t>(kind)];
}

Ref<> empty_fx_graph(Borrowed<> owning_module) {
    static PyObject* graph_class = nullptr;
    if (graph_class == nullptr) {
        Ref<> module = checked(PyImport_ImportModule("torch.fx.graph"));
        graph_class = checked(PyObject_GetAttrString(module.get(), "Graph")).release();
    }
    return checked(PyObject_CallOneArg(graph_class, owning_module));
}

/// The parts of an empty `torch.fx.Graph` that know its nodes.
struct FxTables {
    Ref<> root;
    Ref<> names_of_nodes;  // dict: node -> name
    Ref<> used_names;      // set
    Ref<> counts;          // dict: base name -> number
    Ref<> lookup;          // defaultdict: (op, target) -> dict of nodes

    /// Reads them; false if they are not of the expected types.
    bool read(Borrowed<> fx_graph) {
        root = Ref<>::steal(PyObject_GetAttrString(fx_graph, "_root"));
        Ref<> names = Ref<>::steal(PyObject_GetAttrString(fx_graph, "_graph_namespace"));
        Ref<> table = Ref<>::steal(PyObject_GetAttrString(fx_graph, "_find_nodes_lookup_table"));
        if (names && table) {
            names_of_nodes = Ref<>::steal(PyObject_GetAttrString(names.get(), "_obj_to_name"));
            used_names = Ref<>::steal(PyObject_GetAttrString(names.get(), "_used_names"));
            counts = Ref<>::steal(PyObject_GetAttrString(names.get(), "_base_count"));
            lookup = Ref<>::steal(PyObject_GetAttrString(table.get(), "table"));
        }
        bool has_all = root && names_of_nodes && used_names && counts && lookup;
        PyErr_Clear();
        return has_all && PyDict_Check(names_of_nodes.get()) && PySet_Check(used_names.get()) &&
               PyDict_Check(counts.get()) && PyDict_Check(lookup.get());
    }
};

/// Fills an empty `torch.fx.Graph` through the fields of its nodes.
class DirectBuilder {
  public:
    DirectBuilder(Borrowed<> captured, Borrowed<> fx_graph, FxTables tables)
        : captured_(captured), fx_graph_(fx_graph), tables_(std::move(tables)) {}

    void build(const Graph& graph) {
        for (const Node* node : graph.nodes()) add(*node);
        close_list();
        write_counts(graph);
        Ref<> length = checked(PyLong_FromSize_t(nodes_.size()));
        checked(PyObject_SetAttrString(fx_graph_, "_len", length.get()));
    }

  private:
    void add(const Node& node) {
        static PyObject* no_arguments = PyTuple_New(0);
        Ref<> made = checked(layout_.node_type->tp_new(layout_.node_type, no_arguments, nullptr));
        PyObject* fx_node = made.get();
        Ref<> name = text(node.name);
        field(fx_node, layout_.graph) = Py_NewRef(fx_graph_);
        field(fx_node, layout_.name) = Py_NewRef(name.get());
        field(fx_node, layout_.op) = Py_NewRef(interned_word(node.kind));
        field(fx_node, layout_.target) = Py_NewRef(node.target);
        field(fx_node, layout_.type) = Py_NewRef(type_expression(node));
        field(fx_node, layout_.repr_fn) = Py_NewRef(Py_None);
        field(fx_node, layout_.input_nodes) = checked(PyDict_New()).release();
        field(fx_node, layout_.users) = checked(PyDict_New()).release();
        field(fx_node, layout_.meta) = make_lazy_meta(captured_, node).release();
        field(fx_node, layout_.args) = arguments_.positional(node, nodes_).release();
        field(fx_node, layout_.kwargs) = arguments_.keywords(node, nodes_).release();
        for_each_input(node, [&](const Node* input) { connect(nodes_[input->index], fx_node); });
        set_sort_key(fx_node);
        append_to_list(fx_node);
        checked(PyDict_SetItem(tables_.names_of_nodes.get(), fx_node, name.get()));
        checked(PySet_Add(tables_.used_names.get(), name.get()));
        checked(PyDict_SetItem(nodes_like(node), fx_node, Py_None));
        nodes_.push_back(fx_node);
    }

    void connect(PyObject* input, PyObject* user) {
        checked(PyDict_SetItem(field(user, layout_.input_nodes), input, Py_None));
        checked(PyDict_SetItem(field(input, layout_.users), user, Py_None));
    }

    /// Sets the sort key that appending gives each node: a tuple with its position.
    void set_sort_key(PyObject* fx_node) {
        Ref<> position = checked(PyLong_FromSize_t(nodes_.size()));
        Ref<> key = checked(PyTuple_Pack(1, position.get()));
        checked(Py_TYPE(layout_.sort_key)->tp_descr_set(layout_.sort_key, fx_node, key.get()));
    }

    /// The list owns a reference in each direction; the last node and the root are joined at the end.
    void append_to_list(PyObject* fx_node) {
        PyObject* last = nodes_.empty() ? tables_.root.get() : nodes_.back();
        Py_XSETREF(field(fx_node, layout_.previous), Py_NewRef(last));
        Py_XSETREF(field(last, layout_.next), Py_NewRef(fx_node));
        // Closed after each node: a collection or an error in between must find a proper list.
        Py_XSETREF(field(fx_node, layout_.next), Py_NewRef(tables_.root.get()));
    }

    void close_list() {
        PyObject* last = nodes_.empty() ? tables_.root.get() : nodes_.back();
        Py_XSETREF(field(tables_.root.get(), layout_.previous), Py_NewRef(last));
    }

    /// The table of the nodes with the same operation, and the same target where it is a function.
    PyObject* nodes_like(const Node& node) {
        PyObject* target = node.kind == NodeKind::Function ? node.target : Py_None;
        PyObject*& known = tables_by_target_[node.kind == NodeKind::Function ? target : interned_word(node.kind)];
        if (known != nullptr) return known;
        Ref<> key = checked(PyTuple_Pack(2, interned_word(node.kind), target));
        // Equal targets need not be identical.
        known = PyDict_GetItemWithError(tables_.lookup.get(), key.get());
        if (known != nullptr) return known;
        if (PyErr_Occurred()) throw PythonError();
        Ref<> nodes = checked(PyDict_New());
        checked(PyDict_SetItem(tables_.lookup.get(), key.get(), nodes.get()));
        return known = nodes.get();
    }

    /// Names that `torch.fx` creates later continue from these counters.
    void write_counts(const Graph& graph) {
        for (const auto& [name, base] : graph.names().bases()) {
            Ref<> number = checked(PyLong_FromLong(base.count));
            checked(PyDict_SetItem(tables_.counts.get(), text(name).get(), number.get()));
        }
    }

    const NodeLayout& layout_ = *node_layout();
    Borrowed<> captured_;
    Borrowed<> fx_graph_;
    FxTables tables_;
    FxArguments arguments_;
    std::vector<PyObject*> nodes_;  // by index; owned by the list
    std::unordered_map<PyObject*, PyObject*> tables_by_target_;
};

/// The same through the methods of `torch.fx`, for a release whose internals are unknown.
void build_ordinarily(Borrowed<> captured, Borrowed<> fx_graph, const Graph& graph) {
    FxArguments arguments;
    std::vector<PyObject*> nodes;
    for (const Node* node : graph.nodes()) {
        Ref<> args = arguments.positional(*node, nodes), kwargs = arguments.keywords(*node, nodes);
        Ref<> fx_node =
            checked(PyObject_CallMethod(fx_graph, "create_node", "sOOOsO", fx_word(node->kind), node->target,
                                        args.get(), kwargs.get(), node->name.c_str(), type_expression(*node)));
        Ref<> meta_name = checked(PyUnicode_InternFromString("meta"));
        checked(PyObject_GenericSetAttr(fx_node.get(), meta_name.get(), make_lazy_meta(captured, *node).get()));
        nodes.push_back(fx_node.get());  // owned by the fx graph
    }
}

}  // namespace

Ref<> make_fx_graph(Borrowed<> captured, Borrowed<> owning_module, FxRoute route) {
    Captured* owner = captured_of(captured);
    STATOR_CHECK(owner != nullptr, "a captured graph is expected");
    CollectorPaused paused;
    owner->graph().ensure_names();
    Ref<> fx_graph = empty_fx_graph(owning_module);
    FxTables tables;
    if (route == FxRoute::Fastest && node_layout() && tables.read(fx_graph))
        DirectBuilder(captured, fx_graph, std::move(tables)).build(owner->graph());
    else
        build_ordinarily(captured, fx_graph, owner->graph());
    return fx_graph;
}

}  // namespace stator::graph
