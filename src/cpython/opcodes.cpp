#include "cpython/opcodes.h"

#include <Python.h>
#include <opcode.h>

#include <array>

#ifdef Py_GIL_DISABLED
#error "Stator supports the default build of CPython, not the free-threaded one."
#endif

extern "C" const std::uint8_t* stator_opcode_caches(void);

namespace stator::cpython {

namespace {

// The headers of CPython define an opcode's name as a macro with its number. The name of a missing one stays
// unexpanded, which shows that it is missing without a list for each version.
#define STATOR_TEXT_OF_MACRO(name) #name
#define STATOR_TEXT(name) STATOR_TEXT_OF_MACRO(name)

constexpr int parse_number(const char* text) {
    int number = 0;
    for (const char* digit = text; *digit != '\0'; ++digit) {
        if (*digit < '0' || *digit > '9') return -1;
        number = number * 10 + (*digit - '0');
    }
    // Numbers above 255 are the compiler's pseudo instructions: they never reach a code object.
    return number < 256 ? number : -1;
}

constexpr int kNumbers[] = {
#define REAL_OP(enumerator, name) parse_number(STATOR_TEXT(name)),
#include "cpython/opcodes.def"
#undef REAL_OP
};

constexpr const char* kNames[] = {
#define REAL_OP(enumerator, name) #name,
#include "cpython/opcodes.def"
#undef REAL_OP
};

constexpr auto kByNumber = [] {
    std::array<RealOp, 256> table{};
    table.fill(RealOp::Unknown);
    for (std::size_t i = 0; i < std::size(kNumbers); ++i)
        if (kNumbers[i] >= 0) table[kNumbers[i]] = static_cast<RealOp>(i);
    return table;
}();

const std::uint8_t* const kCaches = stator_opcode_caches();

}  // namespace

RealOp real_op(std::uint8_t number) {
    return kByNumber[number];
}
int cache_units(std::uint8_t number) {
    return kCaches[number];
}
int number_of(RealOp op) {
    return op == RealOp::Unknown ? -1 : kNumbers[static_cast<int>(op)];
}
const char* name_of(RealOp op) {
    return op == RealOp::Unknown ? "UNKNOWN" : kNames[static_cast<int>(op)];
}

constexpr bool kSince12 = PY_VERSION_HEX >= 0x030C0000;
constexpr bool kSince13 = PY_VERSION_HEX >= 0x030D0000;

const Dialect kDialect = {
    .null_above_callable = kSince13,
    .load_fast_checks = !kSince12,
    .load_attr_has_method_bit = kSince12,
    .compare_shift = kSince13   ? 5
                     : kSince12 ? 4
                                : 0,
    .compare_to_bool_bit = kSince13 ? 16 : 0,
    .for_iter_skips = kSince13   ? 2
                      : kSince12 ? 1
                                 : 0,
    .send_keeps_receiver = kSince12,
};

}  // namespace stator::cpython
