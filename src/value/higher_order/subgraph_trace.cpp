#include "value/higher_order/subgraph_trace.h"

#include <algorithm>

#include "value/effect_log.h"
#include "value/protocol/operations.h"
#include "value/protocol/reachable.h"
#include "value/torch_modes.h"

namespace stator {

void SubgraphTrace::refuse(const std::string& why) const {
    tracer_.break_graph(BreakKind::UnsupportedTensor, operation_ + ": " + why);
}

std::vector<const Value*> SubgraphTrace::within_reach() const {
    std::vector<const Value*> roots = roots_;
    for (const Effect& effect : tracer_.effects().entries())
        roots.insert(roots.end(), effect.from.begin(), effect.from.end());
    std::optional<std::vector<const Value*>> found = reachable(std::move(roots));
    if (!found) refuse("the function may have side effects");
    return *std::move(found);
}

void SubgraphTrace::begin(Value* function, const Arguments& arguments, DeferredGraphs::Writes writes) {
    roots_ = {function};
    for (const Value* argument : arguments.positional) roots_.push_back(argument);
    for (const Keyword& keyword : arguments.keywords) roots_.push_back(keyword.value);
    before_ = within_reach();
    effects_ = tracer_.effects().size();
    modes_ = tracer_.modes().current();
    tracer_.deferred_graphs().begin(DeferredGraph::Kind::Subgraph, writes);
}

void SubgraphTrace::expect_no_effects() {
    if (tracer_.effects().size() != effects_ || tracer_.modes().current() != modes_ || within_reach() != before_)
        // (The first words are those of torch._dynamo.)
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "HOP: Unsafe side effect: " + operation_ + ": the function has side effects");
}

TracedFunction SubgraphTrace::end(Value* result) {
    TracedFunction traced;
    std::optional<Leaves> outputs = flatten(tracer_, result);
    if (!outputs) refuse("the function returns a " + result->print());
    for (Value* output : outputs->values) {
        auto* tensor = cast<TensorValue>(output);
        const bool is_int = output->kind == Kind::Constant && PyLong_Check(output->object());
        if (tensor == nullptr && !is_int && output->object() != Py_None)
            refuse("the function returns a " + output->print());
        if (tensor != nullptr && tensor->is_row) refuse("the function returns a row of a tensor it iterates over");
    }
    traced.subgraph = tracer_.deferred_graphs().end_subgraph(outputs->values);
    traced.result = result;
    traced.outputs = *std::move(outputs);
    return traced;
}

void SubgraphTrace::expect_fresh_outputs(const Leaves& outputs) {
    const DeferredGraphs& graphs = tracer_.deferred_graphs();
    std::vector<const TensorValue*> memories;
    for (Value* output : outputs.values) {
        const auto* tensor = cast<TensorValue>(output);
        if (tensor == nullptr) continue;
        while (tensor->view_of != nullptr) tensor = tensor->view_of;
        if (!graphs.is_made_inside(tensor) || graphs.is_own_input(tensor))
            refuse("the function returns a tensor that shares memory with one that it was given");
        if (std::ranges::find(memories, tensor) != memories.end())
            refuse("the function returns two tensors that share memory");
        memories.push_back(tensor);
    }
}

Task call_traced(Tracer& tracer, SubgraphTrace& trace, Value* function, Arguments arguments) {
    bool raises = false;
    Value* result = nullptr;
    try {
        result = co_await operations::call(tracer, function, arguments);
    } catch (const Raised&) {
        raises = true;
    }
    if (raises) trace.refuse("the function raises an exception");
    trace.expect_no_effects();
    co_return result;
}

std::vector<TensorValue*> tensors_in(const Leaves& leaves) {
    std::vector<TensorValue*> tensors;
    for (Value* value : leaves.values) tensors.push_back(cast<TensorValue>(value));
    return tensors;
}

}  // namespace stator
