/// The stance of `torch.compiler.set_stance`: the thread's own, or what the main thread has set for all that have none
/// (python/stator/stances.py). It is the default as long as torch._dynamo was not imported.
#pragma once

#include "base/ref.h"

namespace stator {

struct Stance {
    enum class Kind {
        Default,
        ForceEager,           // as if nothing had been compiled
        EagerOnRecompile,     // existing entries are used, other calls run uncompiled
        FailOnRecompile,      // existing entries are used, other calls raise
        EagerThenCompile,     // the first time it runs uncompiled
        AotEagerThenCompile,  // the first time with another backend
    };
    Kind kind = Kind::Default;
    /// The program promises that all graphs are there (`skip_guard_eval_unsafe`): a call that none fits raises. Guards
    /// are checked as always, since leaving some out would make no call faster.
    bool has_all_graphs = false;
    /// A backend, by name or as a callable, for all captures; empty if each callable uses its own.
    Ref<> backend;
};

/// Some nanoseconds while it is unchanged. Throws PythonError for an unknown stance.
const Stance& current_stance();
/// Sets it for this thread, where `None` ends that, or for all threads that have none of their own.
void follow_stance(Borrowed<> stance, bool is_own);

}  // namespace stator
