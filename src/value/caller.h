/// The function that has called a model, and the line at which it is.
#pragma once

#include <Python.h>

#include <optional>

namespace stator {

class Tracer;

struct Caller {
    PyCodeObject* code;
    int line;
    PyObject* globals;
};

/// The frame that `warnings.warn` means: with a `stacklevel` of 1 the innermost one, with 2 the one that has called it.
/// Nothing if the globals of its function are not known, and where Python may have frames in between that the trace has
/// not: of Python functions that are modelled, or outside of the trace. The trace room implements it.
std::optional<Caller> caller_of(const Tracer& tracer, long stacklevel);

}  // namespace stator
