/// The stages of a capture once, without a result: the first capture of a process looks up functions and settings of
/// PyTorch, imports modules and reads pages of code that no one has used before.
#pragma once

#include "base/ref.h"
#include "capture/options.h"

namespace stator {

/// Traces a function for these slots (a list, as of `trace_again`), and makes of the trace what a capture makes, up to
/// what the backend `stator` runs, which is returned. Null if the function can't be captured. Throws PythonError.
Ref<> rehearse(PyFunctionObject* function, Borrowed<> slots, const CompileOptions& options);

}  // namespace stator
