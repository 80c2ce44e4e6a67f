/// The objects that `stator.compile` makes: `stator._C.Compiled`.
#pragma once

#include <Python.h>

#include <unordered_set>

#include "run/cache.h"

namespace stator {

/// A compiled function or method.
struct CompiledObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* callable;          // a function, or a bound method of one
    PyFunctionObject* function;  // the function in it
    PyObject* attributes;        // __dict__
    PyObject* options;           // with those of `stator.compile`, by which copies are compiled
    PyObject* weak_references;
    EntryCache* cache;
};

/// All live ones, for `reset`.
std::unordered_set<CompiledObject*>& all_compiled();

/// The vectorcall function of all of them while no thread watches its calls.
PyObject* call_compiled(PyObject* self, PyObject* const* arguments, std::size_t count_and_flags, PyObject* names);

}  // namespace stator
