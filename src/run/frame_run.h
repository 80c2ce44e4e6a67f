/// A real frame on its way: entries where there are some, real steps between them.
#pragma once

#include <memory>
#include <optional>

#include "bytecode/code.h"
#include "cpython/tracing.h"
#include "run/cache.h"
#include "run/step.h"

namespace stator {

struct GraphFailure;

/// The exception of an operation that the graph has executed, a part of its effects included: the program gets it where
/// it would have executed that operation.
struct RaisedBefore {
    Ref<> exception;
    Ref<> around;  // what was being handled then, or None

    static RaisedBefore of(Borrowed<> exception);
    /// Raises it, with what is being handled now as its context.
    void raise() const;
};

/// The open frames of an exit, as they are being filled one inside of the other.
struct Exit {
    Shared<Entry> entry;  // owns the plan
    std::vector<Ref<>> registers;
    std::optional<RaisedBefore> raised;  // by the innermost frame, instead of executing its instruction

    const std::vector<PlanFrame>& frames() const { return entry->plan.frames; }
    Ref<> at(std::int32_t number) const {
        return number < 0 ? Ref<>() : Ref<>::share(registers[static_cast<std::size_t>(number)].get());
    }
};

/// Evaluates a frame at its start, and leaves it: what CPython calls in the place of its own interpreter. `is_main`
/// says that it is the frame of the compiled callable itself.
PyObject* run_frame(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bool is_main);

class FrameRun {
  public:
    /// For a frame that is about to execute the instruction `at` of its code.
    FrameRun(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code,
             bytecode::Index at, bool is_main = false);

    /// Goes on until the frame is left. What comes out is the answer of the frame's evaluation. Does not throw: where
    /// Stator itself fails, CPython goes on with the frame from where it stands.
    PyObject* go_on();
    /// Goes on with frame number `depth` of an exit, which this frame is made for.
    PyObject* go_on(Exit& exit, std::size_t depth);

  private:
    /// The entry whose guards hold, captured if there is none; null where the frame is left to CPython. Throws
    /// PythonError.
    Shared<Entry> find_or_capture();
    /// Runs an entry whose guards have just held. True if the frame was left, with `answer`.
    bool run_captured(Shared<Entry> entry, PyObject** answer);
    /// What becomes of the frame after the graph or the plan raised. True if the frame was left, with `answer`.
    bool recover(Exit& exit, GraphFailure& failure, PyObject** answer);
    /// Fills the frame with its state at the exit, and does the instruction that ends there.
    Stepped finish_exit(Exit& exit, std::size_t depth);
    void fill(Exit& exit, const PlanFrame& state);
    Stepped step_for_real(bool runs_callbacks);
    /// The result of the frame above. Throws PythonError.
    Result run_frame_above(Exit& exit, std::size_t depth);
    /// Takes an instruction's end over; true if the frame was left.
    bool take(const Stepped& stepped, PyObject** answer);
    PyObject* leave();
    /// Whether a debugger came since the frame began, or wants its lines.
    bool has_debugger() const;
    /// Raises at the instruction that the frame is about to execute.
    PyObject* raise_here();
    /// Whether the frame goes from one real step to the next for too long to be worth it; then that is remembered.
    bool is_idle(const Entry& entry);

    static PyObject* handle_primed(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_callback(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PyObject* handle_generator(PyThreadState* thread, cpython::Frame* frame, void* context);
    static PySendResult send(void* context, PyObject* generator, PyObject* value, PyObject** result);

    EntryCache& cache_;
    PyThreadState* thread_;
    cpython::Frame* frame_;
    const bytecode::Code& code_;
    bytecode::Index at_;
    bool is_main_;  // the frame of the compiled callable itself
    /// What `sys.settrace` had set when the frame began.
    cpython::TraceFunction traced_by_;
    /// Begun in its middle: whoever watches the execution has not been told of its call yet.
    bool is_to_be_told_ = false;
    /// Nothing of the frame was touched yet.
    bool is_untouched_;
    /// Entries in a row that had no graph to run, and the first of them.
    std::size_t idle_ = 0;
    Shared<Entry> first_idle_;
};

}  // namespace stator
