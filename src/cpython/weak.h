/// Weak references.
#pragma once

#include "base/ref.h"

namespace stator::cpython {

/// What a weak reference refers to, null if that is gone.
Ref<> weak_target(PyObject* weak_reference);

/// The same as the reference itself answers when it is called: None if it is gone. Somebody else holds it.
Borrowed<> referent_or_none(PyObject* weak_reference);

}  // namespace stator::cpython
