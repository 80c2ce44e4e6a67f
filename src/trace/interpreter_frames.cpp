#include "trace/interpreter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "cpython/objects.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/made_class.h"
#include "value/kinds/undoable.h"

namespace stator {

BytecodeFrame* Interpreter::new_frame(FunctionValue* function) {
    BytecodeFrame* frame = nullptr;
    if (free_frames_.empty()) {
        frame = make<BytecodeFrame>();
    } else {
        frame = free_frames_.back();
        free_frames_.pop_back();
    }
    frame->function = function;
    function->is_entered = true;
    frame->code = &bytecode::decode(function->code);
    note_traced(function->code);
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

void Interpreter::note_traced(PyCodeObject* code) {
    PyCodeObject*& noted =
        noted_lately_[(reinterpret_cast<std::uintptr_t>(code) / alignof(PyCodeObject)) % noted_lately_.size()];
    if (std::exchange(noted, code) != code) traced_code_.push_back(Ref<PyCodeObject>::share(code));
}

void Interpreter::enter_task(TaskFrame& frame) {
    frame.task.resume();
    if (frame.task.done()) return;
    frame.is_opaque = !frame.task.promise().continuation.kind;
    if (frame.is_opaque) ++stack_.opaque_tasks;
}

std::optional<Caller> caller_of(const Tracer& tracer, long stacklevel) {
    return static_cast<const Interpreter&>(tracer).caller(stacklevel);
}

namespace {

/// Whether calling the object runs this code, without a Python function in between.
bool runs(const Value* callable, const PyCodeObject* code) {
    if (callable == nullptr) return false;
    if (const auto* method = cast<MethodValue>(callable)) callable = method->function;
    if (const auto* function = cast<FunctionValue>(callable)) return function->code == code;
    const auto* type = cast<ClassValue>(callable);
    if (type == nullptr || Py_TYPE(type->held)->tp_call != PyType_Type.tp_call) return false;
    return std::ranges::any_of(std::array{"__init__", "__new__"}, [&](const char* name) {
        PyObject* method = cpython::lookup_in_mro(type->held, interned(name), nullptr);
        if (method != nullptr && Py_IS_TYPE(method, &PyStaticMethod_Type)) return false;
        return method != nullptr && PyFunction_Check(method) &&
               PyFunction_GET_CODE(method) == reinterpret_cast<const PyObject*>(code);
    });
}

/// Whether the instruction that a frame waits for has called this code itself.
bool has_called(const BytecodeFrame& frame, const PyCodeObject* code) {
    const auto pops = static_cast<std::size_t>(frame.pops);
    if (pops < 2 || pops > frame.stack.size()) return false;
    return runs(frame.top(pops - 1), code) || runs(frame.top(pops - 2), code);
}

}  // namespace

std::optional<Caller> Interpreter::caller(long stacklevel) const {
    const BytecodeFrame* called = nullptr;
    for (auto frame = stack_.frames.rbegin(); frame != stack_.frames.rend(); ++frame) {
        if ((*frame)->is_task) continue;
        const auto& found = static_cast<const BytecodeFrame&>(**frame);
        if (called != nullptr && !has_called(found, called->function->code)) return std::nullopt;
        if (found.function->globals == nullptr) return std::nullopt;
        if (stacklevel-- <= 1) return Caller{found.function->code, found.line(), found.function->globals};
        called = &found;
    }
    return std::nullopt;
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
    if (!logging_functions_.is_empty() && function->outside != nullptr)
        if (Value* done = logging_functions_.call(*this, function->outside, arguments)) return done;
    expect_inlined(function);
    expect_no_communication(function, arguments);
    if (is_of_transforms(function) && !recorder_.is_in_transform()) return start(call_transform(function, arguments));
    BytecodeFrame* frame = new_frame(function);
    bind_arguments(*this, function, arguments, frame->slots);
    frame->modules = recorder_.locations().modules_for(function, arguments);
    stack_.frames.push_back(frame);
    return Outcome::pending();
}

Outcome Interpreter::push_class_body(FunctionValue* body, Value* names) {
    expect_room_for_frame();
    BytecodeFrame* frame = new_frame(body);
    frame->slots.push_back(names);
    stack_.frames.push_back(frame);
    return Outcome::pending();
}

Outcome push_class_body(Tracer& tracer, FunctionValue* body, DictValue* names) {
    return static_cast<Interpreter&>(tracer).push_class_body(body, names);
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
        instruction.op == Op::Reraise || instruction.op == Op::CleanupThrow || instruction.op == Op::EndAsyncFor ||
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

namespace {

bool is_of(const Value* exception, PyObject* type) {
    return PyType_IsSubtype(exception->type(), reinterpret_cast<PyTypeObject*>(type)) != 0;
}

PyTypeObject* class_made_by(const PyCodeObject* code) {
    if ((code->co_flags & CO_COROUTINE) != 0) return &PyCoro_Type;
    return (code->co_flags & CO_ASYNC_GENERATOR) != 0 ? &PyAsyncGen_Type : &PyGen_Type;
}

}  // namespace

Value* Interpreter::leaving_generator(const GeneratorValue* generator, Value* exception) {
    const bool is_end = generator->class_ == &PyAsyncGen_Type && is_of(exception, PyExc_StopAsyncIteration);
    if (!is_end && !is_of(exception, PyExc_StopIteration)) return exception;
    const char* text = is_end ? " raised StopAsyncIteration" : " raised StopIteration";
    ExceptionValue* replaced = make_exception(*this, reinterpret_cast<PyTypeObject*>(PyExc_RuntimeError),
                                              {string(generator->noun() + std::string(text))});
    replaced->cause = replaced->context = exception;
    replaced->suppress_context = true;
    return replaced;
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
            exception = leaving_generator(generator, exception);
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
    auto* generator = make<GeneratorValue>(class_made_by(frame.function->code));
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
    follow_outside(generator);
    if (generator->running) raise(PyExc_ValueError, generator->noun() + std::string(" already executing"));
    if (generator->finished && generator->class_ == &PyCoro_Type)
        raise(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    if (generator->finished) return exhausted();
    expect_room_for_frame();
    auto* frame = static_cast<BytecodeFrame*>(generator->frame);
    if (!generator->started && sent->object() != Py_None)
        raise(PyExc_TypeError, "can't send non-None value to a just-started " + std::string(generator->noun()));
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

}  // namespace stator
