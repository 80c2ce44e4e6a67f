/// The streams on which the recordings of a pool were replayed. Only for files of this room.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

#include "torch/recordings/device_recording.h"

namespace stator::torch_room {

c10::Device unpacked_device(std::int32_t packed);

struct RecordingPool::Streams {
    std::optional<c10::Event> last_end;  // of the last replay
    std::optional<c10::Stream> last;

    /// The current stream waits for the last replay if that was on another one.
    void enter(c10::Device device);
    void leave(c10::Device device);
};

/// While it lives, other threads call the operators of the program one by one.
class RecordingPool::Busy {
  public:
    explicit Busy(RecordingPool& pool) : pool_(pool) { pool_.is_busy_ = true; }
    ~Busy() { pool_.is_busy_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

  private:
    RecordingPool& pool_;
};

}  // namespace stator::torch_room
