/// Graphs of their own, into which operations of the program are captured: deferred graphs, which run later than the
/// graph in which the program requests them, in a backward pass; and subgraphs, which a higher-order operation of the
/// graph runs, such as the branches of `torch.cond`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "value/value.h"

namespace stator {

struct TensorValue;
struct Effect;

/// The flags of graph::Node, for a graph as a whole.
struct GraphFlags {
    bool has_effect = false;
    bool is_random = false;
    bool may_fail = false;
    bool is_visible_to_program = false;
    bool is_lasting = false;

    void add(const GraphFlags& other) {
        has_effect |= other.has_effect;
        is_random |= other.is_random;
        may_fail |= other.may_fail;
        is_visible_to_program |= other.is_visible_to_program;
        is_lasting |= other.is_lasting;
    }
};

struct DeferredGraph : GraphFlags {
    enum class Kind : std::uint8_t {
        Backward,    // a backward function or a hook
        Recomputed,  // a checkpointed function: it runs in the forward pass, and again in the backward pass
        Subgraph,    // a function that a higher-order operation runs
    };
    PyObject* runner = nullptr;       // runs the graph
    std::vector<TensorValue*> reads;  // tensors from before it began, which it takes as inputs after its own
    /// Describes something that the program's code would read when the graph runs and that may have changed by then: a
    /// global variable, an attribute, ... Empty if there is none.
    std::string rereads;
};

/// The operations of a function that a higher-order operation will run. Nodes are those of the graph around it.
struct Subgraph : GraphFlags {
    std::vector<graph::Node*> nodes;
    std::vector<std::string> variables;  // that the nodes are named after; empty for others
    std::vector<graph::Node*> inputs;    // its own, in order
    std::vector<graph::Node*> lifted;    // what it reads of the graph around it, in the order of first use
    std::vector<graph::Argument> outputs;
};

/// How the module of a subgraph is made.
struct SubgraphModule {
    std::string name;  // of the attribute, without its number
    /// What it takes of the graph around it after its own inputs; and what follows the name of each.
    std::vector<graph::Node*> operands;
    std::vector<const char*> suffixes = {};     // empty: none
    std::vector<std::string> input_names = {};  // of its own inputs
    /// How many operands belong to each group that is sorted by name, as torch._dynamo does. They are the last items of
    /// the operation's last argument. Empty: none are.
    std::vector<std::size_t> sorted = {};
    bool returns_one = false;  // its output itself, instead of a tuple
    bool is_shared = false;    // an equal subgraph that was added before is used instead
    graph::Argument::Kind output_kind = graph::Argument::Kind::Tuple;
};

/// The module of a subgraph in the graph: the node that gives it, and the name of the attribute.
struct AddedModule {
    graph::Node* node;
    std::string attribute;
};

/// Captures such graphs. `DeferredGraphCapture` in the trace room implements it.
class DeferredGraphs {
  public:
    virtual ~DeferredGraphs() = default;

    /// What a graph may change of tensors from before. `Anything`: it runs exactly once, here.
    enum class Writes : std::uint8_t { Nothing, Data, Anything };
    /// Operations go into a graph of their own from now on. In a deferred graph numbers are constants, and no other
    /// graph may begin; subgraphs may be nested.
    virtual void begin(DeferredGraph::Kind kind, Writes writes = Writes::Nothing) = 0;
    /// Whether such a graph is being captured.
    virtual bool is_open() const = 0;
    /// Whether it is a deferred graph.
    virtual bool runs_later() const = 0;
    /// Whether a tensor was made in the innermost open graph.
    virtual bool is_made_inside(const TensorValue* tensor) const = 0;
    /// Whether these side effects of the open deferred graph are assignments to attributes that it has put back.
    virtual bool put_back(std::span<const Effect> effects) = 0;
    /// Ends the deferred graph. `inputs` were made since `begin`; each output is a tensor or None.
    virtual DeferredGraph end(std::span<TensorValue* const> inputs, std::span<Value* const> outputs) = 0;

    /// Adds a node that gives these tensors an autograd history. To the program they stay the same objects.
    virtual void emit_history(Borrowed<> function, const Arguments& arguments,
                              std::span<TensorValue* const> results) = 0;
    /// Adds a node that runs a recomputed graph in the forward pass, and returns these tensors from it.
    virtual void emit_recomputed(Borrowed<> function, const Arguments& arguments, std::span<TensorValue* const> results,
                                 const DeferredGraph& recomputed) = 0;

    // --- subgraphs

    /// A tensor that is an input of the open subgraph.
    virtual TensorValue* add_input(const torch_room::TensorMeta& meta) = 0;
    /// The same for a number, which the function has read already.
    virtual void add_unused_input(Borrowed<> number) = 0;
    /// Whether a tensor is such an input.
    virtual bool is_own_input(const TensorValue* tensor) const = 0;
    /// Ends the subgraph and takes its operations out of the graph. Each output is a tensor, a number or None.
    virtual Subgraph end_subgraph(std::span<Value* const> outputs) = 0;
    /// Adds the module of a subgraph as an attribute.
    virtual AddedModule add_module(Subgraph subgraph, SubgraphModule module) = 0;
    /// Adds a call of a higher-order operation.
    virtual graph::Node* emit_higher_order(Borrowed<> operation, std::vector<graph::Argument> arguments,
                                           std::vector<graph::KeywordArgument> keywords, const GraphFlags& flags) = 0;
    /// These tensors are the items of the tuple that the operation gives, from now on, with these metadata.
    virtual void give_results(graph::Node* operation, std::span<TensorValue* const> results,
                              std::span<const torch_room::TensorMeta* const> metas) = 0;
};

}  // namespace stator
