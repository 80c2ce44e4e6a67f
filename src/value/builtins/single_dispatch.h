/// Functions made by `functools.singledispatch`.
#pragma once

#include <optional>

#include "value/kinds/function.h"

namespace stator {

/// A call of `dispatch(cls)`, which finds the implementation for a class and keeps it in a cache with weak keys. The
/// real function is asked, and the classes that have an implementation are guarded. Nothing for other functions, and
/// where the answer depends on which classes are registered with an abstract class.
std::optional<Outcome> call_single_dispatch(Tracer& tracer, FunctionValue* function, const Arguments& arguments);

}  // namespace stator
