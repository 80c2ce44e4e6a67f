/// Records the operations of the program as nodes of the graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.h"
#include "shape/infer.h"
#include "trace/call_stack.h"
#include "trace/exits/lifetimes.h"
#include "trace/recorder/autograd_views.h"
#include "trace/recorder/deferred_graphs.h"
#include "trace/recorder/function_transforms.h"
#include "trace/recorder/node_locations.h"
#include "trace/recorder/numbers.h"
#include "trace/recorder/rows.h"
#include "trace/recorder/view_histories.h"
#include "trace/trace.h"
#include "trace/writes/input_writes.h"
#include "value/recorder.h"
#include "value/tracer.h"

namespace stator {

struct NestedIntValue;

class GraphRecorder final : public Recorder {
  public:
    GraphRecorder(Tracer& tracer, const CallStack& stack, const Lifetimes& lifetimes, const TraceRequest& request);

    Value* emit_function(Borrowed<> function, const Arguments& arguments) override;
    Value* emit_method(Borrowed<> name, const Arguments& arguments) override;
    graph::Node* emit_effect(Borrowed<> function, const Arguments& arguments) override;
    void emit_switch(Borrowed<> function, const Arguments& arguments) override;
    void emit_idle_switch(Borrowed<> function, const Arguments& arguments) override;
    Value* emit_transform(Borrowed<> function, const Arguments& arguments) override;
    Value* ask_transform(Borrowed<> function, const Arguments& arguments) override;
    bool is_in_transform() const override { return transforms_.is_called(); }
    TensorValue* emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) override;
    std::vector<Value*> emit_rows(TensorValue* base) override;
    void expect_history(const TensorValue* tensor) override { views_.expect_history(tensor); }
    graph::Node* add_input(TensorValue* tensor) override;
    graph::Argument number_argument(ConstantValue* value) override { return numbers_.argument(value); }
    ConstantValue* emit_number(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments, PyTypeObject* type,
                               Range range) override;
    ConstantValue* emit_draw(const Draw& draw) override;
    graph::Node* number_node(const Expression& expression) override { return numbers_.node_of(expression); }
    void emit_check(Borrowed<> function, const Arguments& arguments) override;
    /// Compilers don't keep all errors that an operation raises for some numbers that depend on data: then the graph
    /// runs as it was captured.
    void expect_run_by_stator();

    // --- for the rest of the tracer

    using Recorder::graph;
    graph::Graph& graph() { return *graph_; }
    /// The trace starts in the middle of its frame.
    bool is_resumed() const { return is_resumed_; }
    NodeLocations& locations() { return locations_; }
    Rows& rows() { return rows_; }
    const NumberNodes& numbers() const { return numbers_; }
    AutogradViews& views() { return views_; }
    const InputWrites& writes() const { return writes_; }
    const std::vector<graph::Node*>& input_nodes() const { return input_nodes_; }
    DeferredGraphCapture& deferred_graphs() { return deferred_graphs_; }
    const DeferredGraphCapture& deferred_graphs() const { return deferred_graphs_; }
    FunctionTransforms& transforms() { return transforms_; }

    /// The program has assigned this value to a variable: names its node.
    void name_after(Value* value, Borrowed<> variable);
    /// Whether a node gives a random number (`emit_draw`).
    bool is_drawn(const graph::Node* node) const;
    /// Adds an input; its result is left to the caller.
    graph::Node* add_placeholder(Source* source);
    /// Adds `node[index]`.
    graph::Node* add_item(graph::Node* node, std::size_t index, const graph::Result& result);
    /// Sets whether an operation has an effect that can't be undone if the graph fails later on. After one that has, a
    /// node that may fail keeps the results that the program holds (lasting.cpp).
    void note_lasting(graph::Node* node, bool is_lasting);
    /// Breaks the graph if the request says to stop before this node. A recomputed graph is another object in each
    /// trace.
    void expect_no_stop(Borrowed<> target, const char* reason, bool is_recomputed = false);

    NumberNodes& numbers() { return numbers_; }

    /// Moves what was recorded to the finished trace.
    void move_to(Trace& trace);

  private:
    struct Operation;

    Value* emit(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments, shape::AnyNumber takes_any);
    // The steps of `emit` (emit.cpp, and for numbers that depend on data emit_numbers.cpp):
    std::vector<graph::Argument> take_arguments(Operation& operation, std::vector<graph::KeywordArgument>* keywords);
    const shape::Answer& infer(const Operation& operation);
    [[noreturn]] void break_at_rejected_operation(std::span<TensorValue* const> tensors);
    Ref<> call_in_transform(const graph::Node& node);
    void forget_numbers_of(const TensorValue* written);
    ConstantValue* unbacked_result(graph::Node* node, PyTypeObject* type, Range range);
    void add_node(NestedIntValue* size);
    void expect_one_kind_of_wrappers(const graph::Result& result);
    void emit_requirements(Operation& operation);
    Value* emit_with_known_integers(const Operation& operation);
    void check_mutations(const Operation& operation);
    void describe_node(const Operation& operation);
    Value* result_of(const Operation& operation);
    Value* returned_argument(const Operation& operation, TensorValue* tensor);

    shape::AnyNumber any_number(graph::NodeKind kind, Borrowed<> target) const;
    std::vector<graph::Argument> arguments_of(const Arguments& arguments,
                                              std::vector<graph::KeywordArgument>* keywords);
    /// The value of a node's result. `tensors` are the tensor arguments of the node, numbered as in its answer.
    Value* value_of(graph::Node* node, const graph::Result& result, std::span<TensorValue* const> tensors);
    Value* value_of_items(graph::Node* node, const graph::Result& result, std::span<TensorValue* const> tensors);
    void note_view(Value* view, TensorValue* base, const graph::Node& maker);
    /// Adds a tensor that the graph module holds as an attribute, instead of an input.
    graph::Node* add_attribute(TensorValue* tensor);
    const std::vector<graph::Node*>* held_by_program();

    Tracer& tracer_;
    const CallStack& stack_;
    const bool registers_attributes_;
    const bool is_resumed_;
    const bool allows_levels_by_hand_;
    bool refuses_levels_by_hand_ = false;
    const std::optional<TraceRequest::Stop> stop_;
    bool has_stopped_ = false;
    bool has_jagged_ = false, has_other_wrappers_ = false;  // tensors of wrapper subclasses

    NodeLocations locations_;
    std::vector<const graph::Node*> idle_switches_;  // set a mode to what it is
    Rows rows_;
    InputWrites writes_;
    AutogradViews views_;
    ViewHistories histories_;
    NumberNodes numbers_;
    DeferredGraphCapture deferred_graphs_;
    FunctionTransforms transforms_;
    std::vector<Source*> inputs_;
    std::vector<graph::Node*> input_nodes_;
    graph::Names attribute_names_;
    std::vector<Attribute> attributes_;
    std::uint64_t shape_ticks_ = 0;
    /// Answers about operations on sizes that change between calls; made for the first such operation.
    std::shared_ptr<shape::Store> dynamic_answers_;
    shape::DataSizes data_sizes_;
    /// The numbers that were read from tensors, by their nodes. Valid until anything is written to.
    std::unordered_map<const graph::Node*, ConstantValue*> read_numbers_;
    struct RecordedDraw {
        graph::Node* placeholder;
        Draw draw;
    };
    std::vector<RecordedDraw> draws_;
};

}  // namespace stator
