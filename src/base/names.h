/// Interned strings for names that appear in the code, such as `__getitem__`.
#pragma once

#include "base/ref.h"

namespace stator {

/// The interned `str` of a string literal. Never freed; found again by the literal's address, then by its text.
PyObject* interned(const char* literal);

}  // namespace stator
