/// Records operations of the program as nodes of the graph. `GraphRecorder` in the trace room implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/node.h"
#include "number/range.h"
#include "shape/number_arguments.h"
#include "value/value.h"

namespace stator {

struct ConstantValue;
struct TensorValue;

/// A random number that each call draws from a generator of module `random`, by this method.
struct Draw {
    Source* generator;
    PyObject* method;     // called with the generator
    PyObject* arguments;  // a tuple: the others
    PyObject* keywords;   // a dict, or null
    PyObject* example;    // an exact int or float: a number that it might draw
    Range range;          // of an int
};

class Recorder {
  public:
    virtual ~Recorder() = default;

    /// Adds an operation to the graph, infers the metadata of its result and returns the result's value.
    virtual Value* emit_function(Borrowed<> function, const Arguments& arguments) = 0;
    virtual Value* emit_method(Borrowed<> name, const Arguments& arguments) = 0;
    /// Adds a call that the graph makes only for its effect, such as entering autocast.
    virtual graph::Node* emit_effect(Borrowed<> function, const Arguments& arguments) = 0;
    /// The same for a setter with two states, such as `set_grad_enabled`: two calls with no operation in between cancel
    /// each other.
    virtual void emit_switch(Borrowed<> function, const Arguments& arguments) = 0;
    /// A node that sets a mode to what it is. It cancels nothing, and is never cancelled.
    virtual void emit_idle_switch(Borrowed<> function, const Arguments& arguments) = 0;
    /// `tensor.select`, by an int within bounds that may change between calls.
    virtual TensorValue* emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) = 0;
    /// Adds a call that gives a number or bool (`type`) which depends on data. Null where that can't be captured. The
    /// same call on the same tensor twice is one number, unless something was written to in between.
    virtual ConstantValue* emit_number(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments,
                                       PyTypeObject* type, Range range) = 0;
    /// Adds a random number. All of a call are drawn before its graph runs, in the order of the program. Null where
    /// that can't be captured.
    virtual ConstantValue* emit_draw(const Draw& draw) = 0;
    /// The node that computes a number which depends on data.
    virtual graph::Node* number_node(const Expression& expression) = 0;
    /// Adds a call of a function such as `torch._check`, which raises unless a condition holds.
    virtual void emit_check(Borrowed<> function, const Arguments& arguments) = 0;
    /// Adds a call of a function of functorch that enters or leaves a level of a function transform, or changes other
    /// state; does the same for the operations that follow, and returns the result.
    virtual Value* emit_transform(Borrowed<> function, const Arguments& arguments) = 0;
    /// The result of a function that asks for the state of functorch, or how it has wrapped a tensor.
    virtual Value* ask_transform(Borrowed<> function, const Arguments& arguments) = 0;
    /// Whether the program is inside of a function transform (`torch.vmap`, `torch.func.grad`, ...).
    virtual bool is_in_transform() const = 0;
    /// The rows that iterating over a tensor gives. The graph indexes each of them, where the program called `unbind`
    /// once.
    virtual std::vector<Value*> emit_rows(TensorValue* base) = 0;
    /// Breaks the graph if autograd raises an error when the history of a tensor is read: of a view that it no longer
    /// tracks, because what it is a view of was written to.
    virtual void expect_history(const TensorValue* tensor) = 0;

    /// Adds the placeholder (or attribute of the graph module) of a tensor from outside.
    virtual graph::Node* add_input(TensorValue* tensor) = 0;

    // --- for `Value::as_argument`: arguments of the node under construction

    /// Registers a tensor that is an argument of the node. Called in the order of the arguments.
    void note_tensor_argument(TensorValue* tensor) { tensor_arguments_.push_back(tensor); }
    // Whether the metadata of the node's result are the same for any int, or float, among its arguments.
    bool takes_any_int() const { return takes(takes_any_, shape::AnyNumber::Int); }
    bool takes_any_float() const { return takes(takes_any_, shape::AnyNumber::Float); }
    /// A number that changes between calls (see kinds/changing_number.h) as an argument of such a node.
    virtual graph::Argument number_argument(ConstantValue* value) = 0;

    // --- the graph

    const graph::Graph& graph() const { return *graph_; }
    /// Objects that nodes point to live here: the graph outlives the trace.
    Arena& graph_arena() { return graph_->arena(); }
    /// The graph must run operation by operation as it was captured, even if a compiler was to compile it.
    void keep_as_captured() { is_kept_as_captured_ = true; }
    bool is_kept_as_captured() const { return is_kept_as_captured_; }

  protected:
    std::unique_ptr<graph::Graph> graph_ = std::make_unique<graph::Graph>();
    std::vector<TensorValue*> tensor_arguments_;
    shape::AnyNumber takes_any_ = shape::AnyNumber::None;
    bool is_kept_as_captured_ = false;
};

}  // namespace stator
