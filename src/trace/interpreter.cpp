#include "trace/interpreter.h"

#include <algorithm>
#include <exception>

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "cpython/frame.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/exception.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

/// Stands on the stack where CPython keeps a NULL.
struct NullValue final : Value {
    NullValue() : Value(Kind::Null) {}
    PyTypeObject* type() const override { return Py_TYPE(Py_None); }
    std::string print() const override { return "NULL"; }
};

/// The variables that a function changes: a loop's counter is another one wherever the loop is entered again.
std::vector<bool> assigned_slots(const bytecode::Code& code) {
    std::vector<bool> assigned(static_cast<std::size_t>(code.slot_count()));
    for (const bytecode::Instruction& instruction : code.instructions())
        if (instruction.op == bytecode::Op::StoreFast) assigned[static_cast<std::size_t>(instruction.arg)] = true;
    return assigned;
}

/// Instructions after which everything is held that was held before.
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
    : stop_(request.stop_before),
      entered_generator_(request.is_generator),
      registers_attributes_(request.registers_attributes),
      modes_(torch_room::current_modes()),
      entry_modes_(modes_) {
    knowledge_ = &knowledge;
    run_by_ = request.run_by;
    wants_one_graph_ = request.wants_one_graph;
    null_ = make<NullValue>();
    // The last few calls up to the limit are CPython's: it knows exactly where the limit is.
    constexpr int kLeft = 20;
    depth_limit_ = static_cast<std::size_t>(std::max(1, cpython::recursion_remaining(PyThreadState_Get()) - kLeft));
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
    const bool is_start = request.at.value == 0;
    is_resumed_ = !is_start;
    std::vector<bool> assigned = is_start ? std::vector<bool>() : assigned_slots(*frame->code);
    for (int i = 0; i < slot_count; ++i) {
        // At the start, arguments are bound and nothing else is. Later on a variable may be either.
        Source* source = provenance_.slot(i, frame->code->slot_name(i), request.slots[i]);
        if (!is_start) {
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
        frame->push(held == nullptr ? null_ : outside(source, held));
    }
    if (is_start) label_arguments(request.slots);
    frames_.push_back(frame);
    is_entered_alone_ = is_resumed_ || request.is_generator;
    if (is_entered_alone_) watch_frame();
}

void Interpreter::label_arguments(PyObject* const* slots) {
    const auto& known = torch_room::known();
    auto& function = *provenance_.roots().front();
    if (function.object != known.module_call || slots[0] == nullptr) return;
    // A module is entered at its __call__, whose arguments are `*args, **kwargs`. To the user they are forward's.
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
    // Tasks may refer to values of the arena: they go first.
    while (!frames_.empty()) pop_frame();
}

// --- the loop
// ----------------------------------------------------------------------------------------------------------

void Interpreter::run() {
    auto fail = [this](const Break& reason) {
        record_break(reason);
        PyErr_Clear();
        end_ = TraceEnd::Failed;
    };
    if (torch_room::is_in_dual_level())
        return fail({BreakKind::UnsupportedTensor, "forward-mode automatic differentiation is going on"});
    try {
        try {
            interpret();
            build_return();
            end_ = TraceEnd::Returned;
            return;
        } catch (const Break& reason) {
            if (!reason.can_exit) throw;
            record_break(reason);
            roll_back();
        }
        build_exit();
        report_.is_exit = true;
        end_ = TraceEnd::Broke;
    } catch (const Break& reason) {
        return fail(reason);
    } catch (const PythonError&) {
        TakenError error = TakenError::take();
        // The user's Ctrl-C is not ours to keep.
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
        auto& frame = static_cast<BytecodeFrame&>(*frames_.back());
        STATOR_DCHECK(!frame.is_task, "a task can't be stepped");
        if (opaque_tasks_ == 0) {
            undo_log_.clear();
            mark_ = {graph_->size(), frames_.size()};
        }
        ++instructions_;
        const bytecode::Instruction& instruction = (*frame.code)[frame.at];
        auto execute = [&] {
            if (later_) [[unlikely]]
                step_later(frame, instruction);
            else
                kOpHandlers[static_cast<std::size_t>(instruction.op)](*this, frame, instruction);
        };
        if (only_loads(instruction.op)) {
            execute();
            continue;
        }
        if (opaque_tasks_ == 0) {
            stack_before_.assign(frame.stack.begin(), frame.stack.end());
            at_before_ = frame.at;
        }
        if (instruction.op == bytecode::Op::ReturnValue || instruction.op == bytecode::Op::ReturnConst)
            expect_nothing_lost_by_return(frame, instruction);
        execute();
        if (loud_ > 0 && result_ == nullptr) expect_nothing_lost_after(frame);
    }
}

void Interpreter::roll_back() {
    for (auto step = undo_log_.rbegin(); step != undo_log_.rend(); ++step) (*step)->run();
    undo_log_.clear();
    graph_->truncate(mark_.graph_size);
    result_ = nullptr;
    // What was given up while an instruction of a lower frame went on can't be had back.
    if (frames_.size() < mark_.depth)
        throw Break{report_.kind, report_.reason +
                                      " (in an instruction whose inner call had already returned, so the captured "
                                      "region can't end before it)"};
    while (frames_.size() > mark_.depth) {
        broke_in_callback_ = broke_in_callback_ || !frames_.back()->is_task;
        pop_frame();
    }
}

bool Interpreter::may_be_caught(Value* exception) const {
    for (auto activation = frames_.rbegin(); activation != frames_.rend(); ++activation) {
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
        frame.stack.resize(rest);
        return complete(*this, frame, (*frame.code)[frame.at], result);
    }
    // The end of an instruction may fail too, and then it is done for real, with its operands.
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

// --- frames
// ------------------------------------------------------------------------------------------------------------

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
    decoding_seconds_ += frame->code->take_decoding_seconds();
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
    if (frame.is_opaque) ++opaque_tasks_;
}

void Interpreter::leave_task(TaskFrame& frame) {
    if (std::exchange(frame.is_opaque, false)) --opaque_tasks_;
}

void Interpreter::pop_frame() {
    Activation* top = frames_.back();
    frames_.pop_back();
    if (top->is_task) {
        --open_tasks_;
        leave_task(static_cast<TaskFrame&>(*top));
        delete static_cast<TaskFrame*>(top);
        return;
    }
    auto* frame = static_cast<BytecodeFrame*>(top);
    if (frame->generator == nullptr) free_frames_.push_back(frame);
}

Outcome Interpreter::push_call(FunctionValue* function, const Arguments& arguments) {
    if (frames_.size() - open_tasks_ >= depth_limit_)
        break_graph(BreakKind::UnknownFunction, "calls are nested deeper than Python's recursion limit");
    if ((function->code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) != 0)
        break_graph(BreakKind::Instruction, "the asynchronous function " + function->print() + " is called");
    expect_followed(function);
    BytecodeFrame* frame = new_frame(function);
    bind_arguments(*this, function, arguments, frame->slots);
    frame->modules = modules_for(function, arguments);
    frames_.push_back(frame);
    return Outcome::pending();
}

Outcome Interpreter::start(Task task) {
    // Python itself would have given up long before, but it counts otherwise.
    constexpr std::size_t kForEachCall = 8;
    if (is_stack_low() || open_tasks_ > kForEachCall * static_cast<std::size_t>(Py_GetRecursionLimit()))
        break_graph(BreakKind::Instruction, "calls are nested too deeply for the tracer");
    auto* frame = new TaskFrame(std::move(task));
    frames_.push_back(frame);
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
        if (frames_.empty()) {
            result_ = value;
            return;
        }
        if (!frames_.back()->is_task) {
            auto& frame = static_cast<BytecodeFrame&>(*frames_.back());
            return complete_instruction(frame, frame.pops, frame.complete, value);
        }
        auto& frame = static_cast<TaskFrame&>(*frames_.back());
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
    // What raises again adds nothing where it stands.
    bool raises_again =
        instruction.op == Op::Reraise || instruction.op == Op::CleanupThrow ||
        (instruction.op == Op::RaiseVarargs && instruction.arg == 0 && exception == handled_exception());
    if (raises_again) return;
    if (frame.traced == nullptr)
        set_undoably(
            *this, frame.traced,
            make<TracedFrame>(frame.function->code, frame.function->globals, frames_.size() == 1, instruction.offset));
    // An exception that is thrown into a generator comes out of the yield where it waits.
    bool is_thrown = instruction.op == Op::Resume && (instruction.arg & 3) != 0;
    add_to_traceback(*this, exception, frame.traced, is_thrown ? frame.waits_at() : instruction.offset);
}

void Interpreter::unwind(Value* exception) {
    expect_nothing_lost_by(exception);
    while (!frames_.empty()) {
        if (frames_.back()->is_task) {
            auto& frame = static_cast<TaskFrame&>(*frames_.back());
            frame.task.promise().delivered_failure = std::make_exception_ptr(Raised{exception});
            leave_task(frame);
            enter_task(frame);
            if (!frame.task.done()) return;
            std::exception_ptr failure = frame.task.promise().failure;
            Value* result = frame.task.promise().result;
            pop_frame();
            if (failure) std::rethrow_exception(failure);
            deliver(result);
            return;
        }
        auto& frame = static_cast<BytecodeFrame&>(*frames_.back());
        auto* raised = cast<ExceptionValue>(exception);
        if (raised != nullptr) note_in_traceback(frame, raised);
        if (const bytecode::Handler* handler = frame.code->handler_for(frame.at); handler != nullptr) {
            if (raised != nullptr && raised->context == nullptr) set_context(*this, raised, handled_exception());
            const bytecode::Instruction& instruction = (*frame.code)[frame.at];
            frame.stack.resize(static_cast<std::size_t>(handler->depth));
            if (handler->push_lasti) frame.push(integer(instruction.offset.unit()));
            frame.push(exception);
            frame.at = handler->target;
            return;
        }
        STATOR_CHECK(frames_.size() > 1, "an exception that nobody catches is left to the real frame");
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
    frames_.pop_back();
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
    frames_.pop_back();
    deliver(generator);
}

Outcome Interpreter::push_generator(GeneratorValue* generator, Value* sent) {
    if (generator->running) raise(PyExc_ValueError, "generator already executing");
    if (generator->finished) return exhausted();
    if (frames_.size() - open_tasks_ >= depth_limit_)
        break_graph(BreakKind::UnknownFunction, "calls are nested deeper than Python's recursion limit");
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
    frame->location = nullptr;  // it may be another caller than last time
    frame->modules = current_modules();
    frame->push(sent);
    frames_.push_back(frame);
    return Outcome::pending();
}

void Interpreter::enter_generator(GeneratorValue* generator) {
    generator->running = true;
    generator->started = true;
    generator->frame = nullptr;
    on_undo([this, around = handled_around_] { handled_around_ = around; });
    handled_around_.push_back(handled_here());
    set_handled_exception(generator->handled == nullptr ? none() : generator->handled);
}

void Interpreter::leave_generator(GeneratorValue* generator) {
    generator->running = false;
    generator->handled = handled_here();
    on_undo([this, around = handled_around_] { handled_around_ = around; });
    set_handled_exception(handled_around_.back());
    handled_around_.pop_back();
}

Value* Interpreter::handled_here() {
    if (handled_exception_ == nullptr) {
        Ref<> handled = Ref<>::steal(PyErr_GetHandledException());
        PyObject* object = handled ? handled.get() : Py_None;
        handled_exception_ = outside(provenance_.handled_exception(object), object);
    }
    return handled_exception_;
}

void Interpreter::set_handled_exception(Value* exception) {
    handled_here();  // what was before is known from now on
    on_undo([this, before = handled_exception_] { handled_exception_ = before; });
    handled_exception_ = exception;
}

Value* Interpreter::handled_exception() {
    auto is_one = [this](Value* handled) {
        realize(handled);
        return handled->object() != Py_None;
    };
    if (is_one(handled_here())) return handled_exception_;
    for (auto around = handled_around_.rbegin(); around != handled_around_.rend(); ++around)
        if (is_one(*around)) return *around;
    return nullptr;
}

BytecodeFrame* Interpreter::innermost() const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
        if (!(*frame)->is_task) return static_cast<BytecodeFrame*>(*frame);
    return nullptr;
}

FunctionValue* Interpreter::running_function() {
    return innermost()->function;
}

Value* Interpreter::local_of_caller(Borrowed<> name) {
    BytecodeFrame* frame = innermost();
    for (int i = 0; i < frame->code->slot_count(); ++i) {
        if (PyUnicode_Compare(frame->code->slot_name(i), name) != 0) continue;
        Value* value = frame->slots[i];
        if (auto* cell = value == nullptr ? nullptr : cast<CellValue>(value)) return cell->get(*this);
        return value;
    }
    return nullptr;
}

Value* Interpreter::first_argument_of_caller() {
    BytecodeFrame* frame = innermost();
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

// --- guards and effects
// ------------------------------------------------------------------------------------------------

void Interpreter::guard(Guard guard) {
    // A pinned object is itself; what it says of itself may change all the same.
    if (guard.source->access == Access::Pinned &&
        (guard.kind == GuardKind::Identity || guard.kind == GuardKind::Constant || guard.kind == GuardKind::Present))
        return;
    if (guard.expected != nullptr) keep(Ref<>::share(guard.expected));
    guards_.push_back(guard);
}

void Interpreter::set_modes(const torch_room::Modes& modes) {
    on_undo([this, before = modes_] { modes_ = before; });
    modes_ = modes;
}

void Interpreter::name_after(Value* value, Borrowed<> variable) {
    auto* tensor = cast<TensorValue>(value);
    if (tensor != nullptr && tensor->node != nullptr && tensor->node->kind != graph::NodeKind::Placeholder)
        graph_->name_after(tensor->node, utf8(variable));
}

// --- reports
// -----------------------------------------------------------------------------------------------------------

void Interpreter::note_mismatch(FunctionValue* function, const std::string& words, const Arguments& arguments) {
    MismatchedCall call{words, Ref<PyCodeObject>::share(function->code), {}, {}};
    for (Value* argument : arguments.positional) call.argument_types.push_back(type_name(argument->type()));
    for (const Keyword& keyword : arguments.keywords)
        call.argument_types.push_back(std::string(utf8(keyword.name)) + ": " + type_name(keyword.value->type()));
    if (BytecodeFrame* caller = innermost())
        call.caller = {Ref<PyCodeObject>::share(caller->function->code), caller->line()};
    mismatched_calls_.push_back(std::move(call));
}

void Interpreter::record_break(const Break& reason) {
    report_.is_exit = false;
    report_.kind = reason.kind;
    report_.reason = reason.reason;
    report_.stack.clear();
    for (auto activation = frames_.rbegin(); activation != frames_.rend(); ++activation) {
        if ((*activation)->is_task) continue;
        auto* frame = static_cast<BytecodeFrame*>(*activation);
        report_.stack.push_back({Ref<PyCodeObject>::share(frame->function->code), frame->line()});
    }
}

}  // namespace stator
