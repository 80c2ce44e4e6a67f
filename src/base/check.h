/// Checks of invariants. A failed check is an internal error: it unwinds to the boundary where Stator was entered,
/// the user's frame runs uncompiled, and the report names the file and line given here.
#pragma once

#include <stdexcept>
#include <string>

namespace stator {

/// An error of Stator itself. Reaches the user's program only with `fullgraph=True`.
class InternalError : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace stator

/// Checked in every build.
#define STATOR_CHECK(condition, message)                                   \
    do {                                                                   \
        if (!(condition)) [[unlikely]]                                     \
            ::stator::fail_check(__FILE__, __LINE__, #condition, message); \
    } while (false)

/// Checked in debug and sanitized builds.
#ifdef NDEBUG
#define STATOR_DCHECK(condition, message) ((void)0)
#else
#define STATOR_DCHECK(condition, message) STATOR_CHECK(condition, message)
#endif
