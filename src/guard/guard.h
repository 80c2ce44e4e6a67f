/// A guard is one assumption of a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "number/expression.h"
#include "source/source.h"
#include "torch/tensor.h"

namespace stator {

enum class GuardKind : std::uint8_t {
#define GUARD_KIND(name) name,
#include "guard/guard_kinds.def"
#undef GUARD_KIND
};

/// In `number` of a guard on keys or elements: they are compared by identity.
inline constexpr std::int64_t kByIdentity = 1;

struct Guard {
    GuardKind kind;
    Source* source;
    PyObject* expected = nullptr;  // kept alive by the trace's arena, then by the program (of a tensor only its class)
    std::int64_t number = 0;
    Source* other = nullptr;
    const Expression* expression = nullptr;
    /// Of a tensor: the sizes that change between calls. Null if none do.
    const torch_room::DynamicSizes* dynamic = nullptr;
};

/// As a guard keeps it in `number`, and how that reads.
std::int64_t pack(torch_room::AutogradState state);
std::string print_autograd_state(std::int64_t packed);

/// `L['x'] is a tuple of 3 items`.
std::string print(const Guard& guard);

}  // namespace stator
