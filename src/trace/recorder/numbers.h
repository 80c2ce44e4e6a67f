/// Numbers that change from call to call (see value/kinds/changing_number.h) in the graph: placeholders, and nodes for
/// arithmetic.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "number/expression.h"
#include "shape/number_arguments.h"
#include "value/kinds/constant.h"
#include "value/tracer.h"

namespace stator {

class GraphRecorder;
struct TensorValue;

class NumberNodes {
  public:
    NumberNodes(Tracer& tracer, GraphRecorder& recorder) : tracer_(tracer), recorder_(recorder) {}

    /// Replaces numbers that were specialized after they had become nodes by constants.
    void replace_specialized();
    /// Adds a placeholder for each symbol in the sizes, strides and offsets of the inputs, as compilers expect.
    void add_symbols_of_inputs();

    /// Prepares for the float arguments of an operation that takes any float.
    void set_float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments);
    /// A number as an argument of the node: a node of its own, or a constant after specializing.
    graph::Argument argument(ConstantValue* value);

    /// The node that computes an expression. Breaks the graph where nothing can.
    graph::Node* node_of(const Expression& expression);

    /// The nodes of the symbols in the sizes, strides and offset of a tensor; none for other results.
    std::vector<graph::Node*> symbols_of(const graph::Result& result);
    /// These nodes are not in the graph any more.
    void forget(std::span<graph::Node* const> nodes);

    /// Makes an input a tensor that holds a number. Compilers specialize on numbers, but not on what is read from a
    /// tensor. Returns the node that reads it.
    graph::Node* add_item_of(graph::Node* input, torch_room::Dtype dtype);

    // Numbers that depend on data.

    /// A node computes this number.
    void note_origin(const Expression* number, graph::Node* node) { origins_.emplace(number, Origin{node, -1}); }
    /// A node gives a tensor of these sizes: those that are new are known by it.
    void note_sizes(graph::Node* node, const torch_room::TensorMeta& meta);
    /// Whether an expression has random numbers, and no other numbers that only the graph knows.
    bool is_drawn(const Expression& expression) const;
    /// `u0 is the result of item in line 3 of model.py`, for each such number in an expression.
    std::vector<std::string> origins_of(const Expression& expression) const;

  private:
    /// What an operation that takes any float does with it.
    enum class FloatUse : std::uint8_t {
        Computes,          // arithmetic and comparisons: no float is too large
        Converts,          // to a float dtype, which raises for floats that are too large
        ConvertsToInteger  // each dtype has its own bounds, and NaN is out of them
    };
    FloatUse float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments);
    /// The node of a number from outside.
    graph::Node* add_input(const Expression& number);
    void add_symbols(const Expression* size, std::vector<graph::Node*>& symbols);
    graph::Node* node_of_size(graph::Node* tensor, int dimension);

    /// The node that gives an unbacked number, or the tensor that has it as a size.
    struct Origin {
        graph::Node* node;
        int dimension;  // -1: the node gives the number itself
    };

    Tracer& tracer_;
    GraphRecorder& recorder_;
    std::unordered_map<const Expression*, Origin> origins_;
    std::unordered_map<const Expression*, graph::Node*> nodes_;
    FloatUse float_use_ = FloatUse::Computes;  // by the node under construction
};

}  // namespace stator
