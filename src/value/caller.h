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

/// The innermost frame, which `warnings.warn` means. Nothing if the globals of its function are not known. The trace
/// room implements it.
std::optional<Caller> caller_of(const Tracer& tracer);

}  // namespace stator
