/// `while_loop`: the condition and the body are traced once, with inputs of their own for what the loop carries.
#include <algorithm>

#include "torch/dtypes.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"

namespace stator {

namespace {

constexpr const char* kName = "while_loop";

struct Loop {
    PyObject* operation;
    Value* condition;
    Value* body;
    std::vector<Value*> carried;
    std::vector<Value*> others;
};

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    SubgraphTrace(tracer, kName).refuse(why);
}

/// Inputs of the open subgraph like these tensors.
Arguments inputs_like(Tracer& tracer, const Loop& loop) {
    Arguments arguments;
    for (const std::vector<Value*>* values : {&loop.carried, &loop.others}) {
        for (Value* value : *values) {
            tracer.realize(value);
            auto* tensor = cast<TensorValue>(value);
            if (tensor == nullptr) refuse(tracer, "it carries a " + value->print());
            arguments.positional.push_back(tracer.deferred_graphs().add_input(*tensor->meta));
        }
    }
    return arguments;
}

void expect_truth(Tracer& tracer, const TracedFunction& condition) {
    const TensorValue* truth =
        condition.outputs.values.size() == 1 ? cast<TensorValue>(condition.outputs.values[0]) : nullptr;
    if (truth == nullptr || condition.outputs.structure != "*" || truth->meta->dtype != torch_room::dtype::kBool ||
        !truth->meta->sizes.empty())
        refuse(tracer, "its condition does not return a bool tensor without dimensions");
}

void expect_same_as_carried(Tracer& tracer, const Loop& loop, const TracedFunction& body) {
    if (body.outputs.values.size() != loop.carried.size())
        refuse(tracer, "its body returns another number of tensors than it takes");
    for (std::size_t i = 0; i < loop.carried.size(); ++i) {
        const auto* made = cast<TensorValue>(body.outputs.values[i]);
        if (made == nullptr) refuse(tracer, "its body returns a " + body.outputs.values[i]->print());
        const torch_room::TensorMeta &meta = *made->meta, &before = *static_cast<TensorValue*>(loop.carried[i])->meta;
        if (meta.sizes != before.sizes || meta.strides != before.strides || meta.dtype != before.dtype ||
            meta.device != before.device || meta.layout != before.layout)
            refuse(tracer, "its body returns " + torch_room::print(meta) + " for " + torch_room::print(before));
    }
}

Value* emit(Tracer& tracer, const Loop& loop, const TracedFunction& condition, const TracedFunction& body) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    SubgraphModule module = merged_operands(condition.subgraph, "_cond_fn", body.subgraph, "_body_fn");
    std::vector<graph::Argument> others = as_arguments(tracer, loop.others);
    for (const graph::Argument& lifted : as_arguments(module.operands)) others.push_back(lifted);
    std::vector<graph::Argument> carried = as_arguments(tracer, loop.carried);
    const bool gradient = needs_gradient(tracer, carried) || needs_gradient(tracer, others);
    std::vector<graph::Argument> arguments;
    module.name = "cond_fn";
    module.returns_one = true;
    arguments.push_back(graph::Argument::of(graphs.add_module(condition.subgraph, module).node));
    module.name = "body_fn";
    module.returns_one = false;
    arguments.push_back(graph::Argument::of(graphs.add_module(body.subgraph, module).node));
    arguments.push_back(as_container(tracer, std::move(carried)));
    arguments.push_back(as_container(tracer, std::move(others)));
    GraphFlags flags = condition.subgraph;
    flags.add(body.subgraph);
    graph::Node* node = graphs.emit_higher_order(loop.operation, std::move(arguments), {}, flags);
    give_own_results(tracer, node, tensors_in(body.outputs), gradient);
    return body.result;
}

Task run_loop(Tracer& tracer, Loop loop) {
    TracedFunction traced[2];
    Value* functions[] = {loop.condition, loop.body};
    for (int i = 0; i < 2; ++i) {
        SubgraphTrace trace(tracer, kName);
        trace.begin(functions[i], {});
        Arguments arguments = inputs_like(tracer, loop);
        Value* result = co_await tracer.start(call_traced(tracer, trace, functions[i], arguments));
        if (std::optional<Leaves> outputs = flatten(tracer, result)) trace.expect_fresh_outputs(*outputs);
        traced[i] = trace.end(result);
    }
    expect_truth(tracer, traced[0]);
    expect_same_as_carried(tracer, loop, traced[1]);
    co_return emit(tracer, loop, traced[0], traced[1]);
}

}  // namespace

Outcome call_while_loop(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    if (arguments.positional.size() != 4 || !arguments.keywords.empty())
        refuse(tracer, "it is called with other than four arguments");
    const SubgraphTrace trace(tracer, kName);
    Loop loop{operation, arguments.positional[0], arguments.positional[1],
              items_of(tracer, trace, arguments.positional[2]), items_of(tracer, trace, arguments.positional[3])};
    return tracer.start(run_loop(tracer, std::move(loop)));
}

}  // namespace stator
