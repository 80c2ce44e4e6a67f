/// Version numbers of dicts and types, so that a guard can skip what has not changed since its last check.
#pragma once

#include <Python.h>

#include <cstdint>

namespace stator::cpython {

namespace detail {
/// From 3.12 on its lowest bits are those of dict watchers.
inline std::uint64_t version_tag(PyObject* dict) {
// The field is deprecated as public API since 3.12, and kept up to 3.13.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}
}  // namespace detail

/// Changes whenever the dictionary does: a key or a value set, deleted or replaced (by another object, whatever its
/// equality). Unique among all dictionaries and all states of one. Changes inside of values do not count.
/// 0 if the dictionary has no version: then its items have to be compared themselves.
///
/// It is CPython's own version tag, which every change renews, with one exception. In 3.13 the dictionary of an
/// instance may share its values with the object, and a change through the object then renews no tag (nor is a
/// dictionary watcher called, in 3.13.0). Such a dictionary has no version until `make_versioned`.
inline std::uint64_t dict_version(PyObject* dict) {
    std::uint64_t tag = detail::version_tag(dict);
#if PY_VERSION_HEX >= 0x030D0000
    // The lowest bits belong to watchers and to the optimizer.
    return reinterpret_cast<PyDictObject*>(dict)->ma_values != nullptr ? 0 : tag >> 12;
#elif PY_VERSION_HEX >= 0x030C0000
    return tag >> 8;  // the lowest bits are those of watchers
#else
    return tag;
#endif
}

/// Gives the dictionary a version, if that is possible. Contents and order are unchanged; the attributes of an
/// instance are stored only in the dictionary from then on, as in older versions. False if it still has none
/// (an empty dictionary of an instance, in 3.13).
bool make_versioned(PyObject* dict);

/// The version of a type as it is now; 0 if it has none.
inline std::uint32_t current_type_version(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030D0000
    return type->tp_version_tag;  // the flag of older versions is unused
#else
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
#endif
}

/// Changes whenever an attribute of the type or of one of its bases does, or the bases themselves. Assigned if needed.
/// 0 if that is not possible: a type with a custom `mro` method, or one that changed too often.
std::uint32_t type_version(PyTypeObject* type);

}  // namespace stator::cpython
