#include "trace/interpreter.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "number/conditions.h"
#include "torch/known.h"
#include "trace/specialized_sizes.h"
#include "trace/weaker_bounds.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/exception.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"

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

/// Instructions that drop no reference.
bool only_loads(bytecode::Op op) {
    using bytecode::Op;
    switch (op) {
        case Op::Nop:
        case Op::Resume:
        case Op::PushNull:
        case Op::Copy:
        case Op::Swap:
        case Op::LoadConst:
        case Op::LoadFast:
        case Op::LoadFastCheck:
        case Op::LoadDeref:
        case Op::LoadGlobal:
        case Op::Jump:
        case Op::JumpBackward:
            return true;
        default:
            return false;
    }
}

}  // namespace

Interpreter::Interpreter(const TraceRequest& request, const Knowledge& knowledge)
    : Tracer(knowledge, request.run_by, request.wants_one_graph, request.dynamic),
      torch_modes_(*this),
      lifetimes_(*this, stack_),
      effect_writer_(*this, lifetimes_),
      recorder_(*this, stack_, lifetimes_, request),
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

void Interpreter::label_arguments(PyObject* const* slots) {
    const auto& known = torch_room::known();
    auto& function = *provenance_.roots().front();
    if (function.object != known.module_call || slots[0] == nullptr) return;
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
    if (torch_room::is_in_dual_level())
        return fail({BreakKind::UnsupportedTensor, "forward-mode automatic differentiation is active"});
    try {
        try {
            interpret();
            exit_ = exit_writer().write_return(result_);
            end_ = TraceEnd::Returned;
            return;
        } catch (const Break& reason) {
            if (!reason.can_exit) throw;
            record_break(reason);
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
        // Ctrl-C is for the program.
        if (PyErr_GivenExceptionMatches(error.exception(), PyExc_KeyboardInterrupt)) {
            std::move(error).restore();
            throw;
        }
        Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
        return fail({BreakKind::Internal, type_name(Py_TYPE(error.exception().get())) +
                                              " while tracing: " + std::string(text ? utf8(text.get()) : "?")});
    } catch (const NestedTooDeeply& error) {
        return fail({BreakKind::Rebuild, error.what()});
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
        }
        while (exception != nullptr) {
            if (!may_be_caught(exception))
                break_graph(BreakKind::Raise, exception->print() + " is raised and leaves the function");
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
        if (only_loads(instruction.op)) {
            execute(frame, instruction);
            continue;
        }
        if (starts) {
            stack_.start.stack.assign(frame.stack.begin(), frame.stack.end());
            stack_.start.at = frame.at;
        }
        if (instruction.op == bytecode::Op::ReturnValue || instruction.op == bytecode::Op::ReturnConst)
            lifetimes_.check_return(frame, instruction);
        execute(frame, instruction);
        if (lifetimes_.needs_checks() && result_ == nullptr) lifetimes_.check_instruction();
    }
}

inline void Interpreter::execute(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    if (recorder_.deferred_graphs().runs_later()) [[unlikely]]
        return execute_deferred(frame, instruction);
    kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
}

void Interpreter::execute_deferred(BytecodeFrame& frame, const bytecode::Instruction& instruction) {
    DeferredGraphCapture& deferred = recorder_.deferred_graphs();
    deferred.rereads().note_object(frame, instruction);
    const Value* owner = instruction.op == bytecode::Op::LoadAttr ? frame.top() : nullptr;
    kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
    // (The instructions of an inlined function note what they read themselves.)
    const bool has_result = !stack_.frames.empty() && stack_.frames.back() == &frame && !frame.stack.empty();
    if (deferred.runs_later() && has_result) deferred.rereads().note_value(frame, instruction, owner);
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
    if (instructions_ > kMostInstructions)
        break_graph(BreakKind::Instruction,
                    "the trace executes millions of instructions, in a loop that is too long to unroll");
}

// --- frames ---------------------------------------------------------------------------------------------------------

BytecodeFrame* Interpreter::new_frame(FunctionValue* function) {
    BytecodeFrame* frame = nullptr;
    if (free_frames_.empty()) {
        frame = make<BytecodeFrame>();
    } else {
        frame = free_frames_.back();
        free_frames_.pop_back();
    }
    frame->function = function;
    frame->code = &bytecode::decode(function->code);
    decoding_seconds_ += frame->code->decoding_seconds_for_first_report();
    frame->at = {0};
    frame->slots.assign(static_cast<std::size_t>(frame->code->slot_count()), nullptr);
    frame->stack.clear();
    frame->generator = nullptr;
    frame->location = nullptr;
    frame->traced = nullptr;
    frame->modules = nullptr;
    return frame;
}

void Interpreter::enter_task(TaskFrame& frame) {
    frame.task.resume();
    if (frame.task.done()) return;
    frame.is_opaque = !frame.task.promise().continuation.kind;
    if (frame.is_opaque) ++stack_.opaque_tasks;
}

void Interpreter::leave_task(TaskFrame& frame) {
    if (std::exchange(frame.is_opaque, false)) --stack_.opaque_tasks;
}

void Interpreter::pop_frame() {
    Activation* top = stack_.frames.back();
    stack_.frames.pop_back();
    if (top->is_task) {
        --open_tasks_;
        leave_task(static_cast<TaskFrame&>(*top));
        delete static_cast<TaskFrame*>(top);
        return;
    }
    auto* frame = static_cast<BytecodeFrame*>(top);
    if (frame->generator == nullptr) free_frames_.push_back(frame);
}

void Interpreter::expect_room_for_frame() {
    if (stack_.frames.size() - open_tasks_ >= depth_limit_)
        break_graph(BreakKind::UnknownFunction, "calls are nested deeper than Python's recursion limit");
}

Outcome Interpreter::push_call(FunctionValue* function, const Arguments& arguments) {
    expect_room_for_frame();
    if ((function->code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) != 0)
        break_graph(BreakKind::Instruction, "the asynchronous function " + function->print() + " is called");
    expect_inlined(function);
    if (is_of_transforms(function) && !recorder_.is_in_transform()) return start(call_transform(function, arguments));
    BytecodeFrame* frame = new_frame(function);
    bind_arguments(*this, function, arguments, frame->slots);
    frame->modules = recorder_.locations().modules_for(function, arguments);
    stack_.frames.push_back(frame);
    return Outcome::pending();
}

Outcome Interpreter::start(Task task) {
    // Python raises RecursionError much earlier, but does not count tasks.
    constexpr std::size_t kForEachCall = 8;
    if (is_stack_low() || open_tasks_ > kForEachCall * static_cast<std::size_t>(Py_GetRecursionLimit()))
        break_graph(BreakKind::Instruction, "calls are nested too deeply for the tracer");
    auto* frame = new TaskFrame(std::move(task));
    stack_.frames.push_back(frame);
    ++open_tasks_;
    enter_task(*frame);
    if (!frame->task.done()) return Outcome::pending();
    auto& promise = frame->task.promise();
    Value* result = promise.result;
    std::exception_ptr failure = promise.failure;
    pop_frame();
    if (failure) std::rethrow_exception(failure);
    return result;
}

void Interpreter::deliver(Value* value) {
    while (true) {
        if (stack_.frames.empty()) {
            result_ = value;
            return;
        }
        if (!stack_.frames.back()->is_task) {
            auto& frame = static_cast<BytecodeFrame&>(*stack_.frames.back());
            return complete_instruction(frame, frame.pops, frame.complete, value);
        }
        auto& frame = static_cast<TaskFrame&>(*stack_.frames.back());
        frame.task.promise().delivered = value;
        leave_task(frame);
        enter_task(frame);
        if (!frame.task.done()) return;
        std::exception_ptr failure = frame.task.promise().failure;
        value = frame.task.promise().result;
        pop_frame();
        if (failure) std::rethrow_exception(failure);
    }
}

void Interpreter::note_in_traceback(BytecodeFrame& frame, ExceptionValue* exception) {
    using bytecode::Op;
    const bytecode::Instruction& instruction = (*frame.code)[frame.at];
    // An instruction that raises an exception again adds no traceback entry.
    bool raises_again =
        instruction.op == Op::Reraise || instruction.op == Op::CleanupThrow ||
        (instruction.op == Op::RaiseVarargs && instruction.arg == 0 && exception == handled_exception());
    if (raises_again) return;
    if (frame.traced == nullptr)
        set_undoably(*this, frame.traced,
                     make<TracedFrame>(frame.function->code, frame.function->globals, stack_.frames.size() == 1,
                                       instruction.offset));
    // An exception that is thrown into a generator is raised at the yield where it is suspended.
    bool is_thrown = instruction.op == Op::Resume && (instruction.arg & 3) != 0;
    add_to_traceback(*this, exception, frame.traced, is_thrown ? frame.waits_at() : instruction.offset);
}

void Interpreter::unwind(Value* exception) {
    lifetimes_.check_unwinding(exception);
    while (!stack_.frames.empty()) {
        if (stack_.frames.back()->is_task)
            return throw_into_task(static_cast<TaskFrame&>(*stack_.frames.back()), exception);
        auto& frame = static_cast<BytecodeFrame&>(*stack_.frames.back());
        if (auto* raised = cast<ExceptionValue>(exception)) note_in_traceback(frame, raised);
        if (const bytecode::Handler* handler = frame.code->handler_for(frame.at))
            return enter_handler(frame, *handler, exception);
        STATOR_CHECK(stack_.frames.size() > 1, "an exception that nobody catches is left to the real frame");
        GeneratorValue* generator = frame.generator;
        if (generator != nullptr) {
            generator->finished = true;
            leave_generator(generator);
            if (PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(PyExc_StopIteration))) {
                ExceptionValue* replaced = make_exception(*this, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                                                          {string("generator raised StopIteration")});
                replaced->cause = replaced->context = exception;
                exception = replaced;
            }
        }
        pop_frame();
    }
}

void Interpreter::throw_into_task(TaskFrame& frame, Value* exception) {
    frame.task.promise().delivered_failure = std::make_exception_ptr(Raised{exception});
    leave_task(frame);
    enter_task(frame);
    if (!frame.task.done()) return;
    std::exception_ptr failure = frame.task.promise().failure;
    Value* result = frame.task.promise().result;
    pop_frame();
    if (failure) std::rethrow_exception(failure);
    deliver(result);
}

void Interpreter::enter_handler(BytecodeFrame& frame, const bytecode::Handler& handler, Value* exception) {
    auto* raised = cast<ExceptionValue>(exception);
    if (raised != nullptr && raised->context == nullptr) set_context(*this, raised, handled_exception());
    const bytecode::Instruction& instruction = (*frame.code)[frame.at];
    frame.stack.resize(static_cast<std::size_t>(handler.depth));
    if (handler.push_lasti) frame.push(integer(instruction.offset.unit()));
    frame.push(exception);
    frame.at = handler.target;
}

void Interpreter::return_from_frame(BytecodeFrame& frame, Value* value) {
    if (GeneratorValue* generator = frame.generator; generator != nullptr) {
        generator->finished = true;
        leave_generator(generator);
        generator->returned = value;
        value = exhausted();
    }
    pop_frame();
    deliver(value);
}

void Interpreter::yield_from_frame(BytecodeFrame& frame, Value* value) {
    GeneratorValue* generator = frame.generator;
    generator->frame = &frame;
    leave_generator(generator);
    stack_.frames.pop_back();
    deliver(value);
}

void Interpreter::suspend_as_generator(BytecodeFrame& frame) {
    auto* generator = make<GeneratorValue>(&PyGen_Type);
    generator->name = frame.function->code->co_qualname;
    generator->function = frame.function;
    generator->frame = &frame;
    frame.generator = generator;
    generators_.push_back(generator);
    frame.at = frame.at.next();
    stack_.frames.pop_back();
    deliver(generator);
}

Outcome Interpreter::push_generator(GeneratorValue* generator, Value* sent) {
    if (generator->running) raise(PyExc_ValueError, "generator already executing");
    if (generator->finished) return exhausted();
    expect_room_for_frame();
    auto* frame = static_cast<BytecodeFrame*>(generator->frame);
    if (!generator->started && sent->object() != Py_None)
        raise(PyExc_TypeError, "can't send non-None value to a just-started generator");
    on_undo([generator, frame, at = frame->at, stack = frame->stack, started = generator->started,
             handled = generator->handled, thrown = generator->thrown] {
        frame->at = at;
        frame->stack = stack;
        generator->frame = frame;
        generator->started = started;
        generator->running = generator->finished = false;
        generator->handled = handled;
        generator->thrown = thrown;
    });
    enter_generator(generator);
    frame->location = nullptr;  // the caller may be another one than last time
    frame->modules = recorder_.locations().modules();
    frame->push(sent);
    stack_.frames.push_back(frame);
    return Outcome::pending();
}

void Interpreter::enter_generator(GeneratorValue* generator) {
    generator->running = true;
    generator->started = true;
    generator->frame = nullptr;
    on_undo([this, around = stack_.handled_around] { stack_.handled_around = around; });
    stack_.handled_around.push_back(handled_here());
    set_handled_exception(generator->handled == nullptr ? none() : generator->handled);
}

void Interpreter::leave_generator(GeneratorValue* generator) {
    generator->running = false;
    generator->handled = handled_here();
    on_undo([this, around = stack_.handled_around] { stack_.handled_around = around; });
    set_handled_exception(stack_.handled_around.back());
    stack_.handled_around.pop_back();
}

Value* Interpreter::handled_here() {
    if (stack_.handled_exception == nullptr) {
        Ref<> handled = Ref<>::steal(PyErr_GetHandledException());
        PyObject* object = handled ? handled.get() : Py_None;
        stack_.handled_exception = outside(provenance_.handled_exception(object), object);
    }
    return stack_.handled_exception;
}

void Interpreter::set_handled_exception(Value* exception) {
    handled_here();  // reads the exception from before the trace
    on_undo([this, before = stack_.handled_exception] { stack_.handled_exception = before; });
    stack_.handled_exception = exception;
}

Value* Interpreter::handled_exception() {
    auto is_one = [this](Value* handled) {
        realize(handled);
        return handled->object() != Py_None;
    };
    if (is_one(handled_here())) return stack_.handled_exception;
    for (auto around = stack_.handled_around.rbegin(); around != stack_.handled_around.rend(); ++around)
        if (is_one(*around)) return *around;
    return nullptr;
}

Value* Interpreter::local_of_caller(Borrowed<> name) {
    BytecodeFrame* frame = stack_.innermost();
    for (int i = 0; i < frame->code->slot_count(); ++i) {
        if (PyUnicode_Compare(frame->code->slot_name(i), name) != 0) continue;
        Value* value = frame->slots[i];
        if (auto* cell = value == nullptr ? nullptr : cast<CellValue>(value)) return cell->get(*this);
        return value;
    }
    return nullptr;
}

Value* Interpreter::first_argument_of_caller() {
    BytecodeFrame* frame = stack_.innermost();
    if (frame->function->code->co_argcount == 0) raise(PyExc_RuntimeError, "super(): no arguments");
    Value* value = frame->slots[0];
    if (auto* cell = value == nullptr ? nullptr : cast<CellValue>(value)) value = cell->get(*this);
    if (value == nullptr) raise(PyExc_RuntimeError, "super(): arg[0] deleted");
    return value;
}

Value* Interpreter::class_cell_of_caller() {
    Value* cell = local_of_caller(interned("__class__"));
    if (cell == nullptr) raise(PyExc_RuntimeError, "super(): __class__ cell not found");
    return cell;
}

// --- reports --------------------------------------------------------------------------------------------------------

void Interpreter::note_mismatch(FunctionValue* function, const std::string& message, const Arguments& arguments) {
    MismatchedCall call{message, Ref<PyCodeObject>::share(function->code), {}, {}};
    for (Value* argument : arguments.positional) call.argument_types.push_back(type_name(argument->type()));
    for (const Keyword& keyword : arguments.keywords)
        call.argument_types.push_back(std::string(utf8(keyword.name)) + ": " + type_name(keyword.value->type()));
    if (BytecodeFrame* caller = stack_.innermost())
        call.caller = {Ref<PyCodeObject>::share(caller->function->code), caller->line()};
    mismatched_calls_.push_back(std::move(call));
}

void Interpreter::record_break(const Break& reason) {
    report_.is_exit = false;
    report_.kind = reason.kind;
    report_.reason = reason.reason;
    report_.stack.clear();
    for (auto activation = stack_.frames.rbegin(); activation != stack_.frames.rend(); ++activation) {
        if ((*activation)->is_task) continue;
        auto* frame = static_cast<BytecodeFrame*>(*activation);
        report_.stack.push_back({Ref<PyCodeObject>::share(frame->function->code), frame->line()});
    }
}

namespace {

bool is_pytorchs(PyCodeObject* code) {
    return utf8(code->co_filename).find("/torch/") != std::string_view::npos;
}

}  // namespace

void Interpreter::note_specialized() {
    using Op = Expression::Op;
    const Op last = relations_.back().condition->op;
    if (last != Op::Equal && last != Op::Same) return;
    for (const Expression* variable : numbers_.variables()) {
        const bool is_constant = variable->is_float ? relations_.back().condition->left == variable
                                                    : numbers_.resolved(variable)->op == Op::Constant;
        if (is_constant) specialized_by_.emplace(variable, static_cast<int>(relations_.size()) - 1);
    }
}

void Interpreter::guard_relation(const Expression& condition) {
    Tracer::guard_relation(condition);
    // The innermost line outside of PyTorch's own Python code, if there is one.
    Relation relation{&condition, {}};
    for (auto activation = stack_.frames.rbegin(); activation != stack_.frames.rend(); ++activation) {
        if ((*activation)->is_task) continue;
        auto* frame = static_cast<BytecodeFrame*>(*activation);
        PyCodeObject* code = frame->function->code;
        if (relation.where.code && is_pytorchs(code)) continue;
        relation.where = {Ref<PyCodeObject>::share(code), frame->line()};
        if (!is_pytorchs(code)) break;
    }
    relations_.push_back(std::move(relation));
    note_specialized();
}

void Interpreter::ask(const Expression& question) {
    const std::string text = print_by_symbols(question);
    std::string reason = is_condition(question.op) ? "the answer to " + text + " depends on "
                                                   : "the value of " + text + " is needed, which depends on ";
    needs_random_number_ = recorder_.numbers().is_drawn(question);
    reason += needs_random_number_ ? "a random number" : "the data of a tensor";
    for (const std::string& origin : recorder_.numbers().origins_of(question)) reason += "; " + origin;
    if (is_condition(question.op)) reason += ". torch._check(" + text + ") before it would answer the question";
    break_graph(BreakKind::DataDependent, std::move(reason));
}

// --- the finished trace ---------------------------------------------------------------------------------------------

std::vector<Source*> Interpreter::distinct_sources(const std::vector<Source*>& inputs) const {
    std::vector<Source*> sources;
    std::unordered_set<const void*> known;
    // Two places that hold one function are guarded to hold it, if the program has compared them.
    auto add = [&](Source* source) {
        const bool is_function = source->object != nullptr && PyFunction_Check(source->object);
        if (known.insert(is_function ? static_cast<const void*>(source->object) : source).second)
            sources.push_back(source);
    };
    // Two numbers may well be one object.
    for (Source* source : inputs)
        if (!PyLong_CheckExact(source->object) && !PyFloat_CheckExact(source->object)) add(source);
    for (Source* source : distinct_) add(source);
    const std::vector<PyTypeObject*> mutated = effect_writer_.mutated_classes();
    const bool has_writes = !recorder_.writes().inputs().empty();
    if (mutated.empty() && !has_writes) return sources;
    // If two objects of one class are the same object in another call, a mutation of one is a mutation of the other. A
    // write changes the metadata of a tensor too.
    for (auto [object, value] : by_identity_) {
        bool has_grown = value->kind == Kind::List && !static_cast<const ListValue*>(value)->appended.empty();
        bool is_read = value->realized || has_grown || value->kind == Kind::Cell;
        bool is_tensor = value->kind == Kind::Tensor || value->kind == Kind::TensorObject || value->kind == Kind::Array;
        if (is_read && is_tensor && has_writes) add(value->source);
        if (is_read && value->kind != Kind::Tensor && std::ranges::find(mutated, value->type()) != mutated.end())
            add(value->source);
    }
    return sources;
}

Trace Interpreter::take_trace() {
    Trace trace;
    recorder_.move_to(trace);
    trace.distinct = distinct_sources(trace.inputs);
    trace.guards = std::move(guards_);
    trace.plan = std::move(exit_.plan);
    trace.fetched = std::move(exit_.fetched);
    trace.end = end_;
    trace.report = report_;
    trace.modes = torch_modes_.current();
    trace.reads_autocast = torch_modes_.reads_autocast();
    trace.is_compiling_was_true = is_compiling_was_true_;
    trace.inlined_torch_compile = inlined_torch_compile_;
    trace.forbids_breaks = forbids_breaks_;
    trace.mismatched_calls = std::move(mismatched_calls_);
    trace.instructions = instructions_;
    trace.decoding_seconds = decoding_seconds_;
    for (const Expression* variable : numbers_.variables()) {
        Symbol symbol{variable, numbers_.resolved(variable)};
        if (!variable->is_float) symbol.range = numbers_.range_of(variable);
        if (auto marked = required_dynamic_.find(variable); marked != required_dynamic_.end())
            symbol.marked = marked->second;
        symbol.origin = origin_of(variable);
        if (auto found = specialized_by_.find(variable); found != specialized_by_.end())
            symbol.specialized_by = found->second;
        trace.symbols.push_back(symbol);
    }
    if (!trace.symbols.empty()) {
        guard_specialized_sizes(trace.guards, trace.symbols, arena_);
        drop_weaker_bounds(trace.guards);
    }
    trace.relations = std::move(relations_);
    trace.depends_on_data = !numbers_.unbacked_numbers().empty();
    numbers_.close();
    trace.arena = std::move(owned_arena_);
    return trace;
}

}  // namespace stator
