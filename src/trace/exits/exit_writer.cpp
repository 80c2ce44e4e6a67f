#include "trace/exits/exit_writer.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/tensor/gradients.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// Whether `except name` does not catch GeneratorExit.
bool lets_exit_pass(const FunctionValue& function, Borrowed<> name) {
    PyObject* named = PyDict_GetItemWithError(function.globals, name);
    if (named == nullptr) named = PyDict_GetItemWithError(function.builtins, name);
    return named != nullptr && PyExceptionClass_Check(named) &&
           !PyErr_GivenExceptionMatches(PyExc_GeneratorExit, named);
}

/// Whether raising GeneratorExit at an instruction runs no code of the program: its handlers only clean up or catch
/// other exceptions.
bool exits_without_code(const FunctionValue& function, const bytecode::Code& code, bytecode::Index at) {
    using bytecode::Op;
    while (const bytecode::Handler* handler = code.handler_for(at)) {
        at = handler->target;
        // From 3.12 on every generator has a handler around its whole body, which converts StopIteration.
        if (code[at].op == Op::CallIntrinsic1) return true;
        for (; code[at].op != Op::Reraise; at = at.next()) {
            Op op = code[at].op;
            bool tidies = op == Op::Copy || op == Op::PopExcept || op == Op::LoadConst || op == Op::StoreFast ||
                          op == Op::DeleteFast || op == Op::StoreDeref || op == Op::DeleteDeref ||
                          op == Op::PushExcInfo || op == Op::BuildTuple;
            if (op == Op::LoadGlobal) tidies = lets_exit_pass(function, code.name(code[at].arg));
            if (op == Op::CheckExcMatch) {
                at = at.next();
                if (code[at].op != Op::PopJumpIfFalse) return false;
                at = bytecode::Index{code[at].target.value - 1};
                continue;
            }
            if (!tidies) return false;
        }
    }
    return true;
}

}  // namespace

bool ExitWriter::runs_code_when_dropped(const PlanBuilder& plan, const GeneratorValue* generator) const {
    if (generator->finished || generator->frame == nullptr || plan.known(generator) >= 0) return false;
    // Python warns of a coroutine that was never awaited, and an event loop closes an asynchronous generator.
    if (!generator->started) return generator->class_ == &PyCoro_Type;
    if (generator->class_ == &PyAsyncGen_Type) return true;
    const auto& frame = static_cast<const BytecodeFrame&>(*generator->frame);
    return !exits_without_code(*frame.function, *frame.code, frame.at);
}

void ExitWriter::check_dropped_generators(const PlanBuilder& plan) const {
    for (GeneratorValue* generator : generators_)
        if (runs_code_when_dropped(plan, generator))
            throw Break{BreakKind::UnknownObject,
                        "the " + generator->print() +
                            (!generator->started                     ? " is never awaited"
                             : generator->class_ == &PyAsyncGen_Type ? " is dropped before it has ended"
                                                                     : " is dropped while suspended inside a try "
                                                                       "or with statement")};
}

namespace {

/// The operations that may fail or draw random numbers and whose results are not used for anything that the program can
/// observe; the last one first.
std::vector<graph::Node*> unused_operations(const graph::Graph& graph, const graph::Argument::Items& outputs) {
    std::vector<graph::Node*> found;
    auto matters = [](const graph::Node* node) { return node->may_fail || node->is_random; };
    if (std::ranges::none_of(graph.nodes(), matters)) return found;
    std::vector<bool> is_live(graph.size());
    auto use = [&](const graph::Node* node) { is_live[node->index] = is_live[memory_of(node)->index] = true; };
    for (const graph::Argument& output : outputs.values) use(output.node);
    for (std::size_t i = graph.size(); i-- > 0;) {
        graph::Node* node = graph.at(i);
        bool is_kept =
            node->is_visible_to_program && (!node->is_random || memory_of(node)->kind == graph::NodeKind::Placeholder);
        bool is_used = is_live[i] || is_kept || (node->has_effect && is_live[memory_of(node)->index]);
        if (!is_used && !matters(node)) continue;
        if (!is_used) found.push_back(node);
        for_each_input(*node, use);
    }
    return found;
}

/// Whether a function transform has wrapped the (first) tensor: it can't leave the graph.
bool is_wrapped(const graph::Result& result) {
    const graph::Result& first = result.items.empty() ? result : result.items.front();
    return first.kind == graph::Result::Kind::Tensor &&
           (first.tensor->dispatch_keys & torch_room::trait::kFunctorch) != 0;
}

/// Adds a `detach` of the (first) tensor that a node gives; null if it gives none.
graph::Node* detached(graph::Graph& graph, graph::Node* node) {
    using graph::Result;
    auto add = [&](graph::NodeKind kind, PyObject* target, std::vector<graph::Argument> arguments, Result result) {
        graph::Node* added = graph.add(kind, target, std::move(arguments));
        added->result = std::move(result);
        added->location = node->location;
        added->modules = node->modules;
        return added;
    };
    const Result* result = &node->result;
    graph::Node* tensor = node;
    if (!result->items.empty()) {
        result = &result->items.front();
        PyObject* first = graph.arena().keep(checked(PyLong_FromLong(0)));
        tensor = add(graph::NodeKind::Function, getitem_function(),
                     {graph::Argument::of(node), graph::Argument::of_constant(first)}, *result);
    }
    if (result->kind != Result::Kind::Tensor) return nullptr;
    auto* meta = graph.arena().make<torch_room::TensorMeta>(*result->tensor);
    meta->requires_grad = false;
    meta->is_leaf = true;
    Result plain;
    plain.kind = Result::Kind::Tensor;
    plain.tensor = meta;
    return add(graph::NodeKind::Method, interned("detach"), {graph::Argument::of(tensor)}, plain);
}

}  // namespace

TraceExit ExitWriter::finish(PlanBuilder plan, bool is_return) {
    graph::Graph& graph = recorder_.graph();
    auto* outputs = graph.arena().make<graph::Argument::Items>();
    for (const void* node : plan.outputs())
        outputs->values.push_back(graph::Argument::of(recorder_.rows().as_output(
            static_cast<graph::Node*>(const_cast<void*>(node)), is_return, recorder_.views())));
    if (offered_ != nullptr) outputs->values.push_back(graph::Argument::of(offered_));
    recorder_.views().check_outputs(*outputs);
    check_results_after_autograd(tracer_, *outputs);
    // Backends remove unused operations. Then an exception that the program would get is lost, or the following random
    // numbers are different. So the graph returns them.
    for (graph::Node* node : unused_operations(graph, *outputs))
        if (is_wrapped(node->result))
            recorder_.keep_as_captured();
        else if (graph::Node* result = detached(graph, node))
            outputs->values.push_back(graph::Argument::of(result));
    if (tracer_.run_by() == Tracer::RunBy::Compiler) recorder_.numbers().add_symbols_of_inputs();
    graph.add(graph::NodeKind::Output, interned("output"),
              {graph::Argument::of_items(graph::Argument::Kind::Tuple, outputs)});
    recorder_.numbers().replace_specialized();
    graph.finish();
    recorder_.writes().mark_readers_as_saved(graph);
    effects_.forget_dropped(plan);
    TraceExit exit;
    exit.fetched = plan.fetched();
    exit.plan = std::move(plan).finish();
    return exit;
}

namespace {

/// The register of the exception that is being handled, or `kUnchanged` if it is the one from before the trace.
std::int32_t rebuild_handled(PlanBuilder& plan, Value* handled) {
    if (handled == nullptr || (handled->source != nullptr && handled->source->access == Access::HandledException))
        return PlanFrame::kUnchanged;
    return handled->object() == Py_None ? -1 : handled->rebuild(plan);
}

}  // namespace

PlanBuilder ExitWriter::begin() {
    PlanBuilder plan;
    plan.gives_back_inputs = recorder_.writes().may_give_back_inputs();
    effects_.replay(plan);
    return plan;
}

namespace {

bool has_operations(const graph::Graph& graph) {
    return std::ranges::any_of(graph.nodes(), [](const graph::Node* node) {
        return node->kind != graph::NodeKind::Placeholder && node->kind != graph::NodeKind::Attribute;
    });
}

}  // namespace

/// With `fullgraph=True` the backend gets a graph of a function that only returns a tensor it was given, too, as with
/// torch.compile: tools that collect graphs count on one.
void ExitWriter::offer_inputs(Value* result) {
    auto* tensor = cast<TensorValue>(result);
    if (tensor == nullptr || tensor->source == nullptr || !tracer_.wants_one_graph() || !effects_.empty() ||
        has_operations(recorder_.graph()))
        return;
    try {
        tracer_.realize(tensor);
        offered_ = tensor->node;
    } catch (const Break&) {
        // A graph can't take this tensor.
    }
}

TraceExit ExitWriter::write_return(Value* result, const std::vector<GeneratorValue*>& held) {
    offer_inputs(result);
    PlanBuilder plan = begin();
    int returned = result->rebuild(plan);
    // The plan makes a real generator and drops it at its end: that runs what is left of its `try`.
    for (GeneratorValue* generator : held)
        if (runs_code_when_dropped(plan, generator)) generator->rebuild(plan);
    check_dropped_generators(plan);
    write_modes(plan, /*is_return=*/true);
    plan.set_handled_exception(rebuild_handled(plan, stack_.handled_exception));
    plan.add(PlanOp::Return, {returned});
    lifetimes_.add_dropped(plan);
    return finish(std::move(plan), /*is_return=*/true);
}

TraceExit ExitWriter::write_break(bool runs_callbacks) {
    PlanBuilder plan = begin();
    write_frames(plan, runs_callbacks);
    check_dropped_generators(plan);
    write_modes(plan, /*is_return=*/false);
    lifetimes_.find_dropped();
    lifetimes_.add_dropped(plan);
    return finish(std::move(plan), /*is_return=*/false);
}

namespace {

/// Whether the graph computes nothing: it only switches gradients on or off, and enters contexts that are still open.
/// It would undo that at its end, and the plan does it for the rest of the program.
bool only_sets_modes(const graph::Graph& graph, const std::vector<TorchModes::EnteredContext>& open) {
    auto sets_mode = [&](const graph::Node* node) {
        if (node->kind == graph::NodeKind::Placeholder || node->kind == graph::NodeKind::Attribute) return true;
        if (node->target == torch_room::known().set_grad_enabled) return true;
        return std::ranges::any_of(open, [&](const TorchModes::EnteredContext& context) {
            return context.token == node && context.restores == TorchModes::Restores::Nothing;
        });
    };
    return std::ranges::all_of(graph.nodes(), sets_mode);
}

}  // namespace

void ExitWriter::write_modes(PlanBuilder& plan, bool is_return) {
    // The plan sets the modes of the program after the graph, because backends differ in whether a graph that leaves
    // modes changed has an effect. At a graph break the graph restores them; at a return torch._dynamo's graphs don't
    // either.
    TorchModes& modes = tracer_.modes();
    const torch_room::Modes reached = modes.current(), entry = modes.at_entry();
    const std::vector<TorchModes::EnteredContext> open = modes.contexts();
    // A function that only sets modes has a graph, as with torch._dynamo; what is left of it after a graph break has
    // none.
    const bool is_idle =
        (!is_return || recorder_.is_resumed()) && plan.outputs().empty() && only_sets_modes(recorder_.graph(), open);
    while (!modes.contexts().empty()) modes.pop_context(modes.contexts().back().manager);
    if (is_idle) recorder_.graph().take(0);
    if (!is_return && !is_idle && modes.current().grad != entry.grad)
        recorder_.emit_switch(torch_room::known().set_grad_enabled, Arguments::of(tracer_.boolean(entry.grad)));
    torch_room::Modes left = modes.current();
    left.grad = entry.grad;
    // What the program has set directly is left set by the graph, if it runs as it was captured.
    STATOR_CHECK(left == entry || modes.are_set_directly(), "a mode that no context has changed");
    if (modes.are_set_directly() && (left != entry || modes.autocast_nesting() != 0)) recorder_.keep_as_captured();
    write_settings(plan, is_return);
    for (const TorchModes::EnteredContext& context : open)
        plan.add(PlanOp::Call, {context.manager->rebuild(plan)}, context.enter);
    if (reached.grad != entry.grad || !open.empty())
        plan.add(PlanOp::Call, {plan.constant(reached.grad ? Py_True : Py_False)},
                 torch_room::known().set_grad_enabled);
    write_function_modes(plan);
}

/// The last thing that a plan calls: modes see calls of PyTorch.
void ExitWriter::write_function_modes(PlanBuilder& plan) {
    static PyObject* const pop = imported("torch._C", "_pop_torch_function_stack");
    static PyObject* const push = imported("torch._C", "_push_on_torch_function_stack");
    const std::vector<Value*>&entry = tracer_.modes().function_modes_at_entry(),
          &reached = tracer_.modes().function_modes();
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(entry, reached).in1 - entry.begin());
    for (std::size_t i = same; i < entry.size(); ++i) plan.add(PlanOp::Call, {}, pop);
    for (std::size_t i = same; i < reached.size(); ++i) plan.add(PlanOp::Call, {reached[i]->rebuild(plan)}, push);
}

/// At a graph break the graph restores the settings that it has changed. The plan sets those that the program has
/// reached.
void ExitWriter::write_settings(PlanBuilder& plan, bool is_return) {
    const torch_room::Settings reached = torch_room::current_settings();
    const torch_room::Settings& entry = tracer_.modes().settings_at_entry();
    const auto restoring =
        is_return ? std::vector<torch_room::SettingCall>() : torch_room::calls_between(reached, entry);
    for (const torch_room::SettingCall& call : restoring) {
        Arguments arguments;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call.arguments.get()); ++i)
            arguments.positional.push_back(tracer_.fresh(Ref<>::share(PyTuple_GET_ITEM(call.arguments.get(), i))));
        PyObject *name = nullptr, *value = nullptr;
        for (Py_ssize_t at = 0; call.keywords && PyDict_Next(call.keywords.get(), &at, &name, &value) != 0;)
            arguments.keywords.push_back({tracer_.keep(Ref<>::share(name)), tracer_.fresh(Ref<>::share(value))});
        recorder_.emit_effect(recorder_.graph_arena().keep(Ref<>::share(call.function.get())), arguments);
    }
    for (const torch_room::SettingCall& call : torch_room::calls_between(entry, reached)) {
        std::vector<std::int32_t> from;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call.arguments.get()); ++i)
            from.push_back(plan.constant(PyTuple_GET_ITEM(call.arguments.get(), i)));
        if (call.keywords) from.push_back(plan.constant(call.keywords.get()));
        plan.add(call.keywords ? PlanOp::CallNamed : PlanOp::Call, std::move(from), call.function.get());
    }
}

namespace {

/// Whether a slot of the entered frame holds the same object as at the start.
bool is_unchanged(const Value* value, int slot) {
    return value != nullptr && value->source != nullptr && value->source->access == Access::Slot &&
           value->source->number == slot;
}

}  // namespace

void ExitWriter::write_frames(PlanBuilder& plan, bool runs_callbacks) {
    std::vector<PlanContinuation> continuations;
    std::size_t generators = 0;
    for (std::size_t depth = 0; depth < stack_.frames.size(); ++depth) {
        if (stack_.frames[depth]->is_task) {
            const Continuation& continuation =
                static_cast<TaskFrame&>(*stack_.frames[depth]).task.promise().continuation;
            int from = continuation.value == nullptr ? -1 : continuation.value->rebuild(plan);
            STATOR_CHECK(continuation.kind.has_value(), "a frame above a task without a known continuation");
            continuations.insert(continuations.begin(), {*continuation.kind, from});
            continue;
        }
        auto& frame = static_cast<BytecodeFrame&>(*stack_.frames[depth]);
        const bool is_entered = depth == 0, is_innermost = depth + 1 == stack_.frames.size();
        PlanFrame state;
        state.code = frame.function->code;
        state.instruction = frame.at.value;
        state.continuations = std::exchange(continuations, {});
        if (frame.generator != nullptr) {
            state.generator = frame.generator->rebuild(plan);
            ++generators;
        } else if (!is_entered) {
            state.function = frame.function->rebuild(plan);
        }
        if (is_entered || frame.generator != nullptr)
            state.handled_exception =
                rebuild_handled(plan, generators < stack_.handled_around.size() ? stack_.handled_around[generators]
                                                                                : stack_.handled_exception);
        write_slots(plan, state, frame, is_entered);
        write_stack(plan, state, frame, is_innermost);
        state.runs_callbacks = is_innermost && runs_callbacks;
        plan.add_frame(std::move(state));
    }
}

void ExitWriter::write_slots(PlanBuilder& plan, PlanFrame& state, const BytecodeFrame& frame, bool is_entered) {
    for (int slot = 0; slot < static_cast<int>(frame.slots.size()); ++slot) {
        Value* value = frame.slots[static_cast<std::size_t>(slot)];
        if (is_entered && is_unchanged(value, slot)) continue;
        state.slots.push_back({slot, value == nullptr ? -1 : value->rebuild(plan)});
    }
}

void ExitWriter::write_stack(PlanBuilder& plan, PlanFrame& state, const BytecodeFrame& frame, bool is_innermost) {
    // A waiting instruction has popped its operands when it gets the result.
    std::size_t operands = is_innermost ? 0 : static_cast<std::size_t>(frame.pops);
    for (std::size_t i = 0; i + operands < frame.stack.size(); ++i)
        state.stack.push_back(frame.stack[i] == stack_.null ? -1 : frame.stack[i]->rebuild(plan));
    // `with` calls `__enter__` once it has got `__exit__`.
    const bytecode::Op op = (*frame.code)[frame.at].op;
    if (!is_innermost && (op == bytecode::Op::BeforeWith || op == bytecode::Op::BeforeAsyncWith))
        state.stack.push_back(frame.held->rebuild(plan));
}

}  // namespace stator
