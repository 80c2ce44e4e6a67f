/// Converts C++ exceptions of PyTorch to Python exceptions, at the boundary of this room. Only for files of this room.
#pragma once

#include <torch/csrc/Exceptions.h>

#include "base/python_error.h"

namespace stator::torch_room {

/// Runs `work`; an exception becomes the Python exception that PyTorch's own bindings would raise.
template <class Work>
auto translating_errors(Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const PythonError&) {
        throw;
    } catch (...) {
        torch::translate_exception_to_python(std::current_exception());
        throw PythonError();
    }
}

/// The exception that is set, taken out of the error indicator, for PyTorch's engine to raise in another thread.
inline python_error persisted_error() {
    python_error error;
    error.persist();
    return error;
}

}  // namespace stator::torch_room
