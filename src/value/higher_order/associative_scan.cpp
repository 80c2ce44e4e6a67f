/// `associative_scan` of pointwise functions. (That of other functions is Python code of PyTorch around `torch.vmap`,
/// which is inlined.)
#include "base/imported.h"
#include "base/python_error.h"
#include "shape/language/strides.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/rows.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"

namespace stator {

namespace {

constexpr const char* kName = "associative_scan";

struct AssociativeScan {
    PyObject* operation;
    Value* function;
    Value* rows;
    std::vector<Value*> items;   // of `rows`: tensors that are combined row by row
    std::vector<Value*> others;  // that the function gets as they are
};

/// The operation runs its function on many rows at once, which is the same only for pointwise functions.
void expect_pointwise(const SubgraphTrace& trace, const Subgraph& subgraph) {
    static PyObject* const is_pointwise = imported("stator.pointwise", "is_pointwise");
    for (const graph::Node* node : subgraph.nodes) {
        Ref<> answer = checked(PyObject_CallOneArg(is_pointwise, node->target));
        if (answer.get() != Py_True) trace.refuse("the function may not be pointwise");
    }
}

/// PyTorch raises where the function returns other tensors than it combines.
void expect_same_rows(Tracer& tracer, const SubgraphTrace& trace, const AssociativeScan& scan,
                      const std::vector<TensorValue*>& outputs) {
    if (outputs.size() != scan.items.size()) trace.refuse("the function returns another number of tensors");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == nullptr) trace.refuse("the function returns a value that is not a tensor");
        const torch_room::TensorMeta &made = *outputs[i]->meta, row = row_of(rows_of(tracer, trace, scan.items[i]));
        if (made.sizes != row.sizes || made.strides != shape::contiguous_strides(row.sizes) ||
            made.dtype != row.dtype || made.device != row.device)
            trace.refuse("the function returns " + torch_room::print(made) + " for " + torch_room::print(row));
    }
}

/// The results have the sizes of the rows. For compilers they are copies of the rows.
void give_results(Tracer& tracer, const AssociativeScan& scan, graph::Node* node,
                  const std::vector<TensorValue*>& results, bool gradient) {
    std::vector<const torch_room::TensorMeta*> metas;
    for (std::size_t i = 0; i < results.size(); ++i) {
        torch_room::TensorMeta meta = *static_cast<TensorValue*>(scan.items[i])->meta;
        meta.strides = tracer.run_by() == Tracer::RunBy::Stator ? shape::contiguous_strides(meta.sizes)
                                                                : shape::preserved_strides(meta);
        meta.storage_offset = 0;
        metas.push_back(result_meta(tracer, meta, gradient));
        set_undoably(tracer, results[i]->view_of, nullptr);
    }
    tracer.deferred_graphs().give_results(node, results, metas);
}

Value* emit(Tracer& tracer, const SubgraphTrace& trace, const AssociativeScan& scan, const TracedFunction& traced) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    std::vector<graph::Argument> rows = as_arguments(tracer, scan.items);
    std::vector<graph::Argument> others = as_arguments(tracer, scan.others);
    for (const graph::Argument& lifted : as_arguments(traced.subgraph.lifted)) others.push_back(lifted);
    const bool gradient = needs_gradient(tracer, rows) || needs_gradient(tracer, others);
    if (gradient && !others.empty()) trace.refuse("it has no gradient for tensors that the function reads");
    SubgraphModule module{"associative_scan_combine_fn", traced.subgraph.lifted};
    module.output_kind = graph::Argument::Kind::List;
    const bool is_list = scan.rows->type() == &PyList_Type;
    std::vector<graph::Argument> arguments;
    arguments.push_back(graph::Argument::of(graphs.add_module(traced.subgraph, std::move(module)).node));
    arguments.push_back(
        as_container(tracer, std::move(rows), is_list ? graph::Argument::Kind::List : graph::Argument::Kind::Tuple));
    arguments.push_back(as_container(tracer, std::move(others)));
    graph::Node* node = graphs.emit_higher_order(scan.operation, std::move(arguments), {}, traced.subgraph);
    give_results(tracer, scan, node, tensors_in(traced.outputs), gradient);
    // The function that PyTorch's front end passes returns the containers of the program.
    static auto* const partial = imported_class("functools", "partial");
    if (scan.function->type() == partial) return traced.result;
    if (gradient) return make_tuple(tracer, traced.outputs.values);
    return make_list(tracer, traced.outputs.values);
}

Task run_associative_scan(Tracer& tracer, AssociativeScan scan) {
    SubgraphTrace trace(tracer, kName);
    trace.begin(scan.function, {});
    Arguments arguments;
    DeferredGraphs& graphs = tracer.deferred_graphs();
    for (int side = 0; side < 2; ++side) {
        for (Value* one : scan.items) {
            torch_room::TensorMeta row = row_of(rows_of(tracer, trace, one));
            row.strides = shape::contiguous_strides(row.sizes);
            row.storage_offset = 0;
            arguments.positional.push_back(graphs.add_input(row));
        }
    }
    for (Value* one : scan.others)
        arguments.positional.push_back(graphs.add_input(*tensor_of(tracer, trace, one)->meta));
    Value* result = co_await tracer.start(call_traced(tracer, trace, scan.function, arguments));
    if (std::optional<Leaves> outputs = flatten(tracer, result)) trace.expect_fresh_outputs(*outputs);
    TracedFunction traced = trace.end(result);
    expect_pointwise(trace, traced.subgraph);
    expect_same_rows(tracer, trace, scan, tensors_in(traced.outputs));
    co_return emit(tracer, trace, scan, traced);
}

}  // namespace

Outcome call_associative_scan(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    const SubgraphTrace trace(tracer, kName);
    std::vector<Value*> taken = arguments.positional;
    if (Value* others = arguments.keyword("additional_inputs")) taken.push_back(others);
    if (taken.size() != 3 || arguments.count() != 3) trace.refuse("it is called with unknown arguments");
    tracer.realize(taken[0]);
    AssociativeScan scan{operation, taken[0], taken[1], items_of(tracer, trace, taken[1]),
                         items_of(tracer, trace, taken[2])};
    if (scan.items.empty()) trace.refuse("it is called without tensors");
    for (Value* one : scan.items)
        if (rows_of(tracer, trace, one).sizes[0] == 1) trace.refuse("the result for one row is the row itself");
    return tracer.start(run_associative_scan(tracer, std::move(scan)));
}

}  // namespace stator
