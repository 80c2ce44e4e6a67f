/// A finished graph as a Python object. It owns the graph, and what `torch.fx` reads of its nodes later
/// (example values, stack traces, module stacks), each created when it is first read and kept.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "graph/node.h"

namespace stator::graph {

/// Creates a fake tensor from metadata. Plain functions with a Python object that they need (such as a fake mode), so
/// that the garbage collector sees that object.
struct ExampleMaker {
    /// Returns a new reference; throws `PythonError`.
    Ref<> (*make)(PyObject* context, const torch_room::TensorMeta& meta) = nullptr;
    /// A SymInt or SymFloat for a number that changes between calls, likewise. Null where that is its number in this
    /// call.
    Ref<> (*make_number)(PyObject* context, const Expression& number) = nullptr;
    Ref<> context = {};
};

/// The maker of FakeTensors in this mode.
ExampleMaker fake_tensors_in(Borrowed<> fake_mode);

/// The entries of `Node.meta` that are created on demand.
enum class Fact : std::uint8_t { NnModuleStack, SourceFnStack, StackTrace, ExampleValue };
constexpr Fact kFacts[] = {Fact::NnModuleStack, Fact::SourceFnStack, Fact::StackTrace, Fact::ExampleValue};
constexpr std::size_t kFactCount = std::size(kFacts);

/// The interned key of a fact in `Node.meta`.
PyObject* fact_key(Fact fact);

class Captured {
  public:
    Captured(std::unique_ptr<Graph> graph, ExampleMaker maker) : graph_(std::move(graph)), maker_(std::move(maker)) {}

    const Graph& graph() const { return *graph_; }

    /// Whether the node's `meta` has this entry. Costs nothing.
    bool has(const Node& node, Fact fact) const;
    /// The entry, created on the first call. Throws `PythonError`.
    Ref<> fact(const Node& node, Fact fact);

    /// This is a subgraph, which an operation of another captured graph runs. It keeps that graph alive: their nodes
    /// share metadata.
    void set_around(Ref<> around, const Node* operation);

    int traverse(visitproc visit, void* arg) const;
    void forget_facts();

  private:
    Ref<> make(const Node& node, Fact fact);
    Ref<> module_stack(const Node& node);
    Ref<> source_functions(const Node& node);
    Ref<> stack_trace(const Location* location);
    Ref<> example_value(const Node& node);
    Ref<> example_of(const Result& result);

    std::unique_ptr<Graph> graph_;
    ExampleMaker maker_;
    std::vector<Ref<>> facts_;  // kFactCount for each node; empty until the first is read
    std::unordered_map<const Location*, Ref<>> stack_traces_;
    std::unordered_map<const ModulePath*, Ref<>> modules_;  // key and entry of `nn_module_stack`
    Ref<> around_;                                          // the captured graph around a subgraph
    const Node* operation_ = nullptr;                       // of that graph, which runs this one
};

/// The Python object (`stator._C.Graph`) that owns a finished graph. Throws `PythonError`.
Ref<> make_captured(std::unique_ptr<Graph> graph, ExampleMaker maker);
/// The graph that it owns, or null if the object is of another class.
Captured* captured_of(Borrowed<> object);
/// Readies the type and adds it to the module.
bool add_captured_type(PyObject* module);

}  // namespace stator::graph
