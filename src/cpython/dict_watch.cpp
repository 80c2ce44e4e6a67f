#include "cpython/dict_watch.h"

namespace stator::cpython {

std::uint64_t detail::watched_dict_changes = 1;
std::uint64_t detail::watcher_bit = 0;

#if PY_VERSION_HEX >= 0x030C0000

namespace {

constexpr int kNone = -1;

/// Allocated on first use.
int watcher();

int on_change(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
    ++detail::watched_dict_changes;
    // 3.12 overrides this when the change is made: there a dictionary that keeps changing is reported each time.
    if (event != PyDict_EVENT_DEALLOCATED) PyDict_Unwatch(watcher(), dict);
    return 0;
}

int watcher() {
    static const int id = [] {
        int added = PyDict_AddWatcher(on_change);
        if (added == kNone)
            PyErr_Clear();
        else
            detail::watcher_bit = std::uint64_t{1} << added;
        return added;
    }();
    return id;
}

}  // namespace

void watch_dict(PyObject* dict) {
    if (watcher() != kNone && PyDict_Watch(watcher(), dict) < 0) PyErr_Clear();
}

#else

void watch_dict(PyObject*) {}

#endif

}  // namespace stator::cpython
