/// Shared by the files of `bind_frames`.
#pragma once

#include <Python.h>

#include "base/boundary.h"
#include "base/check.h"

namespace stator {

/// Add their functions to the module, all named `_frames_...`. False with an exception if that fails.
bool bind_frames(PyObject* module);
bool bind_frames_bytecode(PyObject* module);
bool bind_frames_objects(PyObject* module);

/// Represents NULL in arguments and results of tests. Borrowed.
PyObject* null_marker();

}  // namespace stator
