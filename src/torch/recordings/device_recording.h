/// Rows of prepared calls that a device has recorded and repeats by itself: CUDA graphs. When to record is decided in
/// graph/recorded_part.h; how a device does it, by a recorder in Python (python/stator/cuda_graphs.py).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ref.h"
#include "torch/calls/prepared_calls.h"

namespace stator::torch_room {

/// Whether there is a recorder for a kind of device (a `c10::DeviceType`).
bool has_recorder(std::int8_t device_type);
/// Whether an object is a tensor on such a device.
bool is_on_recording_device(Borrowed<> object);
/// For tests: the recorder for a kind of device, by its name in PyTorch. None removes it.
void set_recorder(const char* device_type, Borrowed<> recorder);

/// Steps that may be recorded together, and the values that enter and leave them.
struct Row {
    std::size_t first = 0, last = 0;
    std::size_t calls = 0;
    std::vector<std::uint32_t> inputs;    // read by the calls, made before them
    std::vector<std::uint32_t> results;   // made by the calls, used after them
    std::vector<std::uint32_t> released;  // not used after them
};
Row make_row(const PreparedCalls& calls, std::size_t first, std::size_t last);

/// The inputs of a row in one call.
struct SeenInputs {
    std::vector<std::int64_t> layout;  // sizes, strides, dtypes, devices and the settings that choose kernels
    std::vector<std::uintptr_t> addresses;
    bool is_differentiated = false;  // autograd would record the calls
};
void look_at(const Row& row, const TensorValues& values, SeenInputs* seen);

/// What the recordings of one program share: a pool of memory, and the order of what runs in it.
///
/// Recordings of one pool may use the same memory for different tensors. That is right as long as nothing in the pool
/// has to outlive a replay: inputs are copied in just before it, results are copied out just after it, all on one
/// stream or on streams that wait for each other, and no thread begins while another is in between.
class RecordingPool {
  public:
    /// `overwrites_results`: results are left in the pool, where the next replay overwrites them. Each recording then
    /// has a pool of its own.
    RecordingPool(std::int32_t device, bool overwrites_results);
    ~RecordingPool();
    RecordingPool(const RecordingPool&) = delete;
    RecordingPool& operator=(const RecordingPool&) = delete;

    /// Whether a thread records or replays. Under the interpreter's lock.
    bool is_busy() const { return is_busy_; }
    /// Whether the program itself is recording its work on the current stream.
    bool is_recorded_by_program() const;
    /// Bytes that the recordings take, and that they may take.
    std::int64_t bytes() const { return bytes_; }
    std::int64_t limit() const;
    bool overwrites_results() const { return overwrites_results_; }
    /// The step that the program has begun with `torch.compiler.cudagraph_mark_step_begin`; 0 if it marks none.
    std::int64_t current_step() const;

  private:
    friend class DeviceRecording;
    struct Streams;
    class Busy;

    Ref<> recorder_;
    Ref<> handle_;
    Ref<> is_capturing_;
    std::int32_t device_;
    bool overwrites_results_;
    bool is_busy_ = false;
    std::int64_t bytes_ = 0;
    std::size_t recordings_ = 0;
    std::unique_ptr<Streams> streams_;
};

/// Why a row was not recorded.
struct NotRecorded {
    std::string reason;
    /// Recording it later, or with other inputs copied, may succeed.
    bool is_final = true;
    /// Inputs that it writes to, by their place in the row, if some of them were to be copied; else empty.
    std::vector<bool> written;
};

class DeviceRecording {
  public:
    using Made = std::variant<std::unique_ptr<DeviceRecording>, NotRecorded>;
    /// Records the calls; none of them is executed. Inputs are used where they are, or copied into memory of the
    /// recording (`is_copied`, by their place in the row). Throws PythonError only for interrupts and the like.
    static Made make(const PreparedCalls& calls, const Row& row, const TensorValues& values,
                     const std::vector<bool>& is_copied, RecordingPool& pool);
    ~DeviceRecording();
    DeviceRecording(const DeviceRecording&) = delete;
    DeviceRecording& operator=(const DeviceRecording&) = delete;

    /// Whether, in this call, an input that is copied shares memory with one that is written to, or is aligned
    /// otherwise than the copy.
    bool is_hindered(const TensorValues& values) const;
    /// Executes the calls: what `PreparedCalls::run` would do to `values`. Throws PythonError.
    void replay(TensorValues& values) const;

    const std::vector<bool>& is_copied() const { return is_copied_; }
    const std::vector<bool>& is_written() const { return is_written_; }

  private:
    struct Parts;

    DeviceRecording(const PreparedCalls& calls, const Row& row, RecordingPool& pool);
    std::optional<NotRecorded> record(const TensorValues& values);
    std::optional<NotRecorded> refusal(const TensorValues& values) const;
    void copy_inputs(const TensorValues& values) const;
    void give_results(TensorValues& values) const;
    void raise_versions(const TensorValues& values) const;

    const PreparedCalls& calls_;
    const Row& row_;
    RecordingPool& pool_;
    Ref<> replay_;
    std::int64_t bytes_ = 0;  // that it has added to the pool
    std::vector<bool> is_copied_, is_written_;
    std::unique_ptr<Parts> parts_;
};

}  // namespace stator::torch_room
