/// A part of a program that its device may record and repeat: when it is recorded, with which inputs copied, and which
/// recordings are kept (docs/design/executor.md#cuda-graphs).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "torch/recordings/device_recording.h"

namespace stator::graph {

class RecordedPart {
  public:
    /// Calls that a part needs to be worth a recording.
    static constexpr std::size_t kLeastCalls = 10;

    RecordedPart(const torch_room::PreparedCalls& calls, torch_room::Row row, torch_room::RecordingPool& pool);
    RecordedPart(const RecordedPart&) = delete;
    RecordedPart& operator=(const RecordedPart&) = delete;

    /// Runs the part from a recording, or records it first. False if its calls have to be made one by one: nothing has
    /// been done then. Throws PythonError if a replay raises.
    bool run(torch_room::TensorValues& values);

    std::size_t calls() const { return row_.calls; }
    std::size_t recordings() const { return kept_.size(); }
    std::uint64_t replays() const { return replays_; }
    /// Why it is not recorded any more, or was not the last time; empty if nothing was in the way.
    const std::string& reason() const { return reason_; }

  private:
    using Recording = torch_room::DeviceRecording;
    struct Kept {
        torch_room::SeenInputs seen;
        std::unique_ptr<Recording> recording;
        std::int64_t last_step = 0;  // in which it was replayed, if the program marks its steps
    };
    /// Inputs of some layout in a call that was made one by one.
    struct Sighting {
        torch_room::SeenInputs seen;
        std::vector<bool> has_moved;
    };

    bool would_overwrite(Kept& kept) const;
    Kept* find();
    bool fits(const Kept& kept) const;
    Sighting* sighting();
    bool is_time_to_record(Sighting* sighting);
    bool make_room();
    bool record(const Sighting& sighting, const torch_room::TensorValues& values);
    void note_failure(torch_room::NotRecorded failed);
    void set_reason(std::string reason);

    const torch_room::PreparedCalls& calls_;
    torch_room::Row row_;
    torch_room::RecordingPool& pool_;
    torch_room::SeenInputs seen_;    // in this call
    std::list<Kept> kept_;           // the most recently used first
    std::list<Sighting> sightings_;  // the same
    std::vector<bool> is_written_;   // inputs, as far as known
    std::uint64_t made_ = 0, replays_ = 0;
    bool is_given_up_ = false;
    std::string reason_;
};

}  // namespace stator::graph
