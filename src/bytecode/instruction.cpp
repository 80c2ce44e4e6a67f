#include "bytecode/instruction.h"

#include <iterator>

namespace stator::bytecode {

namespace {

struct Description {
    const char* name;
    const char* effect;
    const char* operands;
};

constexpr Description kDescriptions[] = {
#define OP(name, effect, operands) {#name, effect, operands},
#include "bytecode/opcodes.def"
#undef OP
};
static_assert(std::size(kDescriptions) == kOpCount);

constexpr const char* kBinaryOperators[] = {
    "+",  "&",  "//",  "<<",  "@",  "*",  "%",  "|",  "**",  ">>",  "-",  "/",  "^",
    "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="};
constexpr const char* kComparisons[] = {"<", "<=", "==", "!=", ">", ">="};

}  // namespace

const char* name_of(Op op) {
    return kDescriptions[static_cast<int>(op)].name;
}
const char* stack_effect_of(Op op) {
    return kDescriptions[static_cast<int>(op)].effect;
}
const char* operands_of(Op op) {
    return kDescriptions[static_cast<int>(op)].operands;
}

const char* binary_operator_text(int arg) {
    return arg >= 0 && arg < static_cast<int>(std::size(kBinaryOperators)) ? kBinaryOperators[arg] : "?";
}
const char* comparison_text(int arg) {
    return arg >= 0 && arg < static_cast<int>(std::size(kComparisons)) ? kComparisons[arg] : "?";
}

}  // namespace stator::bytecode
