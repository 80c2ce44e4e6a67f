/// Recording a quick check. For the files of this room only.
#pragma once

#include "guard/quick.h"

namespace stator {

/// When to record: as soon as checks walk the same blocks again, and seldom if records do not last.
class Recording {
  public:
    /// After a success of the program itself: nothing quick was there, or it did not hold.
    void succeeded(GuardProgram::State& state);

  private:
    static constexpr std::size_t kPaysOff = 16;  // checks: about what recording costs
    static constexpr int kMostPatience = 64;

    /// Dicts of instances that were walked because they have no version get one, which the next success remembers. Not
    /// before checks repeat themselves: for an object that is met once it would be a waste. False if there are none.
    static bool give_versions(GuardProgram::State& state);
    void be_patient() { patience_ = patience_ < kMostPatience ? 2 * patience_ : kMostPatience; }

    std::vector<std::int32_t> walked_before_;
    int repeated_ = 0;  // how often in a row these were walked again
    int patience_ = 1;  // how often that has to be
    bool is_recorded_ = false;
};

/// One recording, right after a success, while registers and blocks are as that left them.
class QuickRecorder {
  public:
    using State = GuardProgram::State;

    explicit QuickRecorder(State& state);
    /// False if there is nothing to gain; nothing is recorded then.
    bool record();

  private:
    /// What is known of the object in a register by the time that its level is reached.
    enum class Standing : std::uint8_t {
        Unknown,  // anything
        Here,     // something is at the address that was recorded
        Lasting,  // it is the very object that was recorded
    };
    struct Known {
        Standing standing = Standing::Unknown;
        std::int32_t level = 0;
        PyTypeObject* type = nullptr;  // that it has to have; kept alive by a guard
        bool type_pending = false;     // and that is not compared yet
    };

    /// False where the program does something that should not be done between comparisons.
    bool follow();
    void follow_type(std::int32_t index);
    void follow_tensor(std::int32_t index);
    void walk_block(std::int32_t enter);
    void skip_block(std::int32_t enter);
    void expect_instance(const Step& enter);
    /// After this the register holds the recorded object, or one of its kind at its address.
    void settle(std::int32_t place, const Step* kind);
    void take_step(const Step& step, std::int32_t origin);
    std::int32_t level_of(const Step& step) const;
    QuickCheck::Parts& at(std::int32_t level);
    const torch_room::TensorCheck& shared(const torch_room::TensorCheck& check);
    void write();

    State& state_;
    std::vector<Known> known_;  // by register
    std::vector<bool> is_walked_;
    std::vector<QuickCheck::Parts> levels_;
    std::vector<const torch_room::TensorCheck*> different_checks_;
    std::size_t skipped_ = 0;
};

}  // namespace stator
