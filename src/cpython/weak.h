/// Weak references.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// What a weak reference refers to, null if that is gone.
Ref<> weak_target(PyObject* weak_reference);

/// The same as a call of the reference: None if the object is gone. Borrowed.
Borrowed<> referent_or_none(PyObject* weak_reference);

}  // namespace stator::cpython
