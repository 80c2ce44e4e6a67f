/// What the user is told while the program runs: where Stator does less than was asked for, and what to do about it.
#pragma once

#include <string>

#include "capture/callee.h"

namespace stator {

enum class NoteKind {
    Information,  // the logger "stator", at the level INFO
    LogWarning,   // the same at WARNING: to be acted on, but not by changing the program
    Warning,      // a RuntimeWarning at the program's line
};

enum class NoteOnce { InProcess, AtPlace };

/// Tells it once, and each time to whoever collects reports in this thread. Never raises, whatever the program does
/// with warnings. `topic` is a stable name of the matter.
void tell(NoteKind kind, NoteOnce once, const char* topic, const Callee& at, const std::string& text);

/// Has frames that are watched by a debugger, a trace function or coverage told of.
void tell_of_watchers();

}  // namespace stator
