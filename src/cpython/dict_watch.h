/// Dict watchers: one counter tells whether any of thousands of dictionaries has changed. From Python 3.12 on;
/// before, nothing can be watched.
///
/// One counter for all rather than a flag for each user: nothing is stored for a dictionary, and nothing has to be
/// unregistered. Users that find the counter changed read versions (see cpython/versions.h).
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

/// The next change of the dictionary, or its deallocation, will change `watched_dict_changes`. Later changes may not: a
/// dictionary that keeps changing should not slow down other users. Does nothing if Python has no
/// watchers, or if all watchers of the process are taken.
void watch_dict(PyObject* dict);

/// Whether the dictionary's next change will change `watched_dict_changes`.
inline bool is_watched(PyObject* dict) {
    return (detail::version_tag(dict) & detail::watcher_bit) != 0;
}

/// Never 0, and never reused. CPython calls a watcher just before a change, so the counter may be new while the
/// dictionary and its version are still the old ones; the dictionary is not watched then.
inline std::uint64_t watched_dict_changes() {
    return detail::watched_dict_changes;
}

}  // namespace stator::cpython
