/// Why an instruction could not be captured. Each kind has a stable name and a hint for the user.
#pragma once

#include <cstdint>
#include <string>

namespace stator {

enum class BreakKind : std::uint8_t {
#define BREAK_KIND(name, stable_name, hint) name,
#include "value/break_kinds.def"
#undef BREAK_KIND
};

/// Whether the program could not be captured, rather than came to an end of its own.
inline bool is_failure(BreakKind kind) {
    return kind < BreakKind::Yield;
}

/// Thrown to give up on the current instruction.
struct Break {
    BreakKind kind;
    std::string reason;
    /// False where what was captured before can't be used either.
    bool can_exit = true;
};

/// `data-dependent`, ...: stable, the section names of docs/graph-breaks.md.
const char* name(BreakKind kind);
/// What the user can do about it.
const char* hint(BreakKind kind);

}  // namespace stator
