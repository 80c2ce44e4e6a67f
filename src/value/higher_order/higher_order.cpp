#include "value/higher_order/higher_order.h"

#include <string_view>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/kinds/function.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"

namespace stator {

namespace {

using Call = Outcome (*)(Tracer& tracer, PyObject* operation, const Arguments& arguments);

struct Named {
    std::string_view name;
    Call call;
};

/// An operation without functions: a node like any other.
Outcome call_as_operation(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    return tracer.recorder().emit_function(operation, arguments);
}

/// `dynamo_bypassing_wrapper(wrapper, function, *arguments)`, which is `wrapper(function)(*arguments)`.
Task call_wrapped(Tracer& tracer, Arguments given) {
    Value* wrapper = given.positional[0];
    Value* function = given.positional[1];
    given.positional.erase(given.positional.begin(), given.positional.begin() + 2);
    Value* wrapped = co_await operations::call(tracer, wrapper, Arguments::of(function));
    co_return co_await operations::call(tracer, wrapped, given);
}

Outcome call_bypassing_wrapper(Tracer& tracer, PyObject*, const Arguments& arguments) {
    if (arguments.positional.size() < 2)
        tracer.break_graph(BreakKind::UnsupportedTensor, "dynamo_bypassing_wrapper is called without a function");
    return tracer.start(call_wrapped(tracer, arguments));
}

constexpr Named kOperations[] = {
    {"dynamo_bypassing_wrapper", call_bypassing_wrapper},
    {"cond", call_cond},
    {"wrap", call_wrap},
    {"wrap_with_set_grad_enabled", call_wrap_with_grad_mode},
    {"strict_mode", call_strict_mode},
    {"hints_wrapper", call_hints_wrapper},
    {"out_dtype", call_as_operation},
    {"map_impl", call_map},
    {"scan", call_scan},
    {"associative_scan", call_associative_scan},
    {"while_loop", call_while_loop},
    {"flex_attention", call_flex_attention},
};

PyTypeObject* base_operation_class() {
    static auto* const type = imported_class("torch._higher_order_ops.base_hop", "BaseHOP");
    return type;
}

}  // namespace

bool is_higher_order_operation(PyTypeObject* type) {
    static auto* const base = imported_class("torch._ops", "HigherOrderOperator");
    return PyType_IsSubtype(type, base) != 0;
}

std::optional<Outcome> call_higher_order(Tracer& tracer, PyObject* operation, const Arguments& arguments) {
    Ref<> name = checked(PyObject_GetAttrString(operation, "__name__"));
    if (!PyUnicode_Check(name.get())) return std::nullopt;
    for (const Named& known : kOperations)
        if (known.name == utf8(name.get())) return known.call(tracer, operation, arguments);
    if (PyObject_TypeCheck(operation, base_operation_class())) return call_base_operation(tracer, operation, arguments);
    return std::nullopt;
}

namespace {

/// Inlines a function of PyTorch that calls a higher-order operation, as one instruction: a graph break inside of it
/// executes the whole call.
Task run_front_end(Tracer& tracer, FunctionValue* function, Arguments arguments) {
    co_return co_await tracer.push_call(function, arguments);
}

template <const char* kModule, const char* kName>
Outcome call_front_end(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported(kModule, kName);
    Value* value = tracer.constant(function);
    tracer.realize(value);
    auto* found = cast<FunctionValue>(value);
    if (found == nullptr) tracer.break_graph(BreakKind::UnknownFunction, std::string(kName) + " is called");
    return tracer.start(run_front_end(tracer, found, arguments));
}

constexpr char kCondModule[] = "torch._higher_order_ops.cond", kCond[] = "cond";
constexpr char kMapModule[] = "torch._higher_order_ops.map", kMap[] = "map";
constexpr char kStrictModule[] = "torch._higher_order_ops.strict_mode", kStrict[] = "strict_mode";
constexpr char kScanModule[] = "torch._higher_order_ops.scan", kScan[] = "scan";
constexpr char kAssociativeModule[] = "torch._higher_order_ops.associative_scan", kAssociative[] = "associative_scan";
constexpr char kFlexModule[] = "torch.nn.attention.flex_attention", kFlex[] = "flex_attention";
constexpr char kBlockMask[] = "create_block_mask";
constexpr char kLoopModule[] = "torch._higher_order_ops.while_loop", kLoop[] = "while_loop";

}  // namespace

void register_higher_order(Handlers& handlers) {
    handlers.add(kCondModule, kCond, call_front_end<kCondModule, kCond>);
    handlers.add(kMapModule, kMap, call_front_end<kMapModule, kMap>);
    handlers.add(kStrictModule, kStrict, call_front_end<kStrictModule, kStrict>);
    handlers.add("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder", call_nested_region);
    handlers.add(kScanModule, kScan, call_front_end<kScanModule, kScan>);
    handlers.add(kAssociativeModule, kAssociative, call_front_end<kAssociativeModule, kAssociative>);
    handlers.add(kFlexModule, kFlex, call_front_end<kFlexModule, kFlex>);
    handlers.add(kFlexModule, kBlockMask, call_front_end<kFlexModule, kBlockMask>);
    register_flex_attention(handlers);
    handlers.add(kLoopModule, kLoop, call_front_end<kLoopModule, kLoop>);
}

}  // namespace stator
