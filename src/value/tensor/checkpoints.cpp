/// `torch.utils.checkpoint.checkpoint`: the function is inlined, and its operations are then moved into a separate
/// graph, which a node runs through the real `checkpoint`. So they are recomputed in the backward pass with the same
/// random numbers, without running user code other than a `context_fn`. The function must have no side effects, because
/// it runs twice.
#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/dtypes.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/partial.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/protocol/reachable.h"
#include "value/recorder.h"
#include "value/tensor/deferred_results.h"
#include "value/tensor/function_transforms.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "a checkpointed function " + why);
}

/// The parsed arguments of `checkpoint`.
struct Checkpoint {
    Value* function = nullptr;
    Arguments arguments;  // of the function
    bool preserves_random_state = true;
    bool stops_early = true;
    bool is_reentrant = false;
    std::string determinism_check = "default";
    PyObject* contexts = Py_None;  // the `context_fn`, if it is not the one that does nothing
};

bool as_bool(Tracer& tracer, const Keyword& keyword) {
    tracer.realize(keyword.value);
    PyObject* known = keyword.value->object();
    if (known != Py_True && known != Py_False)
        refuse(tracer, "has an argument that is not a constant bool: '" + std::string(utf8(keyword.name)) + "'");
    return known == Py_True;
}

/// A function, a list of operations or a partial that decides what is recomputed, as a real object. It only decides
/// what is saved, so one that is made of equal parts will do in later calls: the parts are guarded.
Ref<> as_policy(Tracer& tracer, Value* value) {
    // (The operations in a set are no constants.)
    if (auto* set = cast<SetValue>(value);
        set != nullptr && !set->realized && (set->class_ == &PySet_Type || set->class_ == &PyFrozenSet_Type)) {
        tracer.guard({GuardKind::Type, set->source, reinterpret_cast<PyObject*>(set->class_)});
        PyObject* elements = tracer.keep(checked(PyFrozenSet_New(set->outside)));
        tracer.guard({GuardKind::Elements, set->source, elements, kByIdentity});
        return set->is_frozen() ? Ref<>::share(elements) : checked(PySet_New(elements));
    }
    tracer.realize(value);
    if (value->kind == Kind::List && value->type() == &PyList_Type) {
        Ref<> items = checked(PyList_New(0));
        for (Value* item : as_sequence(value)->all(tracer))
            checked(PyList_Append(items.get(), as_policy(tracer, item).get()));
        return items;
    }
    if (value->source != nullptr && is_partial_class(value->type())) {
        PartialParts parts = parts_of_partial(tracer, value);
        Ref<> function = as_policy(tracer, parts.function);
        Ref<> given = checked(PyTuple_New(static_cast<Py_ssize_t>(parts.arguments.positional.size() + 1)));
        PyTuple_SET_ITEM(given.get(), 0, function.release());
        for (std::size_t i = 0; i < parts.arguments.positional.size(); ++i)
            PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i + 1),
                             as_policy(tracer, parts.arguments.positional[i]).release());
        Ref<> named = checked(PyDict_New());
        for (const Keyword& keyword : parts.arguments.keywords)
            checked(PyDict_SetItem(named.get(), keyword.name, as_policy(tracer, keyword.value).get()));
        return checked(PyObject_Call(reinterpret_cast<PyObject*>(value->type()), given.get(), named.get()));
    }
    if (Ref<> constant = value->as_constant(tracer)) return constant;
    PyObject* known = value->object();
    if (known == nullptr || value->source == nullptr)
        refuse(tracer, "is called with a context_fn that is made in the compiled function");
    tracer.guard({GuardKind::Identity, value->source, known});
    return Ref<>::share(known);
}

/// Whether it is `functools.partial(create_selective_checkpoint_contexts, ...)`.
bool is_selective(Tracer& tracer, Value* value) {
    static PyObject* const maker =
        find_imported("torch.utils.checkpoint", "create_selective_checkpoint_contexts").release();
    static PyObject* const partial = imported("functools", "partial");
    return maker != nullptr && value->source != nullptr && reinterpret_cast<PyObject*>(value->type()) == partial &&
           parts_of_partial(tracer, value).function->object() == maker;
}

/// A function from outside, or one that is put together of constants: the graph calls it.
PyObject* as_function(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (is_selective(tracer, value)) return tracer.keep(as_policy(tracer, value));
    if (PyObject* known = value->object(); known != nullptr && value->source != nullptr) {
        tracer.guard({GuardKind::Identity, value->source, known});
        return known;
    }
    Ref<> made = value->as_constant(tracer);
    if (!made) refuse(tracer, "is called with a context_fn that is made in the compiled function");
    return tracer.keep(std::move(made));
}

Checkpoint take_apart(Tracer& tracer, const Arguments& given) {
    static PyObject* const no_contexts = imported("torch.utils.checkpoint", "noop_context_fn");
    Checkpoint call;
    if (given.positional.empty()) refuse(tracer, "is passed as a keyword argument");
    call.function = given.positional[0];
    call.arguments.positional.assign(given.positional.begin() + 1, given.positional.end());
    bool is_reentrant = true, says_which = false;
    for (const Keyword& keyword : given.keywords) {
        std::string_view name = utf8(keyword.name);
        if (name == "use_reentrant") {
            is_reentrant = as_bool(tracer, keyword);
            says_which = true;
        } else if (name == "preserve_rng_state") {
            call.preserves_random_state = as_bool(tracer, keyword);
        } else if (name == "early_stop") {
            call.stops_early = as_bool(tracer, keyword);
        } else if (name == "debug") {
            if (as_bool(tracer, keyword)) refuse(tracer, "is called with debug=True");
        } else if (name == "context_fn") {
            PyObject* contexts = as_function(tracer, keyword.value);
            if (contexts != no_contexts) call.contexts = contexts;
        } else if (name == "determinism_check") {
            Ref<> check = keyword.value->as_constant(tracer);
            if (!check || !PyUnicode_Check(check.get()) ||
                (utf8(check.get()) != "default" && utf8(check.get()) != "none"))
                refuse(tracer, "is called with a custom determinism_check");
            call.determinism_check = utf8(check.get());
        } else {
            call.arguments.keywords.push_back(keyword);
        }
    }
    if (!says_which) refuse(tracer, "does not say whether it is reentrant; pass use_reentrant=False");
    call.is_reentrant = is_reentrant;
    if (is_reentrant && (call.contexts != Py_None || !call.arguments.keywords.empty()))
        refuse(tracer, "uses reentrant checkpointing with keyword arguments; pass use_reentrant=False");
    return call;
}

/// The current state of everything that the function could mutate without recording a side effect.
std::vector<const Value*> within_reach(Tracer& tracer, const Checkpoint& call) {
    std::vector<const Value*> roots{call.function};
    for (const Value* argument : call.arguments.positional) roots.push_back(argument);
    for (const Keyword& keyword : call.arguments.keywords) roots.push_back(keyword.value);
    for (const Effect& effect : tracer.effects().entries())
        roots.insert(roots.end(), effect.from.begin(), effect.from.end());
    std::optional<std::vector<const Value*>> found = reachable(std::move(roots));
    if (!found) refuse(tracer, "may have side effects");
    return *std::move(found);
}

/// The tensors in the function's result that it created.
std::vector<TensorValue*> results_of(Tracer& tracer, Value* given) {
    std::optional<std::vector<const Value*>> found = reachable({given});
    if (!found) refuse(tracer, "returns a " + given->print());
    std::vector<TensorValue*> results;
    for (const Value* value : *found) {
        auto* tensor = cast<TensorValue>(const_cast<Value*>(value));
        if (tensor == nullptr || !tracer.deferred_graphs().is_made_inside(tensor)) continue;
        if (tensor->is_row) refuse(tracer, "returns a tensor obtained by iterating over another tensor");
        if (std::ranges::find(results, tensor) == results.end()) results.push_back(tensor);
    }
    return results;
}

/// Whether a tensor that the function is given requires a gradient: without one, reentrant checkpointing gives none.
bool is_given_gradient(Tracer& tracer, const Checkpoint& call) {
    return std::ranges::any_of(call.arguments.positional, [&](Value* argument) {
        if (argument->kind == Kind::Tensor) tracer.realize(argument);
        const auto* tensor = cast<TensorValue>(argument);
        return tensor != nullptr && tensor->meta->requires_grad;
    });
}

/// The results of reentrant checkpointing have a history of their own. (Its forward pass runs without gradients.)
void settle_reentrant(Tracer& tracer, std::span<TensorValue* const> results, Value* given) {
    std::optional<std::vector<const Value*>> found = reachable({given});
    const bool is_plain = given->kind == Kind::Tensor || (given->kind == Kind::Tuple && given->type() == &PyTuple_Type);
    if (!is_plain || !found) refuse(tracer, "uses reentrant checkpointing and returns a " + given->print());
    for (const Value* value : *found)
        if (value != nullptr && value->kind == Kind::Tensor && std::ranges::find(results, value) == results.end())
            refuse(tracer, "uses reentrant checkpointing and returns a tensor that it was given");
    for (TensorValue* result : results) {
        if (result->view_of != nullptr) refuse(tracer, "uses reentrant checkpointing and returns a view");
        auto* meta = tracer.recorder().graph_arena().make<torch_room::TensorMeta>(*result->meta);
        meta->requires_grad = torch_room::can_have_grad(meta->dtype);
        meta->is_leaf = !meta->requires_grad;
        set_undoably(tracer, result->meta, meta);
    }
}

Task run_checkpointed(Tracer& tracer, Checkpoint call) {
    expect_no_transform(tracer, "activation checkpointing");
    static PyObject* const maker = imported("stator.checkpoints", "Checkpointed");
    std::vector<const Value*> before = within_reach(tracer, call);
    const std::size_t effects = tracer.effects().size();
    const torch_room::Modes around = tracer.modes().current();
    torch_room::Modes modes = around;
    if (call.is_reentrant) {
        if (!is_given_gradient(tracer, call)) refuse(tracer, "uses reentrant checkpointing without gradients");
        modes.grad = false;
        tracer.modes().set(modes);
        tracer.modes().set_runs_in_any_grad_mode(true);
    }
    tracer.deferred_graphs().begin(DeferredGraph::Kind::Recomputed);
    bool raises = false;
    Value* given = nullptr;
    try {
        given = co_await operations::call(tracer, call.function, call.arguments);
    } catch (const Raised&) {
        raises = true;
    }
    if (raises) refuse(tracer, "raises an exception");
    if (tracer.effects().size() != effects || tracer.modes().current() != modes || within_reach(tracer, call) != before)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "HOP: Unsafe side effect: a checkpointed function has side effects");
    tracer.realize(given);
    std::vector<TensorValue*> results = results_of(tracer, given);
    settle_views(tracer, results);
    if (call.is_reentrant) {
        settle_reentrant(tracer, results, given);
        tracer.modes().set_runs_in_any_grad_mode(false);
        tracer.modes().set(around);
    }
    std::vector<Value*> outputs(results.begin(), results.end());
    DeferredGraph recomputed = tracer.deferred_graphs().end({}, outputs);
    if (!recomputed.rereads.empty())
        tracer.break_graph(BreakKind::ReadInBackward, "a checkpointed function reads " + recomputed.rereads +
                                                          ", which may change before it is recomputed");
    if (results.empty() && !recomputed.has_effect && !recomputed.is_visible_to_program) co_return given;
    // PyTorch holds the function's own arguments against what they were, and reads all else anew.
    Ref<> given_to_it = checked(PyList_New(0));
    for (std::size_t i = 0; i < recomputed.reads.size(); ++i)
        if (std::ranges::find(call.arguments.positional, recomputed.reads[i]) != call.arguments.positional.end())
            checked(PyList_Append(given_to_it.get(), checked(PyLong_FromSize_t(i)).get()));
    PyObject* target = tracer.keep(checked(PyObject_CallFunction(
        maker, "OOOOsOOO", recomputed.runner, given_to_it.get(), recomputed.is_visible_to_program ? Py_True : Py_False,
        call.preserves_random_state ? Py_True : Py_False, call.determinism_check.c_str(),
        call.stops_early ? Py_True : Py_False, call.is_reentrant ? Py_True : Py_False, call.contexts)));
    Arguments arguments;
    arguments.positional.assign(recomputed.reads.begin(), recomputed.reads.end());
    tracer.deferred_graphs().emit_recomputed(target, arguments, results, recomputed);
    co_return given;
}

Outcome checkpoint(Tracer& tracer, const Arguments& arguments) {
    Checkpoint call = take_apart(tracer, arguments);
    // Without gradients there is nothing to compute again; and what is computed again is so as a whole.
    if (!tracer.modes().current().grad || tracer.deferred_graphs().is_open())
        return operations::call(tracer, call.function, call.arguments);
    return tracer.start(run_checkpointed(tracer, std::move(call)));
}

}  // namespace

void register_checkpoints(Handlers& handlers) {
    handlers.add("torch.utils.checkpoint", "checkpoint", checkpoint);
}

}  // namespace stator
