/// Checks of what must hold. A failed check is an internal error: it unwinds to the boundary where Stator was entered,
/// the user's frame runs uncompiled, and the report names the file and line given here.
#pragma once

#include <stdexcept>
#include <string>

namespace stator {

/// Something Stator itself got wrong. Never reaches the user's program unless `fullgraph=True` asked for errors.
class InternalError : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace stator

/// Holds in every build.
#define STATOR_CHECK(condition, message)                                   \
    do {                                                                   \
        if (!(condition)) [[unlikely]]                                     \
            ::stator::fail_check(__FILE__, __LINE__, #condition, message); \
    } while (false)

/// Holds in every build, checked in debug and sanitized ones.
#ifdef NDEBUG
#define STATOR_DCHECK(condition, message) ((void)0)
#else
#define STATOR_DCHECK(condition, message) STATOR_CHECK(condition, message)
#endif
