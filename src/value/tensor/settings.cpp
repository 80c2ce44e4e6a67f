/// Functions of PyTorch that change its settings (torch/settings.h). They are called while tracing, so that what the
/// program reads and what operations return are as the program has them, and again by the graph.
#include "value/tensor/settings.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "torch/settings.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/saved_tensors.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

struct Setter {
    const char* module;
    const char* name;
};
constexpr std::array kSetters = {
    Setter{"torch._C", "_set_default_dtype"},
    Setter{"torch", "set_default_dtype"},
    Setter{"torch._C", "_set_sdp_use_flash"},
    Setter{"torch._C", "_set_sdp_use_mem_efficient"},
    Setter{"torch._C", "_set_sdp_use_math"},
    Setter{"torch._C", "_set_sdp_use_cudnn"},
    Setter{"torch._C", "_set_sdp_use_overrideable"},
    Setter{"torch._C", "_set_sdp_priority_order"},
    Setter{"torch.nn.attention", "_sdpa_kernel"},
    Setter{"torch._C._autograd", "_saved_tensors_hooks_disable"},
    Setter{"torch._C._autograd", "_saved_tensors_hooks_enable"},
    Setter{"torch._C", "_set_deterministic_algorithms"},
};

constexpr std::size_t kLastOfDefaultDtype = 1;

/// A list of kernels as an argument in the graph: `torch.fx` can't write a `SDPBackend`, so nodes make them of names.
Value* with_named_kernels(Tracer& tracer, Value* argument) {
    static PyObject* const by_name = imported("torch.nn.attention", "_backend_from_string");
    static PyTypeObject* const kernel = imported_class("torch.nn.attention", "SDPBackend");
    SequenceValue* sequence = as_sequence(argument);
    if (sequence == nullptr) return argument;
    std::vector<Value*> items = sequence->all(tracer);
    for (Value*& item : items) {
        if (item->type() != kernel) continue;
        Ref<> name = checked(PyObject_GetAttrString(item->object(), "name"));
        graph::Node* node = tracer.recorder().emit_effect(by_name, Arguments::of(tracer.fresh(std::move(name))));
        node->has_effect = node->is_visible_to_program = false;
        item = tracer.make<NodeValue>(node);
    }
    return make_list(tracer, std::move(items));
}

template <std::size_t kSetter>
Outcome call_setter(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported(kSetters[kSetter].module, kSetters[kSetter].name);
    // (A transform puts back what it sets, so that it may be in a function of a higher-order operation.)
    const DeferredGraphs& graphs = tracer.deferred_graphs();
    if (graphs.runs_later() || (graphs.is_open() && !tracer.recorder().is_in_transform()))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a backward pass or a function of a higher-order operation changes a setting of PyTorch");
    if (std::string_view(kSetters[kSetter].name).starts_with("_saved_tensors_hooks")) {
        constexpr const char* kWhat = "hooks on saved tensors are disabled or enabled";
        expect_no_saved_tensors_hooks(tracer, kWhat);
        // (Where some were entered before, disabling them raises, after it has disabled them.)
        if (torch_room::saved_tensors_hooks_depth() > 0)
            tracer.break_graph(BreakKind::UnsupportedTensor, std::string(kWhat) + " where some are entered");
    }
    ConstantArguments constants;
    if (!constants.take(tracer, arguments))
        tracer.break_graph(BreakKind::UnknownObject, "a setting of PyTorch is set to a value that is not a constant");
    // A graph that aot_autograd has traced creates tensors of the default dtype that it finds when it runs.
    if (kSetter <= kLastOfDefaultDtype && tracer.run_by() == Tracer::RunBy::Compiler) {
        if (!tracer.wants_one_graph())
            tracer.break_graph(BreakKind::UnsupportedTensor,
                               "the default dtype is set inside a function that a backend compiles");
        tracer.recorder().keep_as_captured();
    }
    const torch_room::Settings before = torch_room::current_settings();
    tracer.on_undo([before] { torch_room::restore_settings(before); });
    if (!constants.call(function)) {
        PyErr_Clear();
        tracer.break_graph(BreakKind::OperationFails, "setting a setting of PyTorch raises an error");
    }
    Arguments in_graph = arguments;
    for (Value*& argument : in_graph.positional) argument = with_named_kernels(tracer, argument);
    for (Keyword& keyword : in_graph.keywords) keyword.value = with_named_kernels(tracer, keyword.value);
    // If the graph fails, the settings are restored: the program can't observe the call.
    graph::Node* node = tracer.recorder().emit_effect(function, in_graph);
    node->is_visible_to_program = false;
    if (std::string_view(kSetters[kSetter].module) == "torch._C._autograd") node->location = nullptr;  // as TorchDynamo
    return tracer.none();
}

template <std::size_t... kSetter>
void register_setters(Handlers& handlers, std::index_sequence<kSetter...>) {
    (handlers.add(kSetters[kSetter].module, kSetters[kSetter].name, call_setter<kSetter>), ...);
}

/// `torch.backends.cuda.SDPAParams(query, key, ...)`: holds its arguments.
struct AttentionParameters final : Value {
    explicit AttentionParameters(Arguments given) : Value(Kind::Context), given(std::move(given)) {}

    Arguments given;

    static PyTypeObject* class_of() {
        static PyTypeObject* const type = find_imported_class("torch._C", "_SDPAParams");
        return type;
    }
    PyTypeObject* type() const override { return class_of(); }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override {
        constexpr const char* kNames[] = {"query", "key", "value", "attn_mask", "dropout", "is_causal", "enable_gqa"};
        for (std::size_t i = 0; i < std::size(kNames) && i < given.positional.size(); ++i)
            if (name.get() == interned(kNames[i])) return given.positional[i];
        return Value::get_attribute(tracer, name);
    }
    int rebuild(PlanBuilder& plan) override {
        return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(class_of()), given.positional);
    }
    std::string print() const override { return "parameters of attention"; }
};

Outcome make_parameters(Tracer& tracer, const Arguments& arguments) {
    constexpr std::size_t kTensors = 3, kMask = 3, kDropout = 4, kAll = 7;
    const std::vector<Value*>& given = arguments.positional;
    for (Value* value : given) tracer.realize(value);
    bool is_usual = given.size() == kAll && arguments.keywords.empty();
    for (std::size_t i = 0; is_usual && i < kAll; ++i) {
        PyTypeObject* type = given[i]->type();
        const bool is_tensor = given[i]->kind == Kind::Tensor;
        is_usual = i < kTensors    ? is_tensor
                   : i == kMask    ? is_tensor || given[i]->object() == Py_None
                   : i == kDropout ? type == &PyFloat_Type
                                   : type == &PyBool_Type;
    }
    if (!is_usual)
        tracer.break_graph(BreakKind::UnknownFunction, "SDPAParams is created from arguments of unexpected classes");
    return tracer.make<AttentionParameters>(arguments);
}

}  // namespace

void register_settings(Handlers& handlers) {
    register_setters(handlers, std::make_index_sequence<kSetters.size()>());
    for (const char* name : {"_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled",
                             "_get_cudnn_sdp_enabled", "_get_overrideable_sdp_enabled", "_get_sdp_priority_order"})
        handlers.add_pure("torch._C", name);
    for (const char* name : {"_saved_tensors_hooks_get_disabled_error_message", "_saved_tensors_hooks_is_enabled"})
        handlers.add_pure("torch._C._autograd", name);
    handlers.add("torch._C", "_SDPAParams", make_parameters);
}

}  // namespace stator
