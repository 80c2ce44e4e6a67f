#include "trace/interpreter.h"

#include <algorithm>
#include <exception>

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "bytecode/only_loads.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "torch/function_transforms.h"
#include "torch/known.h"
#include "value/kinds/class.h"
#include "value/kinds/exception.h"

namespace stator {

namespace {

/// Stands for a NULL on CPython's stack.
struct NullValue final : Value {
    NullValue() : Value(Kind::Null) {}
    PyTypeObject* type() const override { return Py_TYPE(Py_None); }
    std::string print() const override { return "NULL"; }
};

/// The variables that a function assigns to. If a loop is entered in its middle, they differ from iteration to
/// iteration.
std::vector<bool> assigned_slots(const bytecode::Code& code) {
    std::vector<bool> assigned(static_cast<std::size_t>(code.slot_count()));
    for (const bytecode::Instruction& instruction : code.instructions())
        if (instruction.op == bytecode::Op::StoreFast) assigned[static_cast<std::size_t>(instruction.arg)] = true;
    return assigned;
}

}  // namespace

Interpreter::Interpreter(const TraceRequest& request, const Knowledge& knowledge)
    : Tracer(knowledge, request.run_by, request.wants_one_graph, request.dynamic),
      torch_modes_(*this),
      lifetimes_(*this, stack_),
      effect_writer_(*this, lifetimes_, request.log),
      recorder_(*this, stack_, lifetimes_, request),
      trace_log_(request.log),
      entered_generator_(request.is_generator),
      is_resumed_(request.at.value != 0) {
    captures_scalars_ = request.captures_scalars;
    captures_data_sizes_ = request.captures_data_sizes;
    torch_modes_.set_captures_autograd(request.captures_autograd);
    Tracer::recorder_ = &recorder_;
    recorder_.graph_arena().make<std::shared_ptr<Arena>>(number_arena_);
    Tracer::deferred_graphs_ = &recorder_.deferred_graphs();
    Tracer::effects_ = &effect_writer_;
    Tracer::modes_ = &torch_modes_;
    stack_.null = make<NullValue>();
    // The last few calls before the recursion limit are left to CPython, which knows exactly where the limit is.
    constexpr int kLeft = 20;
    depth_limit_ = static_cast<std::size_t>(std::max(1, cpython::recursion_remaining(PyThreadState_Get()) - kLeft));
    torch_modes_.find_function_modes_at_entry();
    enter_frame(request);
    if (is_resumed_ || entered_generator_) lifetimes_.watch_entered_frame();
}

void Interpreter::enter_frame(const TraceRequest& request) {
    auto* object = reinterpret_cast<PyObject*>(request.function);
    auto* value = make<FunctionValue>(request.code);
    value->outside = object;
    value->globals = cpython::globals_of(request.function);
    value->builtins = cpython::builtins_of(request.function);
    value->source = provenance_.function(object);
    value->source->value = value;
    BytecodeFrame* frame = new_frame(value);
    frame->at = request.at;
    const int slot_count = frame->code->slot_count();
    std::vector<bool> assigned = is_resumed_ ? assigned_slots(*frame->code) : std::vector<bool>();
    for (int i = 0; i < slot_count; ++i) {
        // At the start, only arguments are bound. In the middle, any variable may be bound or not.
        Source* source = provenance_.slot(i, frame->code->slot_name(i), request.slots[i]);
        if (is_resumed_) {
            guard({request.slots[i] != nullptr ? GuardKind::Present : GuardKind::Absent, source});
            source->varies = assigned[static_cast<std::size_t>(i)];
        }
        if (request.slots[i] != nullptr) frame->slots[i] = outside(source, request.slots[i]);
    }
    for (std::size_t i = 0; i < request.stack_depth; ++i) {
        int place = slot_count + static_cast<int>(i);
        PyObject* held = request.slots[place];
        PyObject* name = keep(checked(PyUnicode_FromFormat("___stack%zu", i)));
        Source* source = provenance_.slot(place, name, held);
        source->varies = true;
        guard({held != nullptr ? GuardKind::Present : GuardKind::Absent, source});
        frame->push(held == nullptr ? stack_.null : outside(source, held));
    }
    if (!is_resumed_) label_arguments(request.slots);
    stack_.frames.push_back(frame);
}

namespace {

/// Whether the function is the `__call__(self, *args, **kwargs)` of a module: that of all modules, or of those that FX
/// makes.
bool is_call_of_module(PyObject* function) {
    if (function == torch_room::known().module_call) return true;
    if (!PyFunction_Check(function)) return false;
    PyObject* home = reinterpret_cast<PyFunctionObject*>(function)->func_module;
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    return home != nullptr && PyUnicode_Check(home) && utf8(home) == "torch.fx.graph_module" &&
           utf8(code->co_name) == "call_wrapped";
}

}  // namespace

void Interpreter::label_arguments(PyObject* const* slots) {
    auto& function = *provenance_.roots().front();
    if (!is_call_of_module(function.object) || slots[0] == nullptr) return;
    // A module is entered at its __call__, whose arguments are `*args, **kwargs`. The user knows those of `forward`.
    PyObject* forward = cpython::lookup_in_mro(Py_TYPE(slots[0]), interned("forward"), nullptr);
    if (forward == nullptr || !PyFunction_Check(forward)) return;
    PyObject* module = reinterpret_cast<PyFunctionObject*>(forward)->func_module;
    auto label = [this](Source* source, const std::string& text) {
        source->label = keep(checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
    };
    if (module != nullptr && PyUnicode_Check(module) && utf8(module).starts_with("torch.nn.")) {
        // torch._dynamo puts a function `inner(*args)` with `fn` in its closure around such modules.
        label(provenance_.slot(0, nullptr, slots[0]), "L['fn']");
        return;
    }
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(forward));
    Source* positional = provenance_.slot(1, nullptr, slots[1]);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots[1]) && i + 1 < code->co_argcount; ++i) {
        Source* item =
            provenance_.child(positional, Access::Item, nullptr, static_cast<int>(i), PyTuple_GET_ITEM(slots[1], i));
        label(item, "L[" + short_repr(cpython::slot_name(code, static_cast<int>(i) + 1)) + "]");
    }
    Source* named = provenance_.slot(2, nullptr, slots[2]);
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(slots[2], &position, &key, &value))
        label(provenance_.child(named, Access::DictItem, key, 0, value), "L[" + short_repr(key) + "]");
}

Interpreter::~Interpreter() {
    // Tasks may refer to values of the arena: they are destroyed first.
    while (!stack_.frames.empty()) pop_frame();
}

// --- the loop -------------------------------------------------------------------------------------------------------

namespace {

/// Whether the function that the current instruction calls is disabled together with what it calls, as
/// `torch.compiler.disable` does by default.
bool calls_disabled_recursively(const CallStack& stack) {
    if (stack.frames.empty() || stack.frames.back()->is_task) return false;
    const auto& operands = static_cast<const BytecodeFrame&>(*stack.frames.back()).stack;
    return std::ranges::any_of(operands, [](Value* operand) {
        if (auto* method = operand == nullptr ? nullptr : cast<MethodValue>(operand)) operand = method->function;
        const auto* function = operand == nullptr ? nullptr : cast<FunctionValue>(operand);
        if (function == nullptr || function->outside == nullptr || !PyFunction_Check(function->outside)) return false;
        PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function->outside)->func_dict;
        return attributes != nullptr &&
               PyDict_GetItemWithError(attributes, interned("_torchdynamo_disable_recursive")) == Py_True;
    });
}

}  // namespace

void Interpreter::run() {
    auto fail = [this](const Break& reason) {
        record_break(reason);
        PyErr_Clear();
        end_ = TraceEnd::Failed;
    };
    if (torch_room::is_in_dual_level()) {
        const std::string inside = torch_room::call_inside_of_transform();
        return fail({BreakKind::UnsupportedTensor,
                     inside.empty() ? "forward-mode automatic differentiation is active" : inside});
    }
    try {
        try {
            interpret();
            if (trace_log_ != nullptr) note_made();
            if (recorder_.transforms().is_entered_by_hand())
                return fail({BreakKind::UnsupportedTensor, "a level of torch.func is not left again"});
            exit_ = exit_writer().write_return(result_, held_at_return_);
            end_ = TraceEnd::Returned;
            return;
        } catch (const Break& reason) {
            if (!reason.can_exit) throw;
            record_break(reason);
            if (recorder_.transforms().is_entered_by_hand()) return fail(reason);
            const bool is_in_transform = recorder_.is_in_transform();
            roll_back();
            // What a disabled function calls may be captured: see `handle_callback` in the run room.
            if (reason.kind == BreakKind::DisabledFunction && !calls_disabled_recursively(stack_))
                broke_in_callback_ = true;
            // (The functions that a transform calls get tensors that it has wrapped.)
            if (is_in_transform) broke_in_callback_ = false;
            forbids_breaks_ = is_where_breaks_are_errors();
        }
        exit_ = exit_writer().write_break(broke_in_callback_);
        report_.is_exit = true;
        end_ = TraceEnd::Broke;
    } catch (const Break& reason) {
        return fail(reason);
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        // Ctrl-C is for the program, and so is the misuse of a mark.
        if (PyErr_GivenExceptionMatches(error.exception(), PyExc_KeyboardInterrupt) ||
            is_misused_mark(error.exception())) {
            std::move(error).restore();
            throw;
        }
        Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
        return fail({BreakKind::Internal, type_name(Py_TYPE(error.exception().get())) +
                                              " while tracing: " + std::string(text ? utf8(text.get()) : "?")});
    } catch (const NestedTooDeeply& error) {
        return fail({BreakKind::Rebuild, error.what()});
    } catch (const TooManyNumbers& error) {
        return fail({BreakKind::Instruction, error.what()});
    } catch (const std::exception& error) {
        return fail({BreakKind::Internal, error.what()});
    }
}

ExitWriter Interpreter::exit_writer() {
    return {*this, stack_, recorder_, effect_writer_, lifetimes_, generators_};
}

void Interpreter::interpret() {
    while (result_ == nullptr) {
        Value* exception = nullptr;
        try {
            step_until_interrupted();
        } catch (const Raised& raised) {
            exception = raised.exception;
        } catch (const TooManyNumbers& error) {
            break_graph(BreakKind::Instruction, error.what());
        }
        while (exception != nullptr) {
            if (!may_be_caught(exception))
                break_graph(BreakKind::Raise,
                            "Observed exception: " + exception->print() + " is raised and leaves the function");
            try {
                Value* current = std::exchange(exception, nullptr);
                unwind(current);
            } catch (const Raised& raised) {
                exception = raised.exception;
            }
        }
    }
}

void Interpreter::step_until_interrupted() {
    while (result_ == nullptr) {
        auto& frame = static_cast<BytecodeFrame&>(*stack_.frames.back());
        STATOR_DCHECK(!frame.is_task, "a task can't be stepped");
        const bool starts = stack_.opaque_tasks == 0;
        if (starts) {
            undo_log_.commit();
            stack_.start.graph_size = recorder_.graph().size();
            stack_.start.depth = stack_.frames.size();
        }
        ++instructions_;
        const bytecode::Instruction& instruction = (*frame.code)[frame.at];
        if (trace_log_ != nullptr) [[unlikely]]
            note_step(frame, instruction);
        if (bytecode::only_loads(instruction.op)) {
            execute(frame, instruction);
            continue;
        }
        if (starts) {
            stack_.start.stack.assign(frame.stack.begin(), frame.stack.end());
            stack_.start.at = frame.at;
        }
        if (instruction.op == bytecode::Op::ReturnValue || instruction.op == bytecode::Op::ReturnConst)
            note_return(frame, instruction);
        execute(frame, instruction);
        if (lifetimes_.needs_checks() && result_ == nullptr) lifetimes_.check_instruction();
    }
}

void Interpreter::note_return(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    lifetimes_.check_return(frame, instruction);
    if (stack_.frames.size() > 1 || generators_.empty()) return;
    held_at_return_.clear();
    for (Value* value : frame.slots)
        if (auto* generator = value == nullptr ? nullptr : cast<GeneratorValue>(value))
            held_at_return_.push_back(generator);
}

void Interpreter::note_made() {
    trace_log_->note_nodes(recorder_.graph());
    trace_log_->note_guards(guards_);
}

void Interpreter::note_step(const BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    note_made();
    const auto depth = std::ranges::count_if(stack_.frames, [](const Activation* one) { return !one->is_task; });
    trace_log_->note_instruction(frame.function->code, instruction.offset, static_cast<std::size_t>(depth) - 1);
}

inline void Interpreter::execute(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (recorder_.deferred_graphs().runs_later()) [[unlikely]]
        return execute_deferred(frame, instruction);
    kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
}

void Interpreter::execute_deferred(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    DeferredGraphCapture& deferred = recorder_.deferred_graphs();
    deferred.rereads().note_object(frame, instruction);
    const Value* operand = instruction.op == bytecode::Op::LoadAttr   ? frame.top()
                           : instruction.op == bytecode::Op::BinaryOp ? frame.top(1)
                                                                      : nullptr;
    kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
    // (The instructions of an inlined function note what they read themselves.)
    const bool has_result = !stack_.frames.empty() && stack_.frames.back() == &frame && !frame.stack.empty();
    if (deferred.runs_later() && has_result) deferred.rereads().note_value(frame, instruction, operand);
}

void Interpreter::roll_back() {
    const bool runs_callbacks = !is_in_higher_order_operation();
    undo_log_.roll_back();
    recorder_.graph().truncate(stack_.start.graph_size);
    result_ = nullptr;
    // A frame that was popped while an instruction of a lower frame continued can't be restored.
    if (stack_.frames.size() < stack_.start.depth)
        throw Break{report_.kind, report_.reason +
                                      " (in an instruction whose inner call had already returned, so the captured "
                                      "region can't end before it)"};
    while (stack_.frames.size() > stack_.start.depth) {
        broke_in_callback_ = broke_in_callback_ || (runs_callbacks && !stack_.frames.back()->is_task);
        pop_frame();
    }
}

bool Interpreter::may_be_caught(Value* exception) const {
    for (auto activation = stack_.frames.rbegin(); activation != stack_.frames.rend(); ++activation) {
        if ((*activation)->is_task) {
            const Continuation& continuation = static_cast<TaskFrame&>(**activation).task.promise().continuation;
            if (!continuation.kind) return true;
            if (continuation.kind == Continuation::Kind::Next &&
                PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
                return true;
            continue;
        }
        auto& frame = static_cast<BytecodeFrame&>(**activation);
        if (frame.code->handler_for(frame.at) != nullptr) return true;
    }
    return false;
}

void Interpreter::finish(BytecodeFrame& frame, Outcome outcome, int pops, Completion complete) {
    if (outcome.is_pending()) {
        frame.pops = pops;
        frame.complete = complete;
        return;
    }
    complete_instruction(frame, pops, complete, outcome.value());
}

void Interpreter::complete_instruction(BytecodeFrame& frame, int pops, Completion complete, Value* result) {
    std::size_t rest = frame.stack.size() - static_cast<std::size_t>(pops);
    if (complete == push_result || complete == drop_result) {
        frame.drop(static_cast<std::size_t>(pops));
        return complete(*this, frame, (*frame.code)[frame.at], result);
    }
    // The completion may fail too. Then the program executes the instruction, which needs its operands.
    std::vector<Value*> operands(frame.stack.begin() + static_cast<std::ptrdiff_t>(rest), frame.stack.end());
    frame.stack.resize(rest);
    try {
        complete(*this, frame, (*frame.code)[frame.at], result);
    } catch (...) {
        frame.stack.resize(rest);
        frame.stack.insert(frame.stack.end(), operands.begin(), operands.end());
        throw;
    }
}

void Interpreter::push_result(Interpreter&, BytecodeFrame& frame, const bytecode::Instruction&, Value* result) {
    frame.push(result);
    frame.at = frame.at.next();
}

void Interpreter::drop_result(Interpreter&, BytecodeFrame& frame, const bytecode::Instruction&, Value*) {
    frame.at = frame.at.next();
}

void Interpreter::count_loop() {
    constexpr std::size_t kBetweenChecks = 1024, kMostInstructions = 10'000'000;
    if (++backward_jumps_ % kBetweenChecks != 0) return;
    checked(PyErr_CheckSignals());
    if (instructions_ <= kMostInstructions) return;
    const BytecodeFrame* frame = stack_.innermost();
    const bool is_in_generator = frame != nullptr && frame->generator != nullptr;
    break_graph(BreakKind::Instruction,
                std::string("the trace executes millions of instructions, in ") +
                    (is_in_generator ? "a generator that is too long to unroll, or an infinite generator"
                                     : "a loop that is too long to unroll"));
}

}  // namespace stator
