/// What `torch.compiler.set_stance` asks of compiled functions. PyTorch keeps it where torch._dynamo reads it, and
/// nobody asks as long as torch._dynamo was not imported.
#pragma once

#include "base/ref.h"

namespace stator {

struct Stance {
    enum class Kind {
        Default,
        ForceEager,           // as if nothing had been compiled
        EagerOnRecompile,     // what is captured is used, the rest runs uncompiled
        FailOnRecompile,      // what is captured is used, the rest is an error
        EagerThenCompile,     // the first time it runs uncompiled
        AotEagerThenCompile,  // the first time with another backend
    };
    Kind kind = Kind::Default;
    /// A backend, by name or itself, for everything that is captured; empty where each has its own.
    Ref<> backend;
};

/// Some nanoseconds while it stays the same. Throws PythonError for a stance that there is not.
const Stance& current_stance();

}  // namespace stator
