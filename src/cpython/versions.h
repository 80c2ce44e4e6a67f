/// Numbers that change when an object does, so that a guard can skip what did not change since it was last looked at.
#pragma once

#include <Python.h>

#include <cstdint>

namespace stator::cpython {

/// Changes whenever the dictionary does: a key or a value set, deleted or replaced (by another object, whatever its
/// equality). Never the same for two dictionaries, nor for two states of one. Values that change inside do not count.
/// 0 if none can be had.
///
/// Up to 3.12 it is CPython's own version tag, which every change renews. In 3.13 a dictionary that shares its values
/// with the object it belongs to is changed through that object without a new tag; a dictionary watcher is told,
/// though, and counts for those. An object that has no dictionary yet has nothing to ask: see `instance_dict` in
/// objects.h.
std::uint64_t dict_version(PyObject* dict);

/// Changes whenever an attribute of the type or of one of its bases does, or the bases themselves. Assigned if needed.
/// 0 if none can be: a type with an `mro` method of its own, or one that changed too often.
std::uint32_t type_version(PyTypeObject* type);

}  // namespace stator::cpython
