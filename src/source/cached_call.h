/// The results that a `functools.lru_cache` holds, as sources: guards look the key up again.
#pragma once

#include "source/source.h"

namespace stator {

/// The key of a cached call. A tensor in it may be another one in each call; the other parts are constants, and objects
/// that are guarded by identity.
struct CachedCallKey {
    PyObject* cached;                 // the cached function
    PyObject* key;                    // as `cpython::call_cache_key` makes it
    PyObject* tensor = nullptr;       // the tensor that may be another one; null if there is none
    Source* tensor_source = nullptr;  // where it comes from
};

/// The source of the result, and the result now: null if the cache holds none, for which the source is absent. Tensors
/// are taken to hash and compare by identity. Throws PythonError.
struct CachedResult {
    Source* source;
    Ref<> object;
};
CachedResult cached_result(Provenance& provenance, const CachedCallKey& key);

/// How the result is named in texts: without the address of the function, so that placeholders have the same names in
/// all processes.
Ref<> title_of_cached_result(PyObject* cached);

/// The source of whether a cache holds at most `count` results.
Source* holds_at_most(Provenance& provenance, PyObject* cached, Py_ssize_t count);

}  // namespace stator
