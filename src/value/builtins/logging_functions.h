/// Functions of which the program says, in `torch._dynamo.config`, what becomes of their calls in compiled code: calls
/// of `ignore_logging_functions` do nothing, those of `reorderable_logging_functions` are made after the graph.
#pragma once

#include "value/tracer.h"

namespace stator {

class LoggingFunctions {
  public:
    /// Reads the settings.
    LoggingFunctions();

    bool is_empty() const { return !ignored_ && !reordered_; }
    /// The result of such a call, which is a side effect if the function is reordered; null for other functions.
    Value* call(Tracer& tracer, PyObject* function, const Arguments& arguments) const;

  private:
    bool ignores(PyObject* function, const Arguments& arguments) const;

    Ref<> ignored_, reordered_;  // without elements: empty
};

}  // namespace stator
