#include "cpython/versions.h"

#include <unordered_map>

namespace stator::cpython {

namespace {

// The field is deprecated as public API since 3.12, and kept up to 3.13.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
std::uint64_t version_tag(PyObject* dict) {
    return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}
#pragma GCC diagnostic pop

}  // namespace

#if PY_VERSION_HEX >= 0x030D0000

namespace {

/// Versions of watched dictionaries have this bit, and so never equal a version made of a tag.
constexpr std::uint64_t kWatched = std::uint64_t{1} << 63;

/// The version of every watched dictionary that is alive. Under the GIL.
std::unordered_map<PyObject*, std::uint64_t>& watched_versions() {
    // Never destroyed: dictionaries die after static objects do.
    static auto* versions = new std::unordered_map<PyObject*, std::uint64_t>;
    return *versions;
}

std::uint64_t new_version() {
    static std::uint64_t last = kWatched;
    return ++last;
}

int on_dict_event(PyDict_WatchEvent event, PyObject* dict, PyObject*, PyObject*) {
    auto& versions = watched_versions();
    if (event == PyDict_EVENT_DEALLOCATED)
        versions.erase(dict);
    else if (auto found = versions.find(dict); found != versions.end())
        found->second = new_version();
    return 0;
}

std::uint64_t watched_version(PyObject* dict) {
    auto& versions = watched_versions();
    if (auto found = versions.find(dict); found != versions.end()) return found->second;
    static const int watcher = PyDict_AddWatcher(on_dict_event);
    if (watcher < 0 || PyDict_Watch(watcher, dict) < 0) {
        PyErr_Clear();
        return 0;
    }
    return versions[dict] = new_version();
}

}  // namespace

std::uint64_t dict_version(PyObject* dict) {
    if (reinterpret_cast<PyDictObject*>(dict)->ma_values != nullptr) return watched_version(dict);
    // The lowest bits belong to watchers and to the optimizer.
    return version_tag(dict) >> 12;
}

#else

std::uint64_t dict_version(PyObject* dict) {
    // In 3.12 the lowest bits say who watches.
    return PY_VERSION_HEX >= 0x030C0000 ? version_tag(dict) >> 8 : version_tag(dict);
}

#endif

namespace {

/// 0 if none is assigned.
std::uint32_t current_type_version(PyTypeObject* type) {
    // From 3.13 on the tag says it all, and the flag is unused.
    bool is_valid = PY_VERSION_HEX >= 0x030D0000 || PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
    return is_valid ? type->tp_version_tag : 0;
}

void assign_type_version(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
    PyUnstable_Type_AssignVersionTag(type);
#else
    // Looking something up assigns a version, for the sake of CPython's own cache.
    static PyObject* const name = PyUnicode_InternFromString("__class__");
    _PyType_Lookup(type, name);
#endif
}

}  // namespace

std::uint32_t type_version(PyTypeObject* type) {
    if (std::uint32_t version = current_type_version(type)) [[likely]]
        return version;
    assign_type_version(type);
    return current_type_version(type);
}

}  // namespace stator::cpython
