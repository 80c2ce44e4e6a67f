/// `torch.cond`: both branches are traced, and the graph runs one of them.
#include <algorithm>

#include "base/python_error.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

constexpr const char* kName = "torch.cond";

struct Cond {
    PyObject* operation;
    Value* predicate;
    Value* branches[2];
    std::vector<Value*> operands;
};

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    SubgraphTrace(tracer, kName).refuse(why);
}

Cond take_apart(Tracer& tracer, PyObject* operation, const Arguments& given) {
    static constexpr const char* kNames[] = {"pred", "true_fn", "false_fn", "operands"};
    std::vector<Value*> taken = given.positional;
    for (const char* name : kNames)
        if (Value* value = given.keyword(name)) taken.push_back(value);
    if (taken.size() != 4 || given.count() != 4) refuse(tracer, "it is called with other than four arguments");
    tracer.realize(taken[3]);
    SequenceValue* operands = as_sequence(taken[3]);
    if (operands == nullptr) refuse(tracer, "its operands are not a tuple or list");
    std::optional<Leaves> leaves = flatten(tracer, operands);
    if (!leaves) refuse(tracer, "its operands are not nested tuples, lists and dicts of tensors");
    for (Value* leaf : leaves->values)
        if (leaf->kind != Kind::Tensor && leaf->kind != Kind::Constant)
            refuse(tracer, "an operand is a " + leaf->print());
    return {operation, taken[0], {taken[1], taken[2]}, operands->all(tracer)};
}

/// The branch that a predicate which is no tensor chooses.
Task call_branch(Tracer& tracer, Cond call) {
    Value* truth = co_await operations::truth(tracer, call.predicate);
    const bool chosen = truth->object() == Py_True;
    int failed = PyErr_WarnEx(PyExc_UserWarning,
                              "Pred is a Python constant. When used with torch.cond, it specializes on one of the "
                              "branches. If you want torch.cond to preserve two branches, please make the predicate a "
                              "boolean tensor or a SymBool.",
                              1);
    if (failed != 0) PyErr_Clear();
    Arguments arguments = Arguments::of(call.operands);
    co_return co_await operations::call(tracer, call.branches[chosen ? 0 : 1], arguments);
}

void expect_scalar(Tracer& tracer, const TensorValue* predicate) {
    const torch_room::TensorMeta& meta = *predicate->meta;
    const bool is_one = std::ranges::all_of(meta.sizes, [](Dim size) { return size.is_constant() && size == 1; });
    if (!is_one) refuse(tracer, "its predicate is not a tensor with one element");
}

/// PyTorch raises where the results of the branches differ, or makes their sizes depend on data.
void expect_same_outputs(Tracer& tracer, const TracedFunction& left, const TracedFunction& right) {
    if (left.outputs.structure != right.outputs.structure) refuse(tracer, "the branches return different containers");
    for (std::size_t i = 0; i < left.outputs.values.size(); ++i) {
        Value *one = left.outputs.values[i], *other = right.outputs.values[i];
        const auto *tensor = cast<TensorValue>(one), *second = cast<TensorValue>(other);
        if ((tensor == nullptr) != (second == nullptr)) refuse(tracer, "only one of the branches returns a tensor");
        if (tensor != nullptr) {
            const torch_room::TensorMeta &meta = *tensor->meta, &same = *second->meta;
            if (meta.sizes != same.sizes || meta.strides != same.strides || meta.dtype != same.dtype ||
                meta.device != same.device || meta.layout != same.layout || meta.dispatch_keys != same.dispatch_keys)
                refuse(tracer, "the branches return different tensors: " + torch_room::print(meta) + " and " +
                                   torch_room::print(same));
        } else if (one->object() != Py_None || other->object() != Py_None) {
            refuse(tracer, "the branches return numbers");
        }
    }
}

Value* emit(Tracer& tracer, const Cond& call, const TracedFunction& left, const TracedFunction& right) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    SubgraphModule module = merged_operands(left.subgraph, "_true_branch", right.subgraph, "_false_branch");
    std::vector<graph::Argument> operands = as_arguments(module.operands);
    const bool gradient = needs_gradient(tracer, operands);
    Value* predicate = call.predicate;
    std::vector<graph::Argument> arguments = as_arguments(tracer, std::span(&predicate, 1));
    module.name = "cond_true";
    arguments.push_back(graph::Argument::of(graphs.add_module(left.subgraph, module).node));
    module.name = "cond_false";
    arguments.push_back(graph::Argument::of(graphs.add_module(right.subgraph, module).node));
    arguments.push_back(as_container(tracer, std::move(operands)));
    GraphFlags flags = left.subgraph;
    flags.add(right.subgraph);
    graph::Node* node = graphs.emit_higher_order(call.operation, std::move(arguments), {}, flags);
    give_own_results(tracer, node, tensors_in(left.outputs), gradient);
    return left.result;
}

Task run_cond(Tracer& tracer, Cond call) {
    TracedFunction traced[2];
    for (int i = 0; i < 2; ++i) {
        SubgraphTrace trace(tracer, kName);
        Arguments arguments = Arguments::of(call.operands);
        // (PyTorch differentiates only branches that write to nothing.)
        trace.begin(call.branches[i], arguments,
                    tracer.modes().current().grad ? DeferredGraphs::Writes::Nothing : DeferredGraphs::Writes::Data);
        Value* result = co_await tracer.start(call_traced(tracer, trace, call.branches[i], arguments));
        if (std::optional<Leaves> outputs = flatten(tracer, result)) trace.expect_fresh_outputs(*outputs);
        traced[i] = trace.end(result);
    }
    expect_same_outputs(tracer, traced[0], traced[1]);
    co_return emit(tracer, call, traced[0], traced[1]);
}

}  // namespace

Outcome call_cond(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Cond call = take_apart(tracer, operation, arguments);
    if (call.predicate->kind == Kind::Constant) return tracer.start(call_branch(tracer, std::move(call)));
    tracer.realize(call.predicate);
    auto* predicate = cast<TensorValue>(call.predicate);
    if (predicate == nullptr) refuse(tracer, "its predicate is a " + call.predicate->print());
    expect_scalar(tracer, predicate);
    return tracer.start(run_cond(tracer, std::move(call)));
}

}  // namespace stator
