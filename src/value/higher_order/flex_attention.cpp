/// `flex_attention`: attention with functions of the program for scores and masks, which are subgraphs.
#include <algorithm>
#include <numeric>

#include "base/imported.h"
#include "torch/dtypes.h"
#include "value/builtins/builtin.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/rows.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/tensor_indices.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

using torch_room::TensorMeta;

constexpr const char* kName = "flex_attention";
constexpr std::size_t kIndicesOfQueries = 7;  // their place in a BlockMask, which the backward pass needs

struct FlexAttention {
    PyObject* operation;
    TensorValue *query, *key, *value;
    Value* score;
    std::vector<Value*> blocks;  // of the mask; the last one is its function
    Value *scale, *options;
};

/// A tensor without dimensions, made by `query.new_empty`.
TensorMeta scalar_like(const TensorMeta& query, torch_room::Dtype dtype, bool requires_grad) {
    TensorMeta scalar = query;
    scalar.sizes.clear();
    scalar.strides.clear();
    scalar.storage_offset = 0;
    scalar.dtype = dtype;
    scalar.requires_grad = requires_grad;
    scalar.is_leaf = true;
    return scalar;
}

/// The strides of the result, which lies in memory as the query does, with the last dimension innermost.
torch_room::Dims strides_like(const TensorMeta& query, const torch_room::Dims& sizes) {
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t left, std::size_t right) { return query.strides[left] < query.strides[right]; });
    const std::size_t last = sizes.size() - 1;
    // (Dimensions of one element in front of it leave the last one with a stride of 1.)
    for (std::size_t place = 0; order[place] != last; ++place) {
        if (sizes[order[place]] == 1) continue;
        std::erase(order, last);
        order.insert(order.begin(), last);
        break;
    }
    torch_room::Dims strides(sizes.size(), Dim(1));
    Dim next(1);
    for (std::size_t dimension : order) {
        strides[dimension] = next;
        next = next * sizes[dimension];
    }
    return strides;
}

Task trace_function(Tracer& tracer, Value* function, Arguments arguments, SubgraphTrace& trace) {
    const bool before = tracer.modes().indexes_by_tensors();
    tracer.modes().set_indexes_by_tensors(true);
    Value* result = co_await tracer.start(call_traced(tracer, trace, function, std::move(arguments)));
    tracer.modes().set_indexes_by_tensors(before);
    co_return result;
}

TracedFunction traced(const SubgraphTrace& trace, TracedFunction function) {
    const bool is_tensor = function.outputs.structure == "*" && function.outputs.values[0]->kind == Kind::Tensor;
    if (!is_tensor || !static_cast<TensorValue*>(function.outputs.values[0])->meta->sizes.empty())
        trace.refuse("a function returns something else than a tensor without dimensions");
    return function;
}

/// The outputs of the operation: the result, the logarithms of the sums, the largest scores.
std::vector<TensorMeta> result_metas(Tracer& tracer, const FlexAttention& call) {
    const TensorMeta& query = *call.query->meta;
    TensorMeta out = query;
    out.sizes.back() = call.value->meta->sizes.back();
    out.strides = strides_like(query, out.sizes);
    out.storage_offset = 0;
    torch_room::Modes modes = tracer.modes().current();
    const torch_room::Modes::Autocast* autocast = modes.autocast_of(query.device.kind);
    if (autocast != nullptr && autocast->enabled && query.dtype != torch_room::dtype::kDouble)
        out.dtype = autocast->dtype;
    TensorMeta scores = query;
    scores.sizes.pop_back();
    scores.strides.assign(scores.sizes.size(), Dim(1));
    for (std::size_t i = scores.sizes.size() - 1; i-- > 0;)
        scores.strides[i] = scores.strides[i + 1] * scores.sizes[i + 1];
    scores.storage_offset = 0;
    // (Compilers compute these in single precision.)
    const bool in_double = query.dtype == torch_room::dtype::kDouble && tracer.run_by() == Tracer::RunBy::Stator;
    scores.dtype = in_double ? torch_room::dtype::kDouble : torch_room::dtype::kFloat;
    return {out, scores, scores};
}

Value* give_results(Tracer& tracer, const FlexAttention& call, graph::Node* node, bool gradient) {
    std::vector<TensorValue*> results;
    std::vector<const TensorMeta*> metas;
    for (const TensorMeta& meta : result_metas(tracer, call)) {
        results.push_back(tracer.make<TensorValue>());
        metas.push_back(result_meta(tracer, meta, gradient && results.size() < 3));
    }
    tracer.deferred_graphs().give_results(node, results, metas);
    return make_tuple(tracer, {results.begin(), results.end()});
}

Value* emit(Tracer& tracer, const SubgraphTrace& trace, const FlexAttention& call, const TracedFunction& score,
            const TracedFunction& mask) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    Value* tensors[] = {call.query, call.key, call.value};
    std::vector<graph::Argument> arguments = as_arguments(tracer, tensors);
    std::vector<graph::Argument> of_score = as_arguments(score.subgraph.lifted);
    std::vector<graph::Argument> of_mask = as_arguments(mask.subgraph.lifted);
    const bool gradient = needs_gradient(tracer, arguments) || needs_gradient(tracer, of_score);
    if (gradient && call.blocks.size() > kIndicesOfQueries && call.blocks[kIndicesOfQueries]->object() == Py_None)
        trace.refuse("a BlockMask without the blocks of queries has no backward pass");
    if (needs_gradient(tracer, of_mask)) trace.refuse("the function of the mask reads tensors that require a gradient");
    SubgraphModule of_function{"score_mod", score.subgraph.lifted};
    of_function.returns_one = true;
    arguments.push_back(graph::Argument::of(graphs.add_module(score.subgraph, of_function).node));
    of_function.name = "mask_fn";
    of_function.operands = mask.subgraph.lifted;
    std::vector<graph::Argument> blocks = as_arguments(tracer, std::span(call.blocks).first(call.blocks.size() - 1));
    blocks.push_back(graph::Argument::of(graphs.add_module(mask.subgraph, of_function).node));
    arguments.push_back(as_container(tracer, std::move(blocks)));
    Value* others[] = {call.scale, call.options};
    for (const graph::Argument& other : as_arguments(tracer, others)) arguments.push_back(other);
    arguments.push_back(as_container(tracer, std::move(of_score)));
    arguments.push_back(as_container(tracer, std::move(of_mask)));
    GraphFlags flags = score.subgraph;
    flags.add(mask.subgraph);
    return give_results(tracer, call, graphs.emit_higher_order(call.operation, std::move(arguments), {}, flags),
                        gradient);
}

Task run_flex_attention(Tracer& tracer, FlexAttention call) {
    SubgraphTrace trace(tracer, kName);
    DeferredGraphs& graphs = tracer.deferred_graphs();
    const TensorMeta& query = *call.query->meta;
    TracedFunction functions[2];
    Value* given[] = {call.score, call.blocks.back()};
    for (int i = 0; i < 2; ++i) {
        trace.begin(given[i], {});
        Arguments arguments;
        if (i == 0)
            arguments.positional.push_back(graphs.add_input(scalar_like(query, query.dtype, query.requires_grad)));
        for (int index = 0; index < 4; ++index)
            arguments.positional.push_back(graphs.add_input(scalar_like(query, torch_room::dtype::kInt, false)));
        Value* result = co_await tracer.start(trace_function(tracer, given[i], std::move(arguments), trace));
        functions[i] = traced(trace, trace.end(result));
    }
    co_return emit(tracer, trace, call, functions[0], functions[1]);
}

/// `create_mask`, which applies the function of a mask to all places, inside of a mode in which tensors as indices
/// are not numbers.
Task run_create_mask(Tracer& tracer, FunctionValue* function, Arguments arguments) {
    const bool before = tracer.modes().indexes_by_tensors();
    tracer.modes().set_indexes_by_tensors(true);
    Value* result = nullptr;
    try {
        result = co_await tracer.push_call(function, arguments);
    } catch (const Raised&) {
        tracer.modes().set_indexes_by_tensors(before);
        throw;
    }
    tracer.modes().set_indexes_by_tensors(before);
    co_return result;
}

FunctionValue* function_at(Tracer& tracer, PyObject* function) {
    Value* value = tracer.constant(function);
    tracer.realize(value);
    auto* found = cast<FunctionValue>(value);
    if (found == nullptr) tracer.break_graph(BreakKind::UnknownFunction, "a function of flex_attention is replaced");
    return found;
}

Outcome call_create_mask(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch.nn.attention.flex_attention", "create_mask");
    return tracer.start(run_create_mask(tracer, function_at(tracer, function), arguments));
}

/// Entering and leaving the mode of `create_mask`: `run_create_mask` has set it.
template <bool kEnter>
Outcome change_function_mode(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const change =
        imported("torch.overrides", kEnter ? "TorchFunctionMode.__enter__" : "TorchFunctionMode.__exit__");
    if (!tracer.modes().indexes_by_tensors()) return tracer.push_call(function_at(tracer, change), arguments);
    if (arguments.positional.empty() || !is_indexing_mode(arguments.positional[0]))
        return tracer.push_call(function_at(tracer, change), arguments);
    return kEnter ? arguments.positional[0] : tracer.none();
}

}  // namespace

Outcome call_flex_attention(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    const SubgraphTrace trace(tracer, kName);
    const std::vector<Value*>& given = arguments.positional;
    if (given.size() != 7 || !arguments.keywords.empty()) trace.refuse("it is called with unknown arguments");
    FlexAttention call{operation,
                       tensor_of(tracer, trace, given[0]),
                       tensor_of(tracer, trace, given[1]),
                       tensor_of(tracer, trace, given[2]),
                       given[3],
                       items_of(tracer, trace, given[4]),
                       given[5],
                       given[6]};
    if (call.blocks.empty() || call.query->meta->sizes.size() != 4 || call.value->meta->sizes.size() != 4)
        trace.refuse("it is called with unknown arguments");
    if (tracer.recorder().is_in_transform()) trace.refuse("it is called inside of a function transform");
    Value*& mask = call.blocks.back();
    tracer.realize(mask);
    static PyObject* const no_mask = imported("torch.nn.attention.flex_attention", "noop_mask");
    if (mask->object() == Py_None) mask = function_at(tracer, no_mask);
    return tracer.start(run_flex_attention(tracer, std::move(call)));
}

void register_flex_attention(Handlers& handlers) {
    // (With torch 2.15 the module imports sympy.)
    handlers.add_once_imported("torch.nn.attention.flex_attention", "create_mask", call_create_mask);
    handlers.add("torch.overrides", "TorchFunctionMode.__enter__", change_function_mode<true>);
    handlers.add("torch.overrides", "TorchFunctionMode.__exit__", change_function_mode<false>);
}

}  // namespace stator
