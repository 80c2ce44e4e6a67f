/// Warnings in the middle of the program's calls.
#pragma once

#include "base/ref.h"

namespace stator {

/// Warns, with `RuntimeWarning`, at a line of the program. Where warnings are errors (`python -W error`), it is logged
/// instead: the program's call goes on. Never raises but what is no `Exception`, such as KeyboardInterrupt:
/// PythonError.
void warn(Borrowed<> message, Borrowed<> file, int line);

}  // namespace stator
