/// A position in the tree of module calls: `Global`, in it `Net`, in it `Net.encoder`. The same calls lead to the same
/// node of the tree, so a position is one pointer, and its name is built when it is first read.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "track/names.h"

namespace stator::track {

/// A module call inside of other ones. Const members may be read without the GIL.
class Path {
  public:
    const Path* parent() const { return parent_; }
    std::size_t depth() const { return depth_; }
    /// Null for `Global`, and after the module was freed.
    Ref<> module() const { return module_ ? module_->module() : nullptr; }
    /// `Net.encoder`.
    Borrowed<> name() const;
    /// A new set of the names of all enclosing calls, with `Global` and this one.
    Ref<> names() const;

    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    Path() = default;

  private:
    friend class Paths;

    const Path* parent_ = nullptr;
    std::size_t depth_ = 0;
    Known module_;
    const Path* named_below_ = nullptr;  // the name is that of this path plus `suffix_`; null if `suffix_` is the name
    Ref<> suffix_;
    mutable Ref<> name_, names_;  // once read

    struct Step {
        PyObject* address;  // of the module, which may be freed
        Known module;
        Path* to;
    };
    std::vector<Step> steps_;
    std::size_t last_step_ = 0;  // programs tend to take the next one after it
    std::size_t sweep_at_ = 64;
    struct Rarely {
        std::vector<Path*> unused;                   // of freed modules
        std::vector<const PyTypeObject*> strangers;  // classes of called modules that are registered nowhere
    };
    std::unique_ptr<Rarely> rarely_;
    Rarely& rarely();
};

/// All paths of one tracked program. Needs the GIL.
class Paths {
  public:
    explicit Paths(Names& names);

    const Path* outside() const { return &all_.front(); }
    /// The call of `module` at `from`.
    const Path* enter(const Path* from, Borrowed<> module);
    /// The same for a call made by a backward pass, as in recomputation: it does not belong to the
    /// module whose gradient needed it, but to the nearest enclosing call that has `module` registered.
    const Path* enter_again(const Path* from, Borrowed<> module);

  private:
    struct Naming {
        const Path* below = nullptr;
        Ref<> suffix;
    };
    static Path* known_step(Path* from, Borrowed<> module);
    Naming name_at(Path* from, const Known& module);
    Naming name_around(const Path* from, const Known& module) const;
    Path* unused_with(Path* from, const Naming& naming);
    void sweep(Path* from);

    Names& names_;
    std::deque<Path> all_;
};

}  // namespace stator::track
