/// Calls of compiled callables that a thread watches, or wants to run uncompiled.
///
/// While a thread does, all callables have another vectorcall function. So a call costs nothing more while no thread
/// does.
#pragma once

#include <Python.h>

namespace stator {

/// The vectorcall function that compiled callables have now.
vectorcallfunc current_call();

/// For Python: sets the listener for calls in this thread (None for no one), and returns the previous one.
PyObject* watch_calls(PyObject* module, PyObject* listener);
/// For Python: whether compiled callables run uncompiled in this thread; returns what was before.
PyObject* run_uncompiled(PyObject* module, PyObject* is_on);

}  // namespace stator
