/// `torch.autograd.Function`: `forward` is inlined with gradients disabled, like any call. If a gradient is needed,
/// `backward` is traced right away into a separate graph, and a node attaches that graph to the results as their
/// history. So everything that both read is guarded, side effects of `forward` are replayed, and no code of the
/// Function runs later. `backward` must have no side effects, and everything that it reads has the value from when
/// `forward` was called.
#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/dtypes.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/protocol/reachable.h"
#include "value/recorder.h"
#include "value/tensor/applied_functions.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/marked_functions.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "a torch.autograd.Function " + why);
}

bool contains(const std::vector<Value*>& values, const Value* value) {
    return std::ranges::find(values, value) != values.end();
}

/// The `ctx` of `forward` and `backward`.
struct FunctionContext final : ObjectValue {
    FunctionContext(PyTypeObject* type, std::vector<Value*> needs)
        : ObjectValue(type), needs_input_grad(std::move(needs)) {}

    std::vector<Value*> needs_input_grad;
    std::vector<Value*> saved, written, non_differentiable;
    bool materializes_gradients = true;
    bool is_in_backward = false;

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override {
        if (name.get() == interned("needs_input_grad")) return make_tuple(tracer, needs_input_grad);
        if (name.get() == interned("saved_tensors") || name.get() == interned("saved_variables")) {
            if (!is_in_backward) refuse(tracer, "reads its saved tensors in forward");
            return make_tuple(tracer, saved);
        }
        return ObjectValue::get_attribute(tracer, name);
    }

    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override {
        if (value == nullptr || is_in_backward) refuse(tracer, "sets '" + std::string(utf8(name)) + "' in backward");
        tracer.realize(value);
        if (name.get() == interned("materialize_grads")) {
            Ref<> wanted = value->as_constant(tracer);
            if (!wanted || !PyBool_Check(wanted.get()))
                refuse(tracer, "calls set_materialize_grads with a value that is not a constant bool");
            set_undoably(tracer, materializes_gradients, wanted.get() == Py_True);
            return true;
        }
        std::vector<Value*>* kept = name.get() == interned("to_save")              ? &saved
                                    : name.get() == interned("dirty_tensors")      ? &written
                                    : name.get() == interned("non_differentiable") ? &non_differentiable
                                                                                   : nullptr;
        if (kept == nullptr) return false;
        if (value->kind != Kind::Tuple)
            refuse(tracer, "sets '" + std::string(utf8(name)) + "' to an object that is not a tuple");
        std::vector<Value*> items = static_cast<TupleValue*>(value)->all(tracer);
        for (Value* item : items) {
            tracer.realize(item);
            if (item->kind != Kind::Tensor && (item->object() != Py_None || kept != &saved))
                refuse(tracer, "saves or marks an object that is not a tensor");
        }
        set_undoably(tracer, *kept, std::move(items));
        return true;
    }

    int rebuild(PlanBuilder&) override {
        throw Break{BreakKind::Rebuild, "the ctx of a torch.autograd.Function is still used after the captured region"};
    }
    std::string print() const override { return "context of " + type_name(class_); }
};

PyTypeObject* function_class() {
    static auto* const type = imported_class("torch.autograd.function", "Function");
    return type;
}

/// The method that a class inherits from `torch.autograd.Function`.
PyObject* inherited(const char* name) {
    return checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(function_class()), name)).release();
}

void switch_gradients(Tracer& tracer, bool enabled) {
    torch_room::Modes modes = tracer.modes().current();
    if (modes.grad == enabled) return;
    modes.grad = enabled;
    tracer.recorder().emit_switch(torch_room::known().set_grad_enabled, Arguments::of(tracer.boolean(enabled)));
    tracer.modes().set(modes);
}

/// One call of `apply`.
struct Application {
    ClassValue* function;
    std::vector<Value*> arguments;
    std::vector<Keyword> keywords;
    FunctionContext* context = nullptr;
    bool needs_gradient = false;
    Value* result = nullptr;      // of `forward`
    std::vector<Value*> results;  // the same, as a list
    std::vector<TensorValue*> differentiable;
};

/// `backward`, traced for gradients of which some may be None.
struct TracedBackward {
    std::vector<bool> is_given;       // for each differentiable result, whether its gradient is a tensor
    DeferredGraph graph;              // takes the gradients that are tensors
    PyObject* raises = nullptr;       // the class of what the backward pass raises; null if nothing
    PyObject* raises_with = nullptr;  // its arguments
};

/// Puts keyword arguments into the places that they have in `forward`, and, if `setup_context` sees them (`is_bound`),
/// the omitted arguments too: otherwise these do not count as arguments.
void bind_arguments(Tracer& tracer, Application& call, Value* forward, bool is_bound) {
    if (!is_bound && call.keywords.empty()) return;
    auto* function = cast<FunctionValue>(forward);
    if (function == nullptr) refuse(tracer, "has a forward that is not a Python function");
    PyCodeObject* code = function->code;
    if (code->co_kwonlyargcount > 0 || (code->co_flags & CO_VARKEYWORDS) != 0)
        refuse(tracer, "takes keyword arguments only");
    Ref<> names = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "co_varnames"));
    const std::size_t before = is_bound ? 0 : 1;  // `ctx`
    const auto wanted = static_cast<std::size_t>(code->co_argcount) - before;
    const std::size_t first_default = wanted - std::min(wanted, function->default_count());
    std::size_t bound = 0;
    while (call.arguments.size() < wanted) {
        const std::size_t place = call.arguments.size();
        auto named = std::ranges::find_if(call.keywords, [&](const Keyword& keyword) {
            return utf8(keyword.name) == utf8(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(place + before)));
        });
        if (named != call.keywords.end() && place + before >= static_cast<std::size_t>(code->co_posonlyargcount)) {
            call.arguments.push_back(named->value);
            ++bound;
        } else if (is_bound && place >= first_default) {
            call.arguments.push_back(function->default_at(tracer, place - first_default));
        } else {
            break;
        }
    }
    if (bound != call.keywords.size()) refuse(tracer, "is applied with keyword arguments that its forward omits");
}

/// Processes the results of `forward` as PyTorch does, while gradients are still disabled: an argument that is returned
/// becomes a view, because the result has its own history.
void settle_results(Tracer& tracer, Application& call) {
    const FunctionContext* context = call.context;
    tracer.realize(call.result);
    bool is_tuple = call.result->kind == Kind::Tuple && call.result->type() == &PyTuple_Type;
    // (PyTorch makes a tuple of a named tuple.)
    if (!is_tuple && call.result->kind == Kind::Tuple) refuse(tracer, "returns a " + call.result->print());
    call.results = {call.result};
    if (is_tuple) call.results = static_cast<TupleValue*>(call.result)->all(tracer);
    for (Value* result : call.results) tracer.realize(result);
    for (Value* written : context->written)
        if (!contains(call.results, written)) refuse(tracer, "marks a tensor with mark_dirty that it does not return");
    for (std::size_t i = 0; i < call.results.size(); ++i) {
        Value*& result = call.results[i];
        if (result->kind == Kind::TensorObject) refuse(tracer, "returns a " + result->print());
        auto* tensor = cast<TensorValue>(result);
        if (tensor == nullptr) continue;  // what is no tensor is returned as it is
        if (std::ranges::count(call.results, result) > 1) refuse(tracer, "returns a tensor twice");
        if (tensor->is_row) refuse(tracer, "returns a tensor obtained by iterating over another tensor");
        bool is_written = contains(context->written, tensor);
        bool is_argument = contains(call.arguments, tensor);
        bool is_marked = contains(context->non_differentiable, tensor);
        bool has_gradient = call.needs_gradient && !is_marked && torch_room::can_have_grad(tensor->meta->dtype);
        if (is_argument && !is_written) {
            bool is_cut = !has_gradient && tensor->meta->requires_grad;
            Arguments arguments = is_cut ? Arguments::of(tensor) : Arguments::of(tensor, tensor);
            result = tracer.recorder().emit_method(interned(is_cut ? "detach" : "view_as"), arguments);
            tensor = static_cast<TensorValue*>(result);
        } else if (!is_argument && ((tensor->meta->requires_grad && tensor->view_of == nullptr) ||
                                    (has_gradient && tensor->source != nullptr))) {
            // (A view requires grad if its base does, even if it was not recorded.)
            refuse(tracer, "returns a tensor that it did not create");
        } else if (is_written && call.needs_gradient) {
            bool is_simple = tensor->source == nullptr && tensor->view_of == nullptr && !tensor->refuses_writes &&
                             !(tensor->meta->is_leaf && tensor->meta->requires_grad) && has_gradient;
            if (!is_simple) refuse(tracer, "writes to an input of the graph, a view or a leaf");
        }
        if (has_gradient) call.differentiable.push_back(tensor);
    }
    if (is_tuple) call.result = make_tuple(tracer, call.results);
    if (!is_tuple) call.result = call.results[0];
}

/// The arguments of `backward`: a placeholder for each gradient that is given, zeros for results without one.
std::vector<Value*> gradients_of(Tracer& tracer, const Application& call, const std::vector<bool>& is_given,
                                 std::vector<TensorValue*>& stand_ins) {
    static PyObject* const like = imported("torch", "empty_like");
    static PyObject* const zeros = imported("torch", "zeros");
    std::vector<Value*> gradients;
    for (Value* result : call.results) {
        auto* tensor = cast<TensorValue>(result);
        const auto place = std::ranges::find(call.differentiable, tensor) - call.differentiable.begin();
        const bool is_differentiable = tensor != nullptr && place < std::ssize(call.differentiable);
        if (tensor == nullptr || (is_differentiable && !is_given[static_cast<std::size_t>(place)]) ||
            (!is_differentiable && !call.context->materializes_gradients)) {
            gradients.push_back(tracer.none());
        } else if (is_differentiable) {
            auto* gradient = static_cast<TensorValue*>(tracer.recorder().emit_function(like, Arguments::of(tensor)));
            gradient->is_gradient = true;
            stand_ins.push_back(gradient);
            gradients.push_back(gradient);
        } else {
            Arguments arguments = Arguments::of(size_values(tracer, tensor->meta->sizes));
            arguments.keywords.push_back(
                {interned("dtype"), tracer.constant(torch_room::dtype_object(tensor->meta->dtype))});
            arguments.keywords.push_back(
                {interned("device"), tracer.fresh(torch_room::device_object(tensor->meta->device))});
            gradients.push_back(tracer.recorder().emit_function(zeros, arguments));
        }
    }
    return gradients;
}

/// What PyTorch raises about these results of `backward`; empty if they fit.
std::string error_about(const Application& call, const std::vector<Value*>& gradients) {
    const std::string start =
        "function " + std::string(utf8(checked(PyType_GetName(call.function->held)).get())) + "Backward returned a";
    if (gradients.size() != call.arguments.size())
        return start + "n incorrect number of gradients (expected " + std::to_string(call.arguments.size()) + ", got " +
               std::to_string(gradients.size()) + ")";
    for (std::size_t i = 0; i < gradients.size(); ++i)
        if (call.arguments[i]->kind != Kind::Tensor && gradients[i]->object() != Py_None)
            return start + " gradient different than None at position " + std::to_string(i + 1) +
                   ", but the corresponding forward input was not a Variable";
    return {};
}

/// A compiler traces the backward pass for gradients that are all tensors: one that raises for others is left as it was
/// captured.
void expect_raising_is_possible(Tracer& tracer) {
    if (tracer.run_by() != Tracer::RunBy::Compiler) return;
    if (!tracer.wants_one_graph()) refuse(tracer, "raises an exception in backward");
    tracer.recorder().keep_as_captured();
}

/// The gradients of the arguments that need one, among the results of `backward`; or what PyTorch raises about them.
std::vector<Value*> gradients_for_arguments(Tracer& tracer, const Application& call, Value* given,
                                            TracedBackward& traced) {
    tracer.realize(given);
    std::vector<Value*> gradients{given};
    if (given->kind == Kind::Tuple)
        gradients = static_cast<TupleValue*>(given)->all(tracer);
    else if (given->kind != Kind::Tensor && given->object() != Py_None)
        refuse(tracer, "returns a " + given->print() + " in backward");
    for (Value* gradient : gradients) tracer.realize(gradient);
    while (gradients.size() > call.arguments.size() && gradients.back()->object() == Py_None) gradients.pop_back();
    std::vector<Value*> wanted;
    if (const std::string error = error_about(call, gradients); !error.empty()) {
        traced.raises = PyExc_RuntimeError;
        traced.raises_with = tracer.keep(checked(Py_BuildValue("(s)", error.c_str())));
        return wanted;
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        auto* argument = cast<TensorValue>(call.arguments[i]);
        bool is_tensor = gradients[i]->kind == Kind::Tensor;
        if (!is_tensor && gradients[i]->object() != Py_None) refuse(tracer, "returns a gradient that is not a tensor");
        if (argument != nullptr && argument->meta->requires_grad) wanted.push_back(gradients[i]);
    }
    return wanted;
}

/// The tensors that the node takes, and where each traced `backward` finds what it reads among them.
struct HistoryOperands {
    std::vector<TensorValue*> tensors;  // the inputs that get a gradient, then the results
    std::size_t inputs;
    std::vector<Value*> others;  // what is read besides

    std::size_t place_of(Tracer& tracer, TensorValue* read) {
        const auto known = static_cast<std::size_t>(std::ranges::find(tensors, read) - tensors.begin());
        if (known >= inputs && known < tensors.size() && read->view_of != nullptr)
            refuse(tracer, "reads, in backward, a view that it returned");
        if (known < tensors.size()) return known;
        const auto other = static_cast<std::size_t>(std::ranges::find(others, read) - others.begin());
        if (other == others.size()) others.push_back(read);
        return tensors.size() + other;
    }
};

/// A traced `backward` as `AttachBackward` takes it.
Ref<> described(Tracer& tracer, const Application& call, const TracedBackward& traced, HistoryOperands& operands) {
    Ref<> given = checked(PyTuple_New(std::ssize(traced.is_given)));
    for (std::size_t i = 0; i < traced.is_given.size(); ++i)
        PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i), Py_NewRef(traced.is_given[i] ? Py_True : Py_False));
    Ref<> reads = checked(PyList_New(0)), saved = checked(PyList_New(0));
    for (TensorValue* read : traced.graph.reads) {
        checked(PyList_Append(reads.get(), checked(PyLong_FromSize_t(operands.place_of(tracer, read))).get()));
        checked(PyList_Append(saved.get(), contains(call.context->saved, read) ? Py_True : Py_False));
    }
    PyObject* none = Py_None;
    return checked(Py_BuildValue("(OOOOOO)", given.get(), traced.graph.runner, reads.get(), saved.get(),
                                 traced.raises == nullptr ? none : traced.raises,
                                 traced.raises == nullptr ? none : traced.raises_with));
}

/// The node that gives the results their history.
void attach(Tracer& tracer, const Application& call, const std::vector<TracedBackward>& backward, bool once) {
    static PyObject* const maker = imported("stator.custom_gradients", "AttachBackward");
    HistoryOperands operands;
    for (Value* argument : call.arguments)
        if (auto* tensor = cast<TensorValue>(argument); tensor != nullptr && tensor->meta->requires_grad)
            operands.tensors.push_back(tensor);
    operands.inputs = operands.tensors.size();
    Ref<> fresh = checked(PyList_New(0));
    for (TensorValue* result : call.differentiable) {
        checked(PyList_Append(fresh.get(), result->view_of == nullptr ? Py_True : Py_False));
        operands.tensors.push_back(result);
    }
    Ref<> branches = checked(PyList_New(0));
    for (const TracedBackward& traced : backward)
        checked(PyList_Append(branches.get(), described(tracer, call, traced, operands).get()));
    Ref<> name = checked(PyType_GetName(call.function->held));
    PyObject* target = tracer.keep(checked(PyObject_CallFunction(maker, "OOnOO", name.get(), branches.get(),
                                                                 static_cast<Py_ssize_t>(operands.inputs), fresh.get(),
                                                                 once ? Py_True : Py_False)));
    Arguments arguments;
    arguments.positional.assign(operands.tensors.begin(), operands.tensors.end());
    arguments.positional.push_back(make_tuple(tracer, std::move(operands.others)));
    tracer.deferred_graphs().emit_history(target, arguments, call.differentiable);
    for (TensorValue* result : call.differentiable)
        if (result->view_of != nullptr) set_undoably(tracer, result->refuses_writes, true);
}

std::vector<const Value*> reachable_by_backward(Tracer& tracer, const Application& call) {
    std::vector<const Value*> roots{call.context};
    for (const Effect& effect : tracer.effects().entries())
        roots.insert(roots.end(), effect.from.begin(), effect.from.end());
    std::optional<std::vector<const Value*>> found = reachable(std::move(roots));
    if (!found) refuse(tracer, "may have side effects in backward");
    return *std::move(found);
}

/// Which gradients may be given in one backward pass: all of them, or, if PyTorch is told not to make zeros, any.
std::vector<std::vector<bool>> cases_of(Tracer& tracer, const Application& call) {
    constexpr std::size_t kMost = 3;
    const std::size_t count = call.differentiable.size();
    if (call.context->materializes_gradients) return {std::vector<bool>(count, true)};
    if (count > kMost) refuse(tracer, "calls set_materialize_grads(False) and returns more than three tensors");
    std::vector<std::vector<bool>> cases;
    for (std::size_t bits = 0; bits < (std::size_t{1} << count); ++bits) {
        cases.emplace_back();
        for (std::size_t i = 0; i < count; ++i) cases.back().push_back((bits >> i & 1) == 0);
    }
    return cases;
}

/// What `backward` raises where gradients are None.
void note_raised(Tracer& tracer, const Value* raised, TracedBackward& traced) {
    const auto* exception = cast<ExceptionValue>(raised);
    bool is_known = exception != nullptr && !std::ranges::all_of(traced.is_given, std::identity());
    std::vector<Ref<>> constants;
    for (std::size_t i = 0; is_known && i < exception->arguments.size(); ++i) {
        constants.push_back(exception->arguments[i]->as_constant(tracer));
        is_known = bool(constants.back());
    }
    if (!is_known) refuse(tracer, "raises an exception in backward");
    expect_raising_is_possible(tracer);
    Ref<> arguments = checked(PyTuple_New(std::ssize(constants)));
    for (std::size_t i = 0; i < constants.size(); ++i)
        PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), constants[i].release());
    traced.raises = reinterpret_cast<PyObject*>(exception->class_);
    traced.raises_with = tracer.keep(std::move(arguments));
}

/// A backward pass runs where autocast is off, whatever it was in the forward pass.
torch_room::Modes modes_of_backward(torch_room::Modes modes) {
    for (torch_room::Modes::Autocast& autocast : modes.autocast) autocast.enabled = false;
    return modes;
}

/// Traces `backward` for each case.
Task trace_backward(Tracer& tracer, const Application& call, Value* backward, bool once,
                    std::vector<TracedBackward>& traced) {
    for (const std::vector<bool>& is_given : cases_of(tracer, call)) {
        TracedBackward one{is_given, {}};
        std::vector<const Value*> before = reachable_by_backward(tracer, call);
        const std::size_t effects = tracer.effects().size();
        const torch_room::Modes modes = tracer.modes().current(), inside = modes_of_backward(modes);
        tracer.deferred_graphs().begin(DeferredGraph::Kind::Backward);
        tracer.modes().set_runs_in_any_grad_mode(!once);
        tracer.modes().set(inside);
        std::vector<TensorValue*> stand_ins;
        Arguments arguments;
        arguments.positional = gradients_of(tracer, call, is_given, stand_ins);
        arguments.positional.insert(arguments.positional.begin(), call.context);
        const Value* raised = nullptr;
        Value* given = nullptr;
        try {
            given = co_await operations::call(tracer, backward, arguments);
        } catch (const Raised& exception) {
            raised = exception.exception;
        }
        if (tracer.deferred_graphs().put_back(tracer.effects().entries().subspan(effects)))
            tracer.effects().forget_from(effects);
        if (tracer.effects().size() != effects || tracer.modes().current() != inside ||
            reachable_by_backward(tracer, call) != before)
            refuse(tracer, "has side effects in backward");
        std::vector<Value*> wanted;
        if (raised != nullptr)
            note_raised(tracer, raised, one);
        else
            wanted = gradients_for_arguments(tracer, call, given, one);
        tracer.modes().set_runs_in_any_grad_mode(false);
        tracer.modes().set(modes);
        one.graph = tracer.deferred_graphs().end(stand_ins, wanted);
        if (!one.graph.rereads.empty())
            tracer.break_graph(BreakKind::ReadInBackward,
                               "a torch.autograd.Function reads " + one.graph.rereads +
                                   " in backward, which may change before the backward pass runs");
        traced.push_back(std::move(one));
    }
    co_return tracer.none();
}

/// Traces `backward` and attaches it to the results.
Task differentiate(Tracer& tracer, Application call) {
    static PyObject* const inherited_vjp = inherited("vjp");
    static PyObject* const inherited_backward = inherited("backward");
    static PyObject* const is_once = imported("stator.custom_gradients", "is_once_differentiable");
    Value* vjp = co_await call.function->get_attribute(tracer, interned("vjp"));
    Value* boxed = co_await operations::get_attribute_or(tracer, call.function, interned("boxed_grads_call"),
                                                         tracer.boolean(false));
    if (boxed->object() != Py_False) refuse(tracer, "sets boxed_grads_call");
    Value* backward = co_await call.function->get_attribute(tracer, interned("backward"));
    if (vjp->object() != inherited_vjp) {
        if (backward->object() != inherited_backward) refuse(tracer, "defines backward and vjp");
        backward = vjp;
    }
    tracer.realize(backward);
    auto* function = cast<FunctionValue>(backward);
    if (function == nullptr || function->outside == nullptr)
        refuse(tracer, "has a backward that is not a Python function");
    const bool once = checked(PyObject_CallOneArg(is_once, function->outside)).get() == Py_True;
    // The wrapper of this decorator reads the grad mode; the captured backward runs in both modes, so the wrapped
    // function is traced.
    if (once) backward = co_await backward->get_attribute(tracer, interned("__wrapped__"));
    call.context->is_in_backward = true;
    std::vector<TracedBackward> traced;
    co_await tracer.start(trace_backward(tracer, call, backward, once, traced));
    switch_gradients(tracer, true);
    attach(tracer, call, traced, once);
    co_return call.result;
}

Task apply(Tracer& tracer, Application call) {
    static PyObject* const inherited_setup = inherited("setup_context");
    Value* forward = co_await call.function->get_attribute(tracer, interned("forward"));
    Value* setup = co_await call.function->get_attribute(tracer, interned("setup_context"));
    const bool has_setup = setup->object() != inherited_setup;
    bind_arguments(tracer, call, forward, has_setup);

    const bool records = tracer.modes().current().grad;
    std::vector<Value*> needs;
    for (Value* argument : call.arguments) {
        if (argument->kind == Kind::Tensor) tracer.realize(argument);
        auto* tensor = cast<TensorValue>(argument);
        bool needs_gradient = tensor != nullptr && tensor->meta->requires_grad;
        if (tensor != nullptr && tensor->is_row)
            refuse(tracer, "takes a tensor obtained by iterating over another tensor");
        call.needs_gradient |= records && needs_gradient;
        needs.push_back(tracer.boolean(needs_gradient));
    }
    Value* context_class = co_await call.function->get_attribute(tracer, interned("_backward_cls"));
    auto* type = cast<ClassValue>(context_class);
    if (type == nullptr) refuse(tracer, "has no context class");
    call.context = tracer.make<FunctionContext>(type->held, std::move(needs));

    switch_gradients(tracer, false);
    // (GCC 12 frees temporaries of a conditional expression twice beside `co_await`.)
    Arguments for_forward;
    if (!has_setup) for_forward.positional.push_back(call.context);
    for (Value* argument : call.arguments) for_forward.positional.push_back(argument);
    Value* raised = nullptr;
    try {
        call.result = co_await operations::call(tracer, forward, for_forward);
        if (has_setup) {
            Arguments for_setup = Arguments::of(static_cast<Value*>(call.context));
            for_setup.positional.push_back(make_tuple(tracer, call.arguments));
            for_setup.positional.push_back(call.result);
            co_await operations::call(tracer, setup, for_setup);
        }
    } catch (const Raised& exception) {
        raised = exception.exception;
    }
    if (raised != nullptr) {
        switch_gradients(tracer, records);
        throw Raised{raised};
    }
    settle_results(tracer, call);
    if (!call.differentiable.empty()) co_return co_await tracer.start(differentiate(tracer, std::move(call)));
    switch_gradients(tracer, records);
    co_return call.result;
}

bool needs_gradient(Tracer& tracer, const Arguments& arguments) {
    if (!tracer.modes().current().grad) return false;
    auto requires_grad = [&](Value* argument) {
        if (argument->kind == Kind::Tensor) tracer.realize(argument);
        const auto* tensor = cast<TensorValue>(argument);
        return tensor != nullptr && tensor->meta->requires_grad;
    };
    return std::ranges::any_of(arguments.positional, requires_grad) ||
           std::ranges::any_of(arguments.keywords, requires_grad, &Keyword::value);
}

/// `Function.apply`; the first argument is the class.
Outcome method_apply(Tracer& tracer, const Arguments& arguments) {
    auto* function = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (function == nullptr) refuse(tracer, "is applied to a class that is not constant");
    static PyObject* const takes_keywords = imported("stator.custom_gradients", "takes_keyword_arguments");
    if (!arguments.keywords.empty() && checked(PyObject_CallNoArgs(takes_keywords)).get() != Py_True)
        refuse(tracer, "is applied with keyword arguments");
    tracer.realize(function);
    if (has_tensor_object(arguments)) refuse(tracer, "takes a tensor subclass");
    if (torch_room::is_marked_in_graph(function->object())) {
        Ref<> bound = checked(PyObject_GetAttrString(function->object(), "apply"));
        Arguments given = arguments;
        given.positional.erase(given.positional.begin());
        return call_in_graph(tracer, tracer.keep(std::move(bound)), given);
    }
    // Module backward hooks are registered on its autograd node, and count the inputs of that node.
    static PyObject* const of_hooks = imported("torch.nn.modules._functions", "BackwardHookFunction");
    if (function->object() == of_hooks) refuse(tracer, "of a module's backward hook is applied");
    if (tracer.recorder().is_in_transform()) return apply_in_transform(tracer, function, arguments);
    // (Such a graph may run with gradients even if it is traced without: then they are those of `backward`, and not
    // those of what `forward` computes.)
    if (tracer.deferred_graphs().runs_later() && (!tracer.modes().current().grad || needs_gradient(tracer, arguments)))
        return apply_in_checkpoint(tracer, function, arguments);
    Application call{function, {arguments.positional.begin() + 1, arguments.positional.end()}, arguments.keywords};
    return tracer.start(apply(tracer, std::move(call)));
}

}  // namespace

void register_autograd_functions(Handlers& handlers) {
    // A classmethod written in Python up to torch 2.13, and a method written in C since.
    PyObject* apply = cpython::lookup_in_mro(function_class(), interned("apply"));
    STATOR_CHECK(apply != nullptr, "torch.autograd.Function has no apply");
    if (PyObject_TypeCheck(apply, &PyClassMethod_Type))
        handlers.add(checked(PyObject_GetAttrString(apply, "__func__")).get(), method_apply);
    else
        handlers.add(apply, method_apply);
}

}  // namespace stator
