/// The functions that have led to the innermost frame of a trace, with the lines at which they are.
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

/// The frame that `stacklevel` of `warnings.warn` means: 1 is the innermost one. Nothing for a frame outside of the
/// captured region. The trace room implements it.
std::optional<Caller> caller_of(const Tracer& tracer, long level);

}  // namespace stator
