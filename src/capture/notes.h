/// Warnings and log messages about cases in which Stator can't do what the program requested, with the remedy.
#pragma once

#include <string>

#include "capture/callee.h"

namespace stator {

enum class NoteKind {
    Information,  // the logger "stator", at the level INFO
    LogWarning,   // the same at WARNING: calls for action, but not for a change of the program
    Warning,      // a RuntimeWarning at the program's line
};

/// `Never`: every time, to the log alone, where a report says it anyway.
enum class NoteOnce { InProcess, AtPlace, Never };

/// Issues the message once, and every time to a report that is being collected in this thread. Never raises, whatever
/// the warning filters are. `topic` is a stable tag, a section of docs/graph-breaks.md.
void issue_note(NoteKind kind, NoteOnce once, const char* topic, const Callee& at, const std::string& text);

/// Ends the exception of code that watches the program (a listener, the log): it is written to stderr. Ctrl-C is for
/// the program, and is raised again where the program can be interrupted. `watcher` may be null.
void end_exception_of(Borrowed<> watcher);

/// Installs the messages about frames under a debugger, a trace function or coverage.
void install_watcher_notes();

/// Whether somebody reads what is logged as information.
bool logs_information();

}  // namespace stator
