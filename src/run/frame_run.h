/// Executes a real frame: entries where possible, single instructions between them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "bytecode/code.h"
#include "cpython/hook.h"
#include "cpython/tracing.h"
#include "effect/plan_registers.h"
#include "run/cache.h"
#include "run/step.h"

namespace stator {

struct GraphFailure;

/// The exception of an operation that the graph has executed, including a part of its effects: it is raised where the
/// program would have executed that operation.
struct RaisedBefore {
    Ref<> exception;
    Ref<> around;  // the exception that was being handled then, or None

    static RaisedBefore of(Borrowed<> exception);
    /// Raises it, with the exception that is being handled now as its context.
    void raise() const;
};

/// The open frames of an exit, filled one inside of the other.
struct Exit {
    /// (As an aggregate it would be filled with zeros first.)
    explicit Exit(Shared<Entry> entry) : entry(std::move(entry)) {}

    Shared<Entry> entry;  // owns the plan
    PlanRegisters registers;
    std::optional<RaisedBefore> raised;  // raised by the innermost frame instead of executing its instruction

    const std::vector<PlanFrame>& frames() const { return entry->plan.frames; }
    Ref<> at(std::int32_t number) const { return Ref<>::share(registers[number]); }
};

/// Evaluates a frame from its start and pops it; CPython calls this instead of its interpreter. `is_main`: it is the
/// frame of the compiled callable itself.
PyObject* run_frame(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bool is_main);

/// Resumes a coroutine, or a generator, and captures what it does until it is suspended.
PySendResult send_captured(EntryCache& cache, PyObject* coroutine, PyObject* value, PyObject** result);

/// Who executes a frame.
enum class FrameRole : std::uint8_t {
    Main,    // the caller of the compiled callable, whose frame it is
    Called,  // a function that runs captured in parts, or is disabled without what it calls
    /// A function that runs uncompiled because it raises where `is_compiling()` is True, or one that it calls: what
    /// asks for that has to be told False.
    CalledUncompiled,
};

class FrameRun {
  public:
    /// Evaluates the frame of a generator or coroutine that is resumed. `context` is the cache.
    static PyObject* handle_generator(PyThreadState* thread, cpython::Frame* frame, void* context);

    /// For a frame that is about to execute the instruction `at` of its code.
    FrameRun(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code,
             bytecode::Index at, FrameRole role = FrameRole::Called);

    /// Continues until the frame is done and returns its result. Does not throw: after an internal error, CPython
    /// continues with the frame from its current instruction.
    PyObject* go_on();
    /// Continues with frame number `depth` of an exit, which this frame was created for.
    PyObject* go_on(Exit& exit, std::size_t depth);

  private:
    /// The entry whose guards hold, captured if there is none; null if the frame is left to CPython. Throws
    /// PythonError.
    Shared<Entry> find_or_capture();
    /// Runs an entry whose guards have just held. True if the frame is done, with the result in `answer`.
    bool run_captured(Shared<Entry> entry, PyObject** answer);
    /// Handles an exception of the graph or the plan. True if the frame is done, with the result in `answer`.
    bool recover(Exit& exit, GraphFailure& failure, PyObject** answer);
    /// Fills the frame with its state at the exit, and executes the instruction there.
    Stepped finish_exit(Exit& exit, std::size_t depth);
    void fill(Exit& exit, const PlanFrame& state);
    Stepped step_for_real(bool runs_callbacks);
    /// The result of the frame above; none if it has raised. Throws PythonError where it could not begin.
    std::optional<Result> run_frame_above(Exit& exit, std::size_t depth);
    /// Handles the end of an instruction; true if the frame is done.
    bool take(const Stepped& stepped, PyObject** answer);
    PyObject* leave();
    /// Whether a debugger was attached since the frame started, or traces its lines.
    bool has_debugger() const;
    /// Raises at the instruction that the frame is about to execute.
    PyObject* raise_here();
    /// Whether the frame only has to return, as that of a caller after a graph break often has.
    bool is_done() const;
    /// Whether it runs uncompiled, while the functions that it calls are captured.
    bool runs_uncompiled(const Entry& entry) const;
    /// What handles the functions that the frame calls.
    cpython::FrameHandler handler(const Entry* entry = nullptr) const;
    /// Whether too many captures in a row had no graph; then the frame runs uncompiled from now on.
    bool is_idle(const Entry& entry);

    static PyObject* handle_primed(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_forward(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_disabled(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_callback(PyThreadState* thread, cpython::Frame* frame, void* context);
    /// For frames below a function of a library that runs uncompiled: other functions of libraries do so too.
    static PyObject* handle_below_library(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* run_library(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_called_uncompiled(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PySendResult send(void* context, PyObject* generator, PyObject* value, PyObject** result);

    EntryCache& cache_;
    PyThreadState* thread_;
    cpython::Frame* frame_;
    const bytecode::Code& code_;
    bytecode::Index at_;
    FrameRole role_;
    /// The trace function of `sys.settrace` when the frame started.
    cpython::TraceFunction traced_by_;
    /// The frame starts in its middle: profilers have not received its call event yet.
    bool needs_call_event_ = false;
    /// Nothing of the frame was changed yet.
    bool is_untouched_;
    /// The number of entries in a row without a graph, and the first of them.
    std::size_t idle_ = 0;
    Shared<Entry> first_idle_;
};

}  // namespace stator
