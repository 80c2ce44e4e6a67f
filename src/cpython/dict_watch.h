/// Being told of changes to dictionaries, so that one number answers for thousands of them. From Python 3.12 on;
/// before, nothing can be watched.
///
/// One number for all, rather than a flag for each who asks: nothing has to be kept by dictionary, nor taken back when
/// the one who asked is gone. Who finds the number changed reads versions (see cpython/versions.h).
#pragma once

#include <Python.h>

#include <cstdint>

#include "cpython/versions.h"

namespace stator::cpython {

inline constexpr bool kCanWatchDicts = PY_VERSION_HEX >= 0x030C0000;

namespace detail {
extern std::uint64_t watched_dict_changes;
extern std::uint64_t watcher_bit;  // 0: none
}  // namespace detail

/// From now on the next change of the dictionary, or its end, changes `watched_dict_changes`. Only the next one is sure
/// to: a dictionary that goes on changing should not hold up everybody else. Nothing happens where Python has no
/// watchers, or all that a process may have are taken.
void watch_dict(PyObject* dict);

/// Whether `watched_dict_changes` will tell of the dictionary's next change.
inline bool is_watched(PyObject* dict) {
    return (detail::version_tag(dict) & detail::watcher_bit) != 0;
}

/// Never 0, and never what it was before. CPython calls just before a change is made, so this may be new while the
/// dictionary and its version are still the old ones; it is not watched then.
inline std::uint64_t watched_dict_changes() {
    return detail::watched_dict_changes;
}

}  // namespace stator::cpython
