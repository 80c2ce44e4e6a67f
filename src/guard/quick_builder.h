/// Building a quick check. For the files of this room only.
#pragma once

#include "guard/by_level.h"
#include "guard/quick.h"

namespace stator {

/// When to build a quick check: as soon as checks execute the same blocks again, and less often if it does not last.
class QuickCheckPolicy {
  public:
    /// After a success of the program itself: there was no quick check, or it failed.
    void succeeded(GuardProgram::State& state);

  private:
    static constexpr std::size_t kPaysOff = 16;  // checks: about what building costs
    static constexpr int kMostPatience = 64;

    /// Gives dicts of instances that have no version one, which the next success compares. Not before
    /// checks repeat: for an object that is checked once it would be a waste. False if there are none.
    static bool give_versions(GuardProgram::State& state);
    void be_patient() { patience_ = patience_ < kMostPatience ? 2 * patience_ : kMostPatience; }

    std::vector<std::int32_t> walked_before_;
    int repeated_ = 0;  // how often in a row these were executed again
    int patience_ = 1;  // how often that is required
    bool is_built_ = false;
};

/// Builds a quick check right after a success, from the registers and blocks of that check.
class QuickCheckBuilder {
  public:
    using State = GuardProgram::State;

    explicit QuickCheckBuilder(State& state);
    /// False if there is nothing to gain; nothing is built then.
    bool build();

  private:
    /// What is known of the object in a register when its level is reached.
    enum class Standing : std::uint8_t {
        Unknown,  // anything
        Here,     // an object at the address of the one seen
        Lasting,  // the object seen
    };
    struct Known {
        Standing standing = Standing::Unknown;
        std::int32_t level = 0;
        PyTypeObject* type = nullptr;  // the required class; kept alive by a guard
        bool type_pending = false;     // the class is not compared yet
    };

    /// False if the program has a step that can't be executed between comparisons.
    bool follow();
    void follow_type(std::int32_t index);
    void follow_tensor(std::int32_t index);
    void walk_block(std::int32_t enter);
    void skip_block(std::int32_t enter);
    void expect_instance(const Step& enter);
    /// After this the register holds the object seen, or one of the same class at its address.
    void settle(std::int32_t place, const Step* kind);
    void take_step(const Step& step, std::int32_t origin);
    std::int32_t level_of(const Step& step) const;
    const torch_room::TensorCheck& shared(const torch_room::TensorCheck& check);
    void write();

    State& state_;
    std::vector<Known> known_;  // by register
    std::vector<bool> is_walked_;
    ByLevel<Step> steps_;
    ByLevel<QuickCheck::Instance> instances_;
    ByLevel<QuickCheck::Typed> typed_;
    ByLevel<QuickCheck::Dict> dicts_;
    ByLevel<QuickCheck::Class> classes_;
    ByLevel<torch_room::ExpectedTensor> tensors_;
    std::vector<const torch_room::TensorCheck*> different_checks_;
    std::size_t skipped_ = 0;
};

}  // namespace stator
