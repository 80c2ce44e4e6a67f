/// Calls of ATen operators with their arguments in place: what is left of the operations of a graph once it is known
/// which operators they call. Found by observing a real run (docs/design/executor.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ref.h"

namespace at {
class Tensor;
}

namespace stator::torch_room {

/// The tensors of one run, by number. Holds references, not Python objects: most of them never get one.
class TensorValues {
  public:
    explicit TensorValues(std::size_t count);
    ~TensorValues();
    TensorValues(const TensorValues&) = delete;
    TensorValues& operator=(const TensorValues&) = delete;

    /// `tensor` has to be a tensor.
    void load(std::uint32_t number, Borrowed<> tensor);
    /// The Python object of the tensor: the same for as long as it lives. Throws PythonError.
    Ref<> object(std::uint32_t number) const;
    bool has(std::uint32_t number) const;
    void release(std::uint32_t number);
    /// A number that changes between calls. False if it is no int or float, or too large for a call.
    bool load_number(std::uint32_t number, Borrowed<> object);
    /// By number, for files of this room.
    at::Tensor* tensors() const;

  private:
    friend class PreparedCalls;
    struct Tensors;
    std::unique_ptr<Tensors> tensors_;
};

/// A tensor among the operands of a step.
struct OperandTensor {
    PyObject* tensor;
    std::uint32_t value;  // its number
};

/// An operand of a step as the program gave it, of a step with numbers that change between calls.
struct GivenOperand {
    enum class Kind : std::uint8_t { Tensor, Number, Constant, Sequence };
    Kind kind = Kind::Constant;
    PyObject* object = nullptr;            // not of a sequence
    std::uint32_t number = 0;              // of the tensor, or of the number
    std::vector<GivenOperand> items = {};  // Sequence
    PyObject* keyword = nullptr;           // its name; null if it is given by place
};

/// The operands of a step.
struct StepOperands {
    std::span<const OperandTensor> tensors;
    std::span<const GivenOperand> given;  // all of them, if some are numbers that change; else empty
};

/// The result of a prepared step.
struct PreparedResult {
    enum class Kind : std::uint8_t { Tensor, Tuple, None };
    Kind kind = Kind::None;
    std::vector<std::uint32_t> values;  // one for a tensor
};

/// Observes the calls of this thread that reach the dispatcher from outside of any operator.
class CallObserver {
  public:
    CallObserver();
    ~CallObserver();
    CallObserver(const CallObserver&) = delete;
    CallObserver& operator=(const CallObserver&) = delete;

    /// Forgets what was observed: a step begins.
    void begin();

    struct Observed;

  private:
    friend class PreparedCalls;
    std::unique_ptr<Observed> observed_;
    bool was_enabled_;
    std::uint64_t handle_;
};

/// The tensors of a prepared call, by their numbers.
struct CallValues {
    std::vector<std::uint32_t> operands, written, results;
    std::vector<std::uint32_t> released;  // not read after this call
    bool is_mutable = false;              // by its schema
};

struct PreparedStep;

class PreparedCalls {
  public:
    /// `first_value` is the first number that no other value has.
    explicit PreparedCalls(std::size_t steps, std::uint32_t first_value);
    ~PreparedCalls();
    PreparedCalls(const PreparedCalls&) = delete;
    PreparedCalls& operator=(const PreparedCalls&) = delete;

    class WrappedNumbers;

    /// How a step may have come to its arguments, besides the tensors and constants among its operands.
    enum class Sizes : std::uint8_t {
        Fixed,            // from sizes too: they are the same in all calls
        Change,           // from nothing else
        ChangeInOneCall,  // the same, if it makes a single call
    };
    /// Prepares a step from the calls observed since it began, if they are certainly the same in all calls.
    std::optional<PreparedResult> prepare(std::size_t step, const CallObserver& observer, const StepOperands& operands,
                                          Borrowed<> result, Sizes sizes);
    void release_after(std::size_t step, std::uint32_t value);
    /// Runs of these steps, of which the sizes are the same in all calls, may keep tensors for the next ones. All that
    /// is released is known by then.
    void plan_memory(std::size_t first, std::size_t last);
    /// Results that are the same tensors in all runs, views of them, and the memory that they take while a row runs.
    struct PlannedMemory {
        std::size_t values = 0, views = 0, bytes = 0;
    };
    PlannedMemory planned_memory() const;
    /// After a step that was run in another way.
    void release(std::size_t step, TensorValues& values) const;
    std::uint32_t value_count() const { return value_count_; }
    std::size_t call_count() const;
    /// The names of the operators, in order, where gradients are wanted or not.
    enum class Gradients : std::uint8_t { Wanted, NotWanted };
    std::vector<std::string> operators(Gradients gradients) const;

    // For recordings (torch/recordings/device_recording.h), which run calls one by one.
    std::size_t call_count(std::size_t step) const;
    CallValues values_of(std::size_t step, std::size_t call) const;
    /// Throws what the operator throws.
    void run_call(std::size_t step, std::size_t call, TensorValues& values) const;
    const std::vector<std::uint32_t>& released_after(std::size_t step) const;
    /// Why a device can't record the step; null if it can.
    const char* why_not_recorded(std::size_t step) const;
    /// The device on which all tensors of the step are, packed; -1 if it has none.
    std::int32_t device_of(std::size_t step) const;

    /// Runs steps, none of which needs the interpreter: its lock is released. `read` are the values from outside of
    /// these steps. Null, or the number of the step that raised, with the error indicator set.
    std::optional<std::size_t> run(std::size_t first, std::size_t last, std::span<const std::uint32_t> read,
                                   TensorValues& values) const;

  private:
    void prepare_plain(PreparedStep& step, const CallObserver& observer, std::span<const OperandTensor> operands,
                       Borrowed<> result, const PreparedResult& prepared, Sizes sizes);
    static bool needs_no_autograd(std::span<const std::uint32_t> read, const TensorValues& values);
    struct Way;
    std::size_t run_quietly(std::size_t at, std::size_t last, Way& way, TensorValues& values,
                            const bool& has_warned) const;

    std::vector<PreparedStep> steps_;
    std::uint32_t value_count_;
    std::unique_ptr<WrappedNumbers> numbers_;
};

/// The state of this thread on which it depends what a call does besides computing its result: dispatch keys that are
/// included or excluded, modes, observers.
struct DispatchState {
    std::uint64_t included = 0, excluded = 0;
    bool with_grad = true;
    bool is_watched = false;  // by a mode, a profiler or anomaly detection

    bool operator==(const DispatchState&) const = default;
};
DispatchState read_dispatch_state();

}  // namespace stator::torch_room
