/// What `sorted` and `list.sort` take.
#pragma once

#include <Python.h>

namespace stator::cpython {

/// Whether `reverse` is asked for its truth. Before 3.12 it has to be an int.
inline constexpr bool kReverseIsAnything = PY_VERSION_HEX >= 0x030C0000;

}  // namespace stator::cpython
