/// Whether Python is ending. Objects that are freed then find no modules.
#pragma once

#include <Python.h>

namespace stator::cpython {

inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace stator::cpython
