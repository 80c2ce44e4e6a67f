/// Operations that run a function for each row of tensors: `map`, `scan`.
#include <algorithm>

#include "torch/dtypes.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/rows.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/undoable.h"
#include "value/recorder.h"

namespace stator {

namespace {

struct Map {
    PyObject* operation;
    Value* function;
    std::vector<Value*> rows;    // tensors that the function gets row by row
    std::vector<Value*> others;  // that it gets as they are
};

/// The results of a node are those of one step: the first ones are carried from step to step, the others are stacked.
void give_stacked_results(Tracer& tracer, graph::Node* node, const TracedFunction& traced, std::size_t carried,
                          const Dim& count, bool gradient) {
    std::vector<TensorValue*> results = tensors_in(traced.outputs);
    std::vector<const torch_room::TensorMeta*> metas;
    for (std::size_t i = 0; i < results.size(); ++i) {
        TensorValue* result = results[i];
        metas.push_back(nullptr);
        if (result == nullptr) continue;
        metas.back() = result_meta(tracer, i < carried ? *result->meta : stacked(*result->meta, count), gradient);
        set_undoably(tracer, result->view_of, nullptr);
    }
    tracer.deferred_graphs().give_results(node, results, metas);
}

/// torch._dynamo takes containers of results apart with PyTorch's own code, and names the nodes after its variable.
void name_items(TracedFunction& traced) {
    if (traced.outputs.values.size() == 1 && traced.outputs.values[0] == traced.result) return;
    Subgraph& subgraph = traced.subgraph;
    for (const graph::Argument& output : subgraph.outputs)
        for (std::size_t i = 0; i < subgraph.nodes.size(); ++i)
            if (output.kind == graph::Argument::Kind::Node && output.node == subgraph.nodes[i] &&
                subgraph.variables[i].empty())
                subgraph.variables[i] = "child";
}

Value* emit(Tracer& tracer, const Map& call, const TracedFunction& traced, Dim count) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    std::vector<graph::Argument> rows = as_arguments(tracer, call.rows);
    // (Tensors beside the rows are operands like any others that the function reads.)
    std::vector<Value*> numbers = call.others;
    std::erase_if(numbers, [](const Value* one) { return one->kind == Kind::Tensor; });
    std::vector<graph::Argument> others = as_arguments(tracer, numbers);
    for (const graph::Argument& lifted : as_arguments(traced.subgraph.lifted)) others.push_back(lifted);
    const bool gradient = needs_gradient(tracer, rows) || needs_gradient(tracer, others);
    std::vector<graph::Argument> arguments;
    SubgraphModule module{"map_body", traced.subgraph.lifted};
    for (std::size_t i = 0; i < call.rows.size(); ++i)
        module.input_names.push_back(i == 0 ? "child" : "child_" + std::to_string(i));
    for (std::size_t i = 0; i < numbers.size(); ++i)
        module.input_names.push_back(i == 0 ? "const_unused" : "const_unused_" + std::to_string(i));
    arguments.push_back(graph::Argument::of(graphs.add_module(traced.subgraph, std::move(module)).node));
    arguments.push_back(as_container(tracer, std::move(rows), graph::Argument::Kind::List));
    arguments.push_back(as_container(tracer, std::move(others), graph::Argument::Kind::List));
    graph::Node* node = graphs.emit_higher_order(call.operation, std::move(arguments), {}, traced.subgraph);
    give_stacked_results(tracer, node, traced, 0, count, gradient);
    return traced.result;
}

Task run_map(Tracer& tracer, Map call) {
    SubgraphTrace trace(tracer, "torch._higher_order_ops.map");
    const Dim count = rows_of(tracer, trace, call.rows.at(0)).sizes[0];
    Arguments arguments;
    trace.begin(call.function, arguments);
    for (Value* rows : call.rows)
        arguments.positional.push_back(tracer.deferred_graphs().add_input(row_of(rows_of(tracer, trace, rows))));
    for (Value* other : call.others) {
        tracer.realize(other);
        auto* tensor = cast<TensorValue>(other);
        if (tensor == nullptr && !(other->kind == Kind::Constant && PyLong_Check(other->object())))
            trace.refuse("it is called with a " + other->print() + " beside its rows");
        if (tensor == nullptr) tracer.deferred_graphs().add_unused_input(other->object());
        arguments.positional.push_back(other);
    }
    Value* result = co_await tracer.start(call_traced(tracer, trace, call.function, arguments));
    std::optional<Leaves> outputs = flatten(tracer, result);
    if (outputs) trace.expect_fresh_outputs(*outputs);
    TracedFunction traced = trace.end(result);
    for (Value* output : traced.outputs.values)
        if (output->kind != Kind::Tensor && output->object() != Py_None)
            trace.refuse("the function returns a " + output->print());
    name_items(traced);
    co_return emit(tracer, call, traced, count);
}

struct Scan {
    PyObject* operation;
    Value* function;
    std::vector<Value*> carried;
    std::vector<Value*> rows;    // tensors that the function gets row by row
    std::vector<Value*> others;  // that it gets as they are
};

/// The function returns what it carries on, and then rows of the results.
void expect_same_as_carried(Tracer& tracer, const SubgraphTrace& trace, const Scan& scan,
                            const std::vector<TensorValue*>& outputs) {
    if (outputs.size() < scan.carried.size()) trace.refuse("the function returns fewer tensors than it carries");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == nullptr) trace.refuse("the function returns a value that is not a tensor");
        if (i >= scan.carried.size()) continue;
        const torch_room::TensorMeta &made = *outputs[i]->meta,
                                     &before = *tensor_of(tracer, trace, scan.carried[i])->meta;
        if (made.sizes != before.sizes || made.strides != before.strides || made.dtype != before.dtype ||
            made.device != before.device)
            trace.refuse("the function returns " + torch_room::print(made) + " for " + torch_room::print(before));
    }
}

Value* emit(Tracer& tracer, const Scan& scan, const TracedFunction& traced, Dim count) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    std::vector<graph::Argument> carried = as_arguments(tracer, scan.carried), rows = as_arguments(tracer, scan.rows);
    std::vector<graph::Argument> others = as_arguments(tracer, scan.others);
    for (const graph::Argument& lifted : as_arguments(traced.subgraph.lifted)) others.push_back(lifted);
    const bool gradient =
        needs_gradient(tracer, carried) || needs_gradient(tracer, rows) || needs_gradient(tracer, others);
    SubgraphModule module{"scan_combine_fn", traced.subgraph.lifted};
    module.output_kind = graph::Argument::Kind::List;
    std::vector<graph::Argument> arguments;
    arguments.push_back(graph::Argument::of(graphs.add_module(traced.subgraph, std::move(module)).node));
    for (std::vector<graph::Argument>* operands : {&carried, &rows, &others})
        arguments.push_back(as_container(tracer, std::move(*operands), graph::Argument::Kind::List));
    graph::Node* node = graphs.emit_higher_order(scan.operation, std::move(arguments), {}, traced.subgraph);
    give_stacked_results(tracer, node, traced, scan.carried.size(), count, gradient);
    return traced.result;
}

Task run_scan(Tracer& tracer, Scan scan) {
    SubgraphTrace trace(tracer, "scan");
    const Dim count = rows_of(tracer, trace, scan.rows.at(0)).sizes[0];
    Arguments arguments;
    trace.begin(scan.function, arguments);
    DeferredGraphs& graphs = tracer.deferred_graphs();
    for (Value* one : scan.carried)
        arguments.positional.push_back(graphs.add_input(*tensor_of(tracer, trace, one)->meta));
    for (Value* one : scan.rows) arguments.positional.push_back(graphs.add_input(row_of(rows_of(tracer, trace, one))));
    for (Value* one : scan.others)
        arguments.positional.push_back(graphs.add_input(*tensor_of(tracer, trace, one)->meta));
    Value* result = co_await tracer.start(call_traced(tracer, trace, scan.function, arguments));
    std::optional<Leaves> outputs = flatten(tracer, result);
    if (outputs) trace.expect_fresh_outputs(*outputs);
    TracedFunction traced = trace.end(result);
    expect_same_as_carried(tracer, trace, scan, tensors_in(traced.outputs));
    co_return emit(tracer, scan, traced, count);
}

}  // namespace

Outcome call_map(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    SubgraphTrace trace(tracer, "torch._higher_order_ops.map");
    if (arguments.positional.size() != 3 || !arguments.keywords.empty())
        trace.refuse("it is called with other than three arguments");
    Map call{operation, arguments.positional[0], items_of(tracer, trace, arguments.positional[1]),
             items_of(tracer, trace, arguments.positional[2])};
    if (call.rows.empty()) trace.refuse("it is called without tensors");
    return tracer.start(run_map(tracer, std::move(call)));
}

Outcome call_scan(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    SubgraphTrace trace(tracer, "scan");
    std::vector<Value*> taken = arguments.positional;
    for (const Keyword& keyword : arguments.keywords) taken.push_back(keyword.value);
    const bool is_known = taken.size() == 4 && (arguments.keywords.empty() || arguments.keyword("additional_inputs"));
    if (!is_known || arguments.keywords.size() > 1) trace.refuse("it is called with unknown arguments");
    Scan scan{operation, taken[0], items_of(tracer, trace, taken[1]), items_of(tracer, trace, taken[2]),
              items_of(tracer, trace, taken[3])};
    if (scan.rows.empty() || scan.carried.empty()) trace.refuse("it is called without tensors");
    return tracer.start(run_scan(tracer, std::move(scan)));
}

}  // namespace stator
