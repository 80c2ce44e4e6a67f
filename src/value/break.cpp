#include "value/break.h"

namespace stator {

namespace {

struct Text {
    const char* name;
    const char* hint;
};

constexpr Text kTexts[] = {
#define BREAK_KIND(name, stable_name, hint) {stable_name, hint},
#include "value/break_kinds.def"
#undef BREAK_KIND
};

}  // namespace

const char* name(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].name;
}

const char* hint(BreakKind kind) {
    return kTexts[static_cast<int>(kind)].hint;
}

}  // namespace stator
