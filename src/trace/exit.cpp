/// The end of a trace: the plan of what is left to do after the graph, for a program that returned and for one that
/// goes on in real frames.
#include <algorithm>
#include <vector>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "trace/interpreter.h"

namespace stator {

namespace {

/// Whether `except` with what is named here lets GeneratorExit pass.
bool lets_exit_pass(const FunctionValue& function, Borrowed<> name) {
    PyObject* named = PyDict_GetItemWithError(function.globals, name);
    if (named == nullptr) named = PyDict_GetItemWithError(function.builtins, name);
    return named != nullptr && PyExceptionClass_Check(named) &&
           !PyErr_GivenExceptionMatches(PyExc_GeneratorExit, named);
}

/// Whether raising GeneratorExit at an instruction runs nothing of the program: what handles it there only tidies up or
/// asks for other exceptions, and so does what is around that.
bool leaves_quietly(const FunctionValue& function, const bytecode::Code& code, bytecode::Index at) {
    using bytecode::Op;
    while (const bytecode::Handler* handler = code.handler_for(at)) {
        at = handler->target;
        // From 3.12 on every generator has a handler around all of it that minds StopIteration.
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

void Interpreter::check_given_up_generators(const PlanBuilder& plan) {
    for (GeneratorValue* generator : generators_) {
        if (!generator->started || generator->finished || generator->frame == nullptr) continue;
        if (plan.known(generator) >= 0) continue;
        auto& frame = static_cast<BytecodeFrame&>(*generator->frame);
        if (leaves_quietly(*frame.function, *frame.code, frame.at)) continue;
        throw Break{BreakKind::UnknownObject, "the generator " + std::string(utf8(generator->name)) +
                                                  " is given up inside a try or with statement"};
    }
}

/// Iterating makes all rows in one operation, with what that means to autograd. At a return this is left out where no
/// gradient is asked for, as torch._dynamo does it.
graph::Node* Interpreter::as_output(graph::Node* node, bool is_return) {
    auto row = rows_.find(node);
    if (row == rows_.end()) return node;
    bool is_other_mode = row->second.with_grad != entry_modes_.grad;
    if (!row->second.needs_gradient && (is_return || is_other_mode)) return node;
    if (is_other_mode)
        throw Break{BreakKind::Rebuild, "a row of a tensor leaves the code that recorded no gradients", false};
    graph::Node*& unbound = unbound_[row->second.first];
    if (unbound == nullptr) {
        unbound = graph_->add(graph::NodeKind::Method, interned("unbind"), {graph::Argument::of(row->second.base)});
        unbound->location = node->location;
        unbound->modules = node->modules;
        unbound->result.kind = graph::Result::Kind::Tuple;
    }
    PyObject* index = graph_->arena().keep(checked(PyLong_FromSize_t(row->second.index)));
    graph::Node* part = graph_->add(graph::NodeKind::Function, node->target,
                                    {graph::Argument::of(unbound), graph::Argument::of_constant(index)});
    part->result = node->result;
    part->location = node->location;
    part->modules = node->modules;
    return part;
}

namespace {

/// The operations that may fail or draw random numbers, and of which nothing depends that the program sees; the last
/// one first.
std::vector<graph::Node*> needed_by_nobody(const graph::Graph& graph, const graph::Argument::Items& outputs) {
    std::vector<graph::Node*> found;
    auto matters = [](const graph::Node* node) { return node->may_fail || node->is_random; };
    if (std::ranges::none_of(graph.nodes(), matters)) return found;
    std::vector<bool> is_live(graph.size());
    auto use = [&](const graph::Node* node) { is_live[node->index] = is_live[memory_of(node)->index] = true; };
    for (const graph::Argument& output : outputs.values) use(output.node);
    for (std::size_t i = graph.size(); i-- > 0;) {
        graph::Node* node = graph.at(i);
        bool is_kept = node->is_seen && (!node->is_random || memory_of(node)->kind == graph::NodeKind::Placeholder);
        bool is_used = is_live[i] || is_kept || (node->has_effect && is_live[memory_of(node)->index]);
        if (!is_used && !matters(node)) continue;
        if (!is_used) found.push_back(node);
        for_each_input(*node, use);
    }
    return found;
}

/// A tensor that a node gives, as one without a history; null if it gives none.
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

void Interpreter::finish_plan(PlanBuilder plan, bool is_return) {
    auto* outputs = graph_->arena().make<graph::Argument::Items>();
    for (const void* node : plan.outputs())
        outputs->values.push_back(
            graph::Argument::of(as_output(static_cast<graph::Node*>(const_cast<void*>(node)), is_return)));
    keep_views_among_outputs(*outputs);
    // Backends drop what nobody uses. With it an exception is gone that the program is to get, or the random numbers
    // that come next are other ones: so the graph gives it back.
    for (graph::Node* node : needed_by_nobody(*graph_, *outputs))
        if (graph::Node* result = detached(*graph_, node)) outputs->values.push_back(graph::Argument::of(result));
    graph_->add(graph::NodeKind::Output, interned("output"),
                {graph::Argument::of_items(graph::Argument::Kind::Tuple, outputs)});
    graph_->finish();
    save_what_reads_overwritten();
    fetched_ = plan.fetched();
    plan_ = std::move(plan).finish();
}

namespace {

/// What is handled, if that is not what was handled at the start.
std::int32_t rebuild_handled(PlanBuilder& plan, Value* handled) {
    if (handled == nullptr || (handled->source != nullptr && handled->source->access == Access::HandledException))
        return PlanFrame::kUnchanged;
    return handled->object() == Py_None ? -1 : handled->rebuild(plan);
}

}  // namespace

void Interpreter::build_return() {
    PlanBuilder plan;
    plan.gives_back_inputs = may_give_back_inputs();
    replay_effects(plan);
    int returned = result_->rebuild(plan);
    check_given_up_generators(plan);
    rebuild_modes(plan, /*is_return=*/true);
    plan.set_handled_exception(rebuild_handled(plan, handled_exception_));
    plan.add(PlanOp::Return, {returned});
    for (const LetGoBy& gone : let_go_) plan.let_go(gone.place, gone.source, gone.key);
    finish_plan(std::move(plan), /*is_return=*/true);
}

void Interpreter::build_exit() {
    PlanBuilder plan;
    plan.gives_back_inputs = may_give_back_inputs();
    replay_effects(plan);
    add_frames(plan);
    check_given_up_generators(plan);
    rebuild_modes(plan, /*is_return=*/false);
    note_let_go();
    for (const LetGoBy& gone : let_go_) plan.let_go(gone.place, gone.source, gone.key);
    finish_plan(std::move(plan), /*is_return=*/false);
}

/// What a backend makes of modes that the graph leaves changed is its own business: the program's modes are set
/// afterwards. A graph that ends at a break leaves them as it found them (at a return torch._dynamo's does not either).
void Interpreter::rebuild_modes(PlanBuilder& plan, bool is_return) {
    const torch_room::Modes reached = modes_;
    const std::vector<EnteredContext> open = contexts_;
    while (!contexts_.empty()) pop_context(contexts_.back().manager);
    if (!is_return && modes_.grad != entry_modes_.grad)
        emit_switch(torch_room::known().set_grad_enabled, Arguments::of(boolean(entry_modes_.grad)));
    torch_room::Modes left = modes_;
    left.grad = entry_modes_.grad;
    STATOR_CHECK(left == entry_modes_, "a mode that no context has changed");
    for (const EnteredContext& context : open) plan.add(PlanOp::Call, {context.manager->rebuild(plan)}, context.enter);
    if (reached.grad == entry_modes_.grad && open.empty()) return;
    plan.add(PlanOp::Call, {plan.constant(reached.grad ? Py_True : Py_False)}, torch_room::known().set_grad_enabled);
}

namespace {

/// Whether a slot of the entered frame holds what it held at the start.
bool is_unchanged(const Value* value, int slot) {
    return value != nullptr && value->source != nullptr && value->source->access == Access::Slot &&
           value->source->number == slot;
}

}  // namespace

void Interpreter::add_frames(PlanBuilder& plan) {
    std::vector<PlanContinuation> continuations;
    std::size_t generators = 0;
    for (std::size_t depth = 0; depth < frames_.size(); ++depth) {
        if (frames_[depth]->is_task) {
            const Continuation& continuation = static_cast<TaskFrame&>(*frames_[depth]).task.promise().continuation;
            int from = continuation.value == nullptr ? -1 : continuation.value->rebuild(plan);
            STATOR_CHECK(continuation.kind.has_value(), "a frame above a C function that nobody can end");
            continuations.insert(continuations.begin(), {*continuation.kind, from});
            continue;
        }
        auto& frame = static_cast<BytecodeFrame&>(*frames_[depth]);
        const bool is_entered = depth == 0, is_innermost = depth + 1 == frames_.size();
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
            state.handled_exception = rebuild_handled(
                plan, generators < handled_around_.size() ? handled_around_[generators] : handled_exception_);
        for (int slot = 0; slot < static_cast<int>(frame.slots.size()); ++slot) {
            Value* value = frame.slots[static_cast<std::size_t>(slot)];
            if (is_entered && is_unchanged(value, slot)) continue;
            state.slots.push_back({slot, value == nullptr ? -1 : value->rebuild(plan)});
        }
        std::size_t operands = is_innermost ? 0 : static_cast<std::size_t>(frame.pops);
        for (std::size_t i = 0; i + operands < frame.stack.size(); ++i)
            state.stack.push_back(frame.stack[i] == null_ ? -1 : frame.stack[i]->rebuild(plan));
        // `with` calls `__enter__` once it has got `__exit__`.
        if (!is_innermost && (*frame.code)[frame.at].op == bytecode::Op::BeforeWith)
            state.stack.push_back(frame.held->rebuild(plan));
        state.runs_callbacks = is_innermost && broke_in_callback_;
        plan.add_frame(std::move(state));
    }
}

}  // namespace stator
