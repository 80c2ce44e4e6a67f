#include "run/frame_run.h"

#include <optional>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/short_list.h"
#include "base/text.h"
#include "capture/notes.h"
#include "capture/report.h"
#include "cpython/hook.h"
#include "cpython/tracing.h"
#include "run/counts.h"
#include "run/execute.h"
#include "run/failed_graph.h"
#include "run/miss.h"
#include "run/stance.h"
#include "torch/library_code.h"
#include "value/kinds/function.h"

namespace stator {

using bytecode::Index;
using bytecode::Instruction;

FrameRun::FrameRun(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code,
                   Index at, FrameRole role)
    : cache_(cache),
      thread_(thread),
      frame_(frame),
      code_(code),
      at_(at),
      role_(role),
      traced_by_(cpython::trace_function(thread)),
      is_untouched_(at.value == 0) {}

// --- a call: hook, look up, check, run, return

namespace {

PyObject* run_frame_as(FrameRole role, EntryCache& cache, PyThreadState* thread, cpython::Frame* frame) {
    const bytecode::Code* code = nullptr;
    try {
        code = &bytecode::decode(cpython::code_of(frame));
    } catch (const PythonError&) {
        return cpython::run_raising(thread, frame, cpython::body_start(cpython::code_of(frame)));
    } catch (const std::exception& error) {
        report_internal_error(cpython::code_of(frame), error.what());
        return cpython::run_untouched(thread, frame);
    }
    return FrameRun(cache, thread, frame, *code, {0}, role).go_on();
}

}  // namespace

PyObject* run_frame(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bool is_main) {
    return run_frame_as(is_main ? FrameRole::Main : FrameRole::Called, cache, thread, frame);
}

namespace {

/// PyTorch's code for the call of a module counts: it calls `forward` and hooks, and computes nothing.
bool is_library_code(PyFunctionObject* function) {
    auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    return torch_room::is_library_code(function->func_globals, code) ||
           torch_room::calls_forward_and_hooks(function->func_globals, code);
}

}  // namespace

bool FrameRun::runs_uncompiled(const Entry& entry) const {
    return entry.captures_calls || (role_ == FrameRole::CalledUncompiled && entry.is_for_compilers);
}

cpython::FrameHandler FrameRun::handler(const Entry* entry) const {
    const bool is_told_false = entry != nullptr && entry->captures_calls && entry->is_for_compilers;
    if (is_told_false || role_ == FrameRole::CalledUncompiled) return handle_called_uncompiled;
    const bool is_library = entry != nullptr && is_library_code(cpython::function_of(frame_));
    return is_library ? handle_below_library : handle_callback;
}

[[gnu::always_inline]] inline Shared<Entry> FrameRun::find_or_capture() {
    const bool is_main = role_ == FrameRole::Main && at_.value == 0;
    Shared<EntryPoint> point = cache_.point_at(frame_, at_, is_main);
    const Stance& stance = current_stance();
    if (stance.kind == Stance::Kind::ForceEager) return nullptr;
    const bool is_first_with_aot = stance.kind == Stance::Kind::AotEagerThenCompile && !point->has_run;
    Ref<> forced_backend = is_first_with_aot ? Ref<>::share(interned("aot_eager")) : stance.backend;
    Shared<Entry> entry = point->find(frame_, forced_backend);
    if (!entry) entry = capture_missing(cache_, *point, frame_, at_, is_main, forced_backend);
    if (point.is_only_owner() && entry) [[unlikely]] {
        // A reset detached the point meanwhile. Releasing it may run code, which invalidates the objects that the
        // guards fetched.
        point = nullptr;
        if (entry->is_captured && !entry->matches(frame_)) return nullptr;
    }
    return entry;
}

[[gnu::always_inline]] inline bool FrameRun::run_captured(Shared<Entry> entry, PyObject** answer) {
    Exit exit(std::move(entry));
    GraphFailure failure;
    Ref<> returned;
    try {
        returned = execute(*exit.entry, thread_, frame_, exit.registers, &failure);
    } catch (const PythonError&) {
        return recover(exit, failure, answer);
    } catch (const std::exception& error) {
        report_internal_error(cpython::code_of(frame_), error.what());
        *answer = leave();
        return true;
    }
    if (!returned) return take(finish_exit(exit, 0), answer);
    *answer = cpython::return_at_once(thread_, frame_, std::move(returned));
    return true;
}

PyObject* FrameRun::go_on() {
    while (true) {
        if (is_done()) return leave();
        Shared<Entry> entry;
        try {
            entry = find_or_capture();
        } catch (const PythonError&) {
            return raise_here();
        } catch (const std::exception& error) {
            // Internal errors never propagate to the program.
            report_internal_error(cpython::code_of(frame_), error.what());
        }
        if (entry && runs_uncompiled(*entry)) {
            if (cpython::is_being_traced(thread_)) return leave();
            const cpython::FrameHandler handles_calls = handler(entry.get());
            entry = nullptr;
            cpython::HookCallbacks hooked(thread_, handles_calls, &cache_);
            return is_untouched_ ? cpython::run(thread_, frame_) : leave();
        }
        if (!entry || !entry->is_captured || is_idle(*entry)) return leave();
        Shared<Entry> first_idle = idle_ == 1 ? entry : nullptr;
        PyObject* answer = nullptr;
        if (run_captured(std::move(entry), &answer)) return answer;
        if (first_idle) first_idle_ = std::move(first_idle);
    }
}

// --- a graph that raised

namespace {

/// Whether the current exception comes from an operation. Exceptions of other classes come from the backend, unless
/// operations `may_be_any`: raise any class.
bool is_of_an_operation(bool may_be_any) {
    if (may_be_any) return PyErr_ExceptionMatches(PyExc_Exception) != 0;
    for (PyObject* type : {PyExc_RuntimeError, PyExc_IndexError, PyExc_ValueError, PyExc_TypeError})
        if (PyErr_ExceptionMatches(type) != 0) return true;
    return false;
}

/// Says that a graph has raised the current exception. The program raises it too, unless it is an error of the backend.
void note_exception(cpython::Frame* frame, Index at) {
    TakenError error = TakenError::take();
    std::string text = Py_TYPE(error.exception().get())->tp_name;
    // (A class of the program could run its code here.)
    if ((Py_TYPE(error.exception().get())->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
        Ref<> words = Ref<>::steal(PyObject_Str(error.exception().get()));
        if (words) text += ": " + std::string(utf8(words.get()));
        PyErr_Clear();
    }
    issue_note(NoteKind::Information, NoteOnce::AtPlace, "graph_raised", callee_of(frame, at),
               "A graph raised " + text +
                   ". The call went on uncompiled from before that operation. If it does not raise there, this is an "
                   "error of the backend, and costs time in each such call.");
    std::move(error).restore();
}

}  // namespace

bool FrameRun::recover(Exit& exit, GraphFailure& failure, PyObject** answer) {
    const bool may_be_any = failure.at.has_value() || exit.entry->graph.has_custom_operations;
    if (failure.has_happened && is_of_an_operation(may_be_any)) {
        note_exception(frame_, at_);
        // Without visible effects, the frame is left to CPython, which runs it from where the graph began and raises at
        // the right place. Otherwise it is exited at the operation.
        if (failure.undo()) {
            PyErr_Clear();
            failure = {};
            *answer = leave();
            return true;
        }
        if (failure.at && exit_before_failure(cache_, thread_, frame_, at_, *failure.at, &exit)) {
            if (failure.at->has_effect)
                exit.raised = RaisedBefore::of(TakenError::take().exception());
            else
                PyErr_Clear();
            failure = {};
            return take(finish_exit(exit, 0), answer);
        }
    }
    *answer = raise_here();
    return true;
}

// --- leaving the frame to CPython

PyObject* FrameRun::raise_here() {
    Index blamed = is_untouched_ ? code_.body() : at_;
    return cpython::run_raising(thread_, frame_, code_[blamed].offset);
}

PyObject* FrameRun::leave() {
    ++run_counts.left;
    if (is_untouched_) return cpython::run_untouched(thread_, frame_);
    if (!code_[at_].can_resume) {
        PyObject* answer = nullptr;
        if (take(step_for_real(/*runs_callbacks=*/false), &answer)) return answer;
    }
    cpython::resume_at(frame_, code_[at_].start);
    return cpython::run(thread_, frame_);
}

bool FrameRun::is_done() const {
    const bytecode::Op next = code_[at_].op;
    return !is_untouched_ && (next == bytecode::Op::ReturnValue || next == bytecode::Op::ReturnConst);
}

bool FrameRun::is_idle(const Entry& entry) {
    constexpr std::size_t kPatience = 100;
    if (entry.has_graph()) {
        idle_ = 0;
        return false;
    }
    if (++idle_ <= kPatience) return false;
    first_idle_->is_captured = false;
    const Callee at = callee_of(first_idle_->code.get(), code_[first_idle_->at].line);
    issue_note(
        NoteKind::Information, NoteOnce::AtPlace, "no_graphs", at,
        at.print() + " runs uncompiled from here on: " + std::to_string(kPatience) +
            " captures in a row had no tensor operation. stator.explain shows the graph breaks; compile the inner "
            "functions that do the computation instead.");
    return true;
}

// --- exits: a real frame takes over from the captured part

PyObject* FrameRun::go_on(Exit& exit, std::size_t depth) {
    needs_call_event_ = true;
    PyObject* answer = nullptr;
    if (take(finish_exit(exit, depth), &answer)) return answer;
    return go_on();
}

void FrameRun::fill(Exit& exit, const PlanFrame& state) {
    is_untouched_ = false;
    for (const PlanFrame::Slot& slot : state.slots) cpython::set_slot(frame_, slot.slot, exit.at(slot.from));
    ShortList<PyObject*, 16> values;
    for (std::int32_t from : state.stack) values.push_back(exit.at(from).release());
    cpython::set_stack(frame_, values);
    at_ = {state.instruction};
    if (std::int32_t handled = state.handled_exception; handled != PlanFrame::kUnchanged)
        PyErr_SetHandledException(handled < 0 ? Py_None : exit.at(handled).get());
}

RaisedBefore RaisedBefore::of(Borrowed<> exception) {
    return {Ref<>::share(exception), Ref<>::steal(PyErr_GetHandledException())};
}

void RaisedBefore::raise() const {
    Ref<> context = Ref<>::steal(PyException_GetContext(exception.get()));
    // A context from inside of the operation is kept.
    if (context && context.get() != around.get()) {
        PyErr_Restore(Py_NewRef(Py_TYPE(exception.get())), Py_NewRef(exception.get()),
                      PyException_GetTraceback(exception.get()));
        return;
    }
    PyException_SetContext(exception.get(), nullptr);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

Stepped FrameRun::finish_exit(Exit& exit, std::size_t depth) {
    fill(exit, exit.frames()[depth]);
    if (std::exchange(needs_call_event_, false) && cpython::is_being_traced(thread_)) {
        try {
            cpython::report_call(thread_, frame_, code_[at_].offset);
        } catch (const PythonError&) {
            return {Stepped::Kind::Raised, at_};
        }
    }
    if (depth + 1 < exit.frames().size()) {
        try {
            if (std::optional<Result> result = run_frame_above(exit, depth + 1))
                return complete(frame_, code_, at_, std::move(*result));
        } catch (const PythonError&) {
        }
        return {Stepped::Kind::Raised, at_};
    }
    // Objects that the frames do not reference have to be freed before the program continues, as uncompiled.
    bool runs_callbacks = exit.frames()[depth].runs_callbacks;
    exit.registers.free_first_to_last();
    exit.entry = nullptr;
    if (exit.raised) {
        std::exchange(exit.raised, std::nullopt)->raise();
        return {Stepped::Kind::Raised, at_};
    }
    // CPython suspends a generator.
    if (code_[at_].op == bytecode::Op::YieldValue) return {Stepped::Kind::Leave, at_};
    return step_for_real(runs_callbacks);
}

namespace {

/// Links the frame as the thread's current one, and counts it for the recursion limit.
class Executing {
  public:
    Executing(PyThreadState* thread, cpython::Frame* frame, cpython::Offset offset)
        : thread_(thread), link_(thread, frame, offset) {
        if (cpython::recursion_remaining(thread) <= 0) {
            PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
            throw PythonError();
        }
        --cpython::recursion_remaining(thread);
    }
    ~Executing() { ++cpython::recursion_remaining(thread_); }
    Executing(const Executing&) = delete;
    Executing& operator=(const Executing&) = delete;

  private:
    PyThreadState* thread_;
    cpython::LinkedFrame link_;
};

/// Whether the iterator may run user code: `map`, `zip` over such an iterator, ...
bool may_run_callbacks(PyObject* iterator) {
    PyTypeObject* type = Py_TYPE(iterator);
    for (PyTypeObject* plain : {&PyListIter_Type, &PyTupleIter_Type, &PyRangeIter_Type, &PyLongRangeIter_Type,
                                &PyDictIterKey_Type, &PyDictIterItem_Type, &PyDictIterValue_Type, &PySetIter_Type,
                                &PyUnicodeIter_Type, &PyListRevIter_Type, &PyGen_Type})
        if (type == plain) return false;
    return true;
}

}  // namespace

Stepped FrameRun::step_for_real(bool runs_callbacks) {
    ++run_counts.real_steps;
    if (PyErr_CheckSignals() < 0) return {Stepped::Kind::Raised, at_};
    try {
        Executing executing(thread_, frame_, code_[at_].offset);
        if (code_[at_].op == bytecode::Op::ForIter) runs_callbacks = may_run_callbacks(cpython::stack(frame_).back());
        std::optional<cpython::HookCallbacks> hooked;
        if (runs_callbacks) hooked.emplace(thread_, handler(), &cache_);
        return step(frame_, code_, at_, send, this);
    } catch (const PythonError&) {
        return {Stepped::Kind::Raised, at_};
    }
}

// --- frames above

namespace {

struct Primed {
    FrameRole role;
    EntryCache* cache;
    Exit* exit;
    std::size_t depth;
};

Ref<> apply(const PlanContinuation& continuation, Ref<> given, Ref<> result) {
    switch (continuation.kind) {
        case PlanContinuation::Kind::Forward:
        case PlanContinuation::Kind::Next:
        case PlanContinuation::Kind::Send:
            return result;
        case PlanContinuation::Kind::Drop:
            return Ref<>::share(Py_None);
        case PlanContinuation::Kind::Iterate:
            if (PyIter_Check(result.get())) return result;
            PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'",
                         Py_TYPE(result.get())->tp_name);
            throw PythonError();
        case PlanContinuation::Kind::Initialise:
            if (result.get() != Py_None) {
                PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'",
                             Py_TYPE(result.get())->tp_name);
                throw PythonError();
            }
            return given;
    }
    return result;
}

}  // namespace

PyObject* FrameRun::handle_primed(PyThreadState* thread, cpython::Frame* frame, void* context) {
    // The trace has decoded the code, so that does not fail now; `go_on` does not throw.
    auto* primed = static_cast<Primed*>(context);
    const bytecode::Code& code = bytecode::decode(cpython::code_of(frame));
    return FrameRun(*primed->cache, thread, frame, code, {0}, primed->role).go_on(*primed->exit, primed->depth);
}

std::optional<Result> FrameRun::run_frame_above(Exit& exit, std::size_t depth) {
    const PlanFrame& state = exit.frames()[depth];
    // The plan may be freed meanwhile.
    const ShortList<PlanContinuation, 4> continuations{state.continuations};
    std::vector<Ref<>> given;
    for (const PlanContinuation& continuation : continuations)
        if (continuation.from >= 0) given.push_back(exit.at(continuation.from));
    const FrameRole role = role_ == FrameRole::CalledUncompiled ? role_ : FrameRole::Called;
    Primed primed{role, &cache_, &exit, depth};
    Result result;
    {
        Executing executing(thread_, frame_, code_[at_].offset);
        if (state.generator >= 0) {
            Ref<> generator = exit.at(state.generator);
            PyObject* value = nullptr;
            PySendResult how =
                cpython::send_with_hook(generator.get(), Py_None, /*is_primed=*/true, handle_primed, &primed, &value);
            result = {Ref<>::steal(value), how == PYGEN_RETURN};
        } else {
            Ref<> function = exit.at(state.function);
            auto* real = reinterpret_cast<PyFunctionObject*>(function.get());
            result.value = Ref<>::steal(cpython::call_primed(real, handle_primed, &primed));
        }
    }
    if (!result.value) {
        bool ends_iteration = !continuations.empty() && continuations[0].kind == PlanContinuation::Kind::Next;
        if (!ends_iteration || !PyErr_ExceptionMatches(PyExc_StopIteration)) return std::nullopt;
        PyErr_Clear();
        return Result{};
    }
    auto next_given = given.begin();
    for (const PlanContinuation& continuation : continuations) {
        Ref<> its_own = continuation.from >= 0 ? std::move(*next_given++) : Ref<>();
        result.value = apply(continuation, std::move(its_own), std::move(result.value));
    }
    return result;
}

// --- generators

PyObject* FrameRun::handle_generator(PyThreadState* thread, cpython::Frame* frame, void* context) {
    auto* cache = static_cast<EntryCache*>(context);
    // The exception that is handled around a generator is not part of its state.
    Ref<> handled = Ref<>::steal(PyErr_GetHandledException());
    if (handled && handled.get() != Py_None) return cpython::run(thread, frame);
    const bytecode::Code* code = nullptr;
    try {
        code = &bytecode::decode(cpython::code_of(frame));
    } catch (const PythonError&) {
        PyErr_Clear();
    } catch (const std::exception& error) {
        report_internal_error(cpython::code_of(frame), error.what());
    }
    if (code == nullptr) return cpython::run(thread, frame);
    return FrameRun(*cache, thread, frame, *code, code->index_at(cpython::next_offset(frame))).go_on();
}

PySendResult send_captured(EntryCache& cache, PyObject* coroutine, PyObject* value, PyObject** result) {
    return cpython::send_with_hook(coroutine, value, /*is_primed=*/false, FrameRun::handle_generator, &cache, result);
}

namespace {

/// Whether `torch.compiler.disable(recursive=False)` made the function.
bool leaves_calls_enabled(PyFunctionObject* function) {
    PyObject* attributes = function->func_dict;
    return attributes != nullptr &&
           PyDict_GetItemWithError(attributes, interned("_torchdynamo_disable_recursive")) == Py_False;
}

/// Whether it is the Python function `torch.autograd.Function.apply`, which runs `forward` through C code.
bool is_apply(PyFunctionObject* function) {
    static PyObject* const apply = [] {
        Ref<> bound = find_imported("torch.autograd.function", "Function");
        bound = Ref<>::steal(PyObject_GetAttrString(bound.get(), "apply"));
        PyErr_Clear();
        return bound && PyMethod_Check(bound.get()) ? Py_NewRef(PyMethod_GET_FUNCTION(bound.get())) : nullptr;
    }();
    return apply != nullptr && reinterpret_cast<PyObject*>(function) == apply;
}

bool is_of_pytorch(PyFunctionObject* function) {
    PyObject* module = PyDict_GetItemWithError(function->func_globals, interned("__name__"));
    return module != nullptr && PyUnicode_Check(module) && utf8(module).starts_with("torch.");
}

}  // namespace

PyObject* FrameRun::handle_forward(PyThreadState* thread, cpython::Frame* frame, void* context) {
    if (is_of_pytorch(cpython::function_of(frame))) return cpython::run(thread, frame);
    return handle_callback(thread, frame, context);
}

PyObject* FrameRun::handle_disabled(PyThreadState* thread, cpython::Frame* frame, void* context) {
    cpython::HookCallbacks hooked(thread, handle_callback, context);
    return cpython::run(thread, frame);
}

PyObject* FrameRun::run_library(PyThreadState* thread, cpython::Frame* frame, void* context) {
    cpython::HookCallbacks hooked(thread, handle_below_library, context);
    return cpython::run(thread, frame);
}

PyObject* FrameRun::handle_below_library(PyThreadState* thread, cpython::Frame* frame, void* context) {
    PyFunctionObject* function = cpython::function_of(frame);
    const bool is_left = !is_disabled(reinterpret_cast<PyObject*>(function)) &&
                         torch_room::is_library_code(function->func_globals, cpython::code_of(frame));
    return is_left ? run_library(thread, frame, context) : handle_callback(thread, frame, context);
}

PyObject* FrameRun::handle_callback(PyThreadState* thread, cpython::Frame* frame, void* context) {
    PyFunctionObject* function = cpython::function_of(frame);
    if (is_disabled(reinterpret_cast<PyObject*>(function))) {
        std::optional<cpython::HookCallbacks> hooked;
        // The function in the wrapper runs uncompiled, and what it calls is captured.
        if (leaves_calls_enabled(function)) hooked.emplace(thread, handle_disabled, context);
        return cpython::run(thread, frame);
    }
    if (torch_room::communicates(function->func_globals)) return run_library(thread, frame, context);
    if (cpython::is_generator_frame(frame)) return handle_generator(thread, frame, context);
    if (is_apply(function)) {
        cpython::HookCallbacks hooked(thread, handle_forward, context);
        return cpython::run(thread, frame);
    }
    return run_frame(*static_cast<EntryCache*>(context), thread, frame, /*is_main=*/false);
}

PyObject* FrameRun::handle_called_uncompiled(PyThreadState* thread, cpython::Frame* frame, void* context) {
    PyFunctionObject* function = cpython::function_of(frame);
    if (is_disabled(reinterpret_cast<PyObject*>(function)) || cpython::is_generator_frame(frame) || is_apply(function))
        return cpython::run(thread, frame);
    return run_frame_as(FrameRole::CalledUncompiled, *static_cast<EntryCache*>(context), thread, frame);
}

PySendResult FrameRun::send(void* context, PyObject* generator, PyObject* value, PyObject** result) {
    auto* self = static_cast<FrameRun*>(context);
    if (self->role_ == FrameRole::CalledUncompiled) return PyIter_Send(generator, value, result);
    return cpython::send_with_hook(generator, value, /*is_primed=*/false, handle_generator, &self->cache_, result);
}

// --- the end of an instruction

bool FrameRun::has_debugger() const {
    // A trace function that was installed meanwhile wants every line from here on, also of called functions.
    return cpython::trace_function(thread_) != traced_by_ || cpython::is_stepped(thread_, frame_) ||
           cpython::has_to_start_in_cpython(thread_, cpython::code_of(frame_));
}

bool FrameRun::take(const Stepped& stepped, PyObject** answer) {
    switch (stepped.kind) {
        case Stepped::Kind::Next:
            at_ = stepped.next;
            if (cpython::is_being_traced(thread_) && has_debugger()) {
                *answer = leave();
                return true;
            }
            return false;
        case Stepped::Kind::Leave:
            *answer = leave();
            return true;
        case Stepped::Kind::Raised:
            break;
    }
    const Instruction& instruction = code_[at_];
    const bytecode::Handler* handler = code_.handler_for(at_);
    if (handler == nullptr) {
        *answer = stepped.raised_again ? cpython::leave_raising(thread_, frame_, instruction.offset)
                                       : cpython::run_raising(thread_, frame_, instruction.offset);
        return true;
    }
    // As the interpreter does: into the frame's own handler, which is captured like any other code.
    if (!stepped.raised_again) cpython::add_to_traceback(thread_, frame_, instruction.offset);
    TakenError error = TakenError::take();
    cpython::drop(frame_, static_cast<int>(cpython::stack(frame_).size()) - handler->depth);
    if (handler->push_lasti) cpython::push(frame_, checked(PyLong_FromLong(instruction.offset.unit())));
    cpython::push(frame_, Ref<>::share(error.exception().get()));
    at_ = handler->target;
    return false;
}

}  // namespace stator
