#include "graph/recorded_part.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/python_error.h"

namespace stator::graph {

using torch_room::NotRecorded;
using torch_room::SeenInputs;
using torch_room::TensorValues;

namespace {

constexpr std::size_t kMostRecordings = 8;
constexpr std::size_t kMostSightings = 16;
/// A recording takes about as long as some calls of the part: more are made only if the others were used this often.
constexpr std::uint64_t kReplaysPerRecording = 8;

}  // namespace

RecordedPart::RecordedPart(const torch_room::PreparedCalls& calls, torch_room::Row row, torch_room::RecordingPool& pool)
    : calls_(calls), row_(std::move(row)), pool_(pool), is_written_(row_.inputs.size()) {}

bool RecordedPart::run(TensorValues& values) {
    // Until the replay nothing lets another thread in, except for this question.
    if (is_given_up_ || pool_.is_recorded_by_program() || pool_.is_busy()) return false;
    torch_room::look_at(row_, values, &seen_);
    if (seen_.is_differentiated) return false;
    Kept* kept = find();
    if (kept == nullptr) {
        Sighting* known = sighting();
        if (!is_time_to_record(known) || !record(*known, values)) return false;
        kept = &kept_.front();
    }
    if (kept->recording->is_hindered(values) || would_overwrite(*kept)) return false;
    ++replays_;
    kept->recording->replay(values);
    return true;
}

/// Whether a replay would overwrite results of the same step. A program that marks its steps keeps results until the
/// next one begins; for one that does not, each call is a step.
bool RecordedPart::would_overwrite(Kept& kept) const {
    if (!pool_.overwrites_results()) return false;
    const std::int64_t step = pool_.current_step();
    return step != 0 && std::exchange(kept.last_step, step) == step;
}

RecordedPart::Kept* RecordedPart::find() {
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
        if (!fits(*kept)) continue;
        kept_.splice(kept_.begin(), kept_, kept);
        return &kept_.front();
    }
    return nullptr;
}

bool RecordedPart::fits(const Kept& kept) const {
    if (kept.seen.layout != seen_.layout) return false;
    for (std::size_t i = 0; i < seen_.addresses.size(); ++i)
        if (!kept.recording->is_copied()[i] && kept.seen.addresses[i] != seen_.addresses[i]) return false;
    return true;
}

/// The last call with this layout, if there was one.
RecordedPart::Sighting* RecordedPart::sighting() {
    for (auto known = sightings_.begin(); known != sightings_.end(); ++known) {
        if (known->seen.layout != seen_.layout) continue;
        sightings_.splice(sightings_.begin(), sightings_, known);
        return &sightings_.front();
    }
    sightings_.push_front({seen_, std::vector<bool>(row_.inputs.size())});
    if (sightings_.size() > kMostSightings) sightings_.pop_back();
    return nullptr;
}

bool RecordedPart::is_time_to_record(Sighting* known) {
    if (known == nullptr) return false;
    bool has_written_moved = false;
    for (std::size_t i = 0; i < seen_.addresses.size(); ++i) {
        if (known->seen.addresses[i] == seen_.addresses[i]) continue;
        // An input that is written to can't be copied: it is used where it is once it stays there.
        if (is_written_[i])
            has_written_moved = true;
        else
            known->has_moved[i] = true;
    }
    known->seen.addresses = seen_.addresses;
    if (has_written_moved) return false;
    if (made_ < kMostRecordings || replays_ >= kReplaysPerRecording * made_) return true;
    set_reason("its inputs change too often");
    return false;
}

/// True if there is a new recording, in front of the others.
bool RecordedPart::record(const Sighting& sighting, const TensorValues& values) {
    // Recordings that fit no more calls, because an input that they use where it is does not stay there.
    std::erase_if(kept_, [&](const Kept& kept) {
        if (kept.seen.layout != seen_.layout) return false;
        for (std::size_t i = 0; i < seen_.addresses.size(); ++i)
            if (sighting.has_moved[i] && !kept.recording->is_copied()[i]) return true;
        return false;
    });
    if (!make_room()) return false;
    const SeenInputs seen = seen_;
    const std::vector<bool> is_copied = sighting.has_moved;
    ++made_;
    Recording::Made made = Recording::make(calls_, row_, values, is_copied, pool_);
    if (auto* failed = std::get_if<NotRecorded>(&made)) {
        note_failure(std::move(*failed));
        return false;
    }
    auto& recording = std::get<std::unique_ptr<Recording>>(made);
    for (std::size_t i = 0; i < is_written_.size(); ++i)
        if (recording->is_written()[i]) is_written_[i] = true;
    kept_.push_front({seen, std::move(recording)});
    reason_.clear();
    return true;
}

void RecordedPart::note_failure(NotRecorded failed) {
    if (!failed.is_final) reason_ = std::move(failed.reason);
    if (failed.is_final) {
        is_given_up_ = true;
        set_reason(std::move(failed.reason));
        kept_.clear();
        sightings_.clear();
        return;
    }
    // What is written to is used where it is, from the next call in which it has stayed there.
    for (std::size_t i = 0; i < failed.written.size(); ++i) {
        if (!failed.written[i]) continue;
        is_written_[i] = true;
        for (Sighting& each : sightings_) each.has_moved[i] = false;
    }
}

/// A report that is being collected is told of a new reason at once: the graph may be older than the report.
void RecordedPart::set_reason(std::string reason) {
    if (reason == reason_) return;
    reason_ = std::move(reason);
    Ref<> module = Ref<>::steal(PyImport_ImportModule("stator.cuda_graphs"));
    Ref<> told = module ? Ref<>::steal(PyObject_CallMethod(module.get(), "note_unrecorded", "ns",
                                                           static_cast<Py_ssize_t>(row_.calls), reason_.c_str()))
                        : Ref<>();
    if (!told) PyErr_WriteUnraisable(nullptr);
}

/// Drops recordings, the least recently used first. False if there is no room for another one.
bool RecordedPart::make_room() {
    if (kept_.size() >= kMostRecordings) kept_.pop_back();
    const std::int64_t limit = pool_.limit();
    while (!kept_.empty() && pool_.bytes() > limit) kept_.pop_back();
    if (pool_.bytes() <= limit) return true;
    set_reason("the recordings of this graph take as much memory as they may");
    return false;
}

}  // namespace stator::graph
