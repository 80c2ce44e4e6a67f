/// What compilers make of a wrapper (torch/wrappers.h): they take it apart and put it together again.
#pragma once

#include "base/ref.h"

namespace stator::torch_room {

/// Whether that gives an instance of the same class, and not of a base class, which may compute otherwise. For an
/// instance that holds FakeTensors. Runs code of the class; throws `PythonError`.
bool gives_back_its_class(Borrowed<> wrapper);

}  // namespace stator::torch_room
