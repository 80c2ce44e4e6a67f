/// One step of a guard program. For the files of this room only.
#pragma once

#include <Python.h>

#include <cstdint>

namespace stator {

/// What a step does; step_ops.def describes each.
enum class StepOp : std::uint8_t {
#define STEP_OP(group, name, words) name,
#include "guard/step_ops.def"
#undef STEP_OP
};

enum class StepGroup : std::uint8_t { Fetch, Block, Check, End };

struct Step {
    StepOp op;
    bool absent = false;
    bool relied_on = false;  // of an Enter: the quick check assumes that the block is unchanged
    std::int32_t to = -1;
    std::int32_t from = -1;
    std::int32_t number = 0;
    PyObject* object = nullptr;
    union {
        std::uint64_t version = 0;
        PyObject* extra;
    };
};
static_assert(sizeof(Step) == 32, "two steps a cache line");

inline bool is_fetch(StepOp op) {
    constexpr StepGroup kGroups[] = {
#define STEP_OP(group, name, words) StepGroup::group,
#include "guard/step_ops.def"
#undef STEP_OP
    };
    return kGroups[static_cast<int>(op)] == StepGroup::Fetch;
}

}  // namespace stator
