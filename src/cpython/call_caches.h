/// The caches of `functools.lru_cache`. The C object has no public way to look a key up without calling the function,
/// or to add a result that was computed elsewhere.
#pragma once

#include <Python.h>

#include "base/ref.h"

namespace stator::cpython {

/// The dict of results, in which a bounded cache has links that hold them; null if it can't be read.
Borrowed<> call_cache_dict(PyObject* cached);

/// The function that is cached.
Borrowed<> function_of_call_cache(PyObject* cached);

/// The key of a call, as the cache makes it. `keywords` may be null. Throws PythonError.
Ref<> call_cache_key(PyObject* arguments, PyObject* keywords, bool is_typed);

/// The result that the cache holds for a key; borrowed, null if it holds none. Counts no hit. `hash` is that of the
/// key, whose parts are compared if another key has the same one. Throws PythonError.
PyObject* cached_call_result(PyObject* cached, PyObject* key, Py_hash_t hash);

/// Calls the cached function as if the function below returned `result`: a miss adds it, with all that the cache does
/// besides; a hit is counted. Throws PythonError.
void note_cached_call(PyObject* cached, PyObject* arguments, PyObject* keywords, PyObject* result);

}  // namespace stator::cpython
