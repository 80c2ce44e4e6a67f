/// Operations that run one function once: `wrap` and its like, `invoke_subgraph`, and the operations of libraries
/// (`BaseHOP`).
#include <algorithm>
#include <optional>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/higher_order/higher_order.h"
#include "value/higher_order/operands.h"
#include "value/higher_order/subgraph_trace.h"
#include "value/kinds/dict.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/protocol/reachable.h"
#include "value/recorder.h"
#include "value/tensor/deferred_results.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// A call of such an operation.
struct Wrap {
    PyObject* operation;
    Value* function = nullptr;
    Arguments arguments = {};  // of the function
    std::string name = "";     // for messages
    std::string module = "wrap_body";

    // The arguments of the operation are: these values, the subgraph, its name, the operands, an empty dict, options.
    std::vector<Value*> before = {};
    bool takes_name = false;
    bool takes_operands_in_tuple = false;
    bool takes_dict = false;
    std::vector<Keyword> options = {};

    DeferredGraphs::Writes writes = DeferredGraphs::Writes::Nothing;

    bool may_alias = true;          // results may share memory with operands
    bool is_one_node = false;       // for autograd
    bool is_shared = false;         // equal subgraphs are one
    bool names_results = true;      // after the variables of the program
    std::optional<bool> grad = {};  // the grad mode that it sets
};

/// The tensors in a value, in order.
std::vector<TensorValue*> tensors_of(Tracer& tracer, const SubgraphTrace& trace, Value* value) {
    std::vector<const Value*> found;
    std::optional<Leaves> leaves = flatten(tracer, value);
    std::vector<Value*> parts{value};
    if (leaves) parts = leaves->values;
    for (const Value* part : parts) {
        if (part->source != nullptr && part->kind == Kind::Tensor) found.push_back(part);
        std::optional<std::vector<const Value*>> within = reachable({part});
        if (!within) trace.refuse("the function returns a " + part->print());
        found.insert(found.end(), within->begin(), within->end());
    }
    std::vector<TensorValue*> tensors;
    for (const Value* one : found) {
        auto* tensor = cast<TensorValue>(const_cast<Value*>(one));
        if (tensor == nullptr || std::ranges::find(tensors, tensor) != tensors.end()) continue;
        if (tensor->is_row) trace.refuse("the function returns a row of a tensor it iterates over");
        tensors.push_back(tensor);
    }
    return tensors;
}

std::vector<graph::Argument> arguments_of(Tracer& tracer, const Wrap& call, const AddedModule& module,
                                          std::vector<graph::Argument> operands) {
    std::vector<graph::Argument> arguments = as_arguments(tracer, call.before);
    arguments.push_back(graph::Argument::of(module.node));
    Arena& arena = tracer.recorder().graph_arena();
    if (call.takes_name) {
        Ref<> name = checked(PyUnicode_FromString(module.attribute.c_str()));
        arguments.push_back(graph::Argument::of_constant(arena.keep(std::move(name))));
    }
    if (call.takes_operands_in_tuple)
        arguments.push_back(as_container(tracer, std::move(operands)));
    else
        arguments.insert(arguments.end(), operands.begin(), operands.end());
    if (call.takes_dict) arguments.push_back(as_container(tracer, {}, graph::Argument::Kind::Dict));
    return arguments;
}

void emit(Tracer& tracer, const Wrap& call, Subgraph subgraph, std::span<TensorValue* const> results) {
    DeferredGraphs& graphs = tracer.deferred_graphs();
    const GraphFlags flags = subgraph;
    std::vector<graph::Argument> operands = as_arguments(subgraph.lifted);
    const bool gradient = needs_gradient(tracer, operands);
    SubgraphModule made{call.module, subgraph.lifted};
    made.is_shared = call.is_shared;
    const AddedModule module = graphs.add_module(std::move(subgraph), std::move(made));
    std::vector<graph::KeywordArgument> keywords;
    for (const Keyword& option : call.options) {
        tracer.realize(option.value);
        keywords.push_back({option.name, option.value->as_argument(tracer)});
    }
    std::vector<graph::Argument> arguments = arguments_of(tracer, call, module, std::move(operands));
    graph::Node* node = graphs.emit_higher_order(call.operation, std::move(arguments), std::move(keywords), flags);
    std::vector<const torch_room::TensorMeta*> metas;
    for (const TensorValue* result : results)
        metas.push_back(call.is_one_node ? result_meta(tracer, *result->meta, gradient) : result->meta);
    graphs.give_results(node, results, metas);
    if (!call.names_results)
        for (const TensorValue* result : results) result->node->is_named = true;
}

/// To the program a tensor from outside that the function returns is the same object. It is an operand, as with
/// torch._dynamo.
void add_operands(Tracer& tracer, Subgraph& subgraph, std::span<TensorValue* const> tensors) {
    for (TensorValue* tensor : tensors) {
        tracer.realize(tensor);
        const graph::Argument operand = tensor->as_argument(tracer);
        if (std::ranges::find(subgraph.lifted, operand.node) == subgraph.lifted.end())
            subgraph.lifted.push_back(operand.node);
    }
}

Task run_wrapped(Tracer& tracer, Wrap call) {
    const torch_room::Modes modes = tracer.modes().current();
    if (call.grad) {
        torch_room::Modes inside = modes;
        inside.grad = *call.grad;
        tracer.modes().set(inside);
    }
    SubgraphTrace trace(tracer, call.name);
    trace.begin(call.function, call.arguments, call.writes);
    Value* result = co_await tracer.start(call_traced(tracer, trace, call.function, call.arguments));
    tracer.realize(result);
    std::vector<TensorValue*> results = tensors_of(tracer, trace, result);
    if (!call.may_alias) {
        Leaves outputs;
        outputs.values.assign(results.begin(), results.end());
        trace.expect_fresh_outputs(outputs);
    }
    std::vector<TensorValue*> returned_as_they_are;
    for (TensorValue* one : results)
        if (!tracer.deferred_graphs().is_made_inside(one)) returned_as_they_are.push_back(one);
    std::erase_if(results, [&](const TensorValue* one) { return !tracer.deferred_graphs().is_made_inside(one); });
    settle_views(tracer, results);
    std::vector<Value*> outputs(results.begin(), results.end());
    Subgraph subgraph = tracer.deferred_graphs().end_subgraph(outputs);
    if (call.may_alias) add_operands(tracer, subgraph, returned_as_they_are);
    if (call.grad) tracer.modes().set(modes);
    emit(tracer, call, std::move(subgraph), results);
    co_return result;
}

[[noreturn]] void refuse(Tracer& tracer, const Wrap& call, const std::string& why) {
    SubgraphTrace(tracer, call.name).refuse(why);
}

/// The argument at `place` is the function, those after it are its own.
Wrap take_apart(Tracer& tracer, PyObject* operation, const Arguments& given, std::size_t place = 0) {
    Wrap call{operation};
    Ref<> name = checked(PyObject_GetAttrString(operation, "__name__"));
    call.name = "torch.ops.higher_order." + std::string(utf8(name.get()));
    if (given.positional.size() <= place) refuse(tracer, call, "it is called without a function");
    const auto first = given.positional.begin();
    const auto function = first + static_cast<std::ptrdiff_t>(place);
    call.before.assign(first, function);
    call.function = *function;
    call.arguments.positional.assign(function + 1, given.positional.end());
    call.arguments.keywords = given.keywords;
    return call;
}

}  // namespace

Outcome call_wrap(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Wrap call = take_apart(tracer, operation, arguments);
    call.writes = DeferredGraphs::Writes::Anything;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

Outcome call_wrap_with_grad_mode(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Wrap call = take_apart(tracer, operation, arguments, 1);
    tracer.realize(call.before[0]);
    if (!PyBool_Check(call.before[0]->object())) refuse(tracer, call, "the grad mode is not a bool");
    call.grad = call.before[0]->object() == Py_True;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

Outcome call_strict_mode(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Wrap call = take_apart(tracer, operation, arguments);
    if (arguments.count() != 2 || call.arguments.positional.size() != 1)
        refuse(tracer, call, "it is called with other than two arguments");
    const SubgraphTrace trace(tracer, call.name);
    call.arguments.positional = items_of(tracer, trace, call.arguments.positional[0]);
    call.module = "strict_mode_body";
    call.takes_operands_in_tuple = call.is_one_node = true;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

Outcome call_hints_wrapper(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Wrap call = take_apart(tracer, operation, arguments);
    const std::vector<Value*> given = call.arguments.positional;
    call.options = std::move(call.arguments.keywords);
    call.arguments.keywords.clear();
    if (given.size() != 2 || call.options.size() != 1 || utf8(call.options[0].name) != "hints")
        refuse(tracer, call, "it is called with unknown arguments");
    for (Value* value : {given[1], call.options[0].value}) tracer.realize(value);
    auto* keywords = cast<DictValue>(given[1]);
    if (keywords == nullptr || keywords->length(tracer) != 0 || call.options[0].value->kind != Kind::Dict)
        refuse(tracer, call, "it is called with keyword arguments, or with hints that are not a dict");
    const SubgraphTrace trace(tracer, call.name);
    call.arguments.positional = items_of(tracer, trace, given[0]);
    call.module = "hints_wrapper_body";
    call.takes_operands_in_tuple = call.takes_dict = true;
    call.names_results = false;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

Outcome call_base_operation(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Wrap call = take_apart(tracer, operation, arguments);
    call.options = std::move(call.arguments.keywords);
    call.arguments.keywords.clear();
    call.module = "subgraph";
    call.may_alias = false;
    call.is_one_node = true;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

Outcome call_nested_region(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const operation = imported("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph");
    Wrap call = take_apart(tracer, operation, arguments);
    // (Autograd differentiates the operation only where a compiler traces it.)
    if (tracer.run_by() == Tracer::RunBy::Stator && tracer.modes().current().grad)
        return operations::call(tracer, call.function, call.arguments);
    call.module = "subgraph";
    call.takes_name = call.is_shared = true;
    call.may_alias = false;
    return tracer.start(run_wrapped(tracer, std::move(call)));
}

}  // namespace stator
