/// Assignments to the state of values that are undone if the instruction can't be captured.
#pragma once

#include "value/tracer.h"

namespace stator {

template <class T>
void set_undoably(Tracer& tracer, T& place, std::type_identity_t<T> value) {
    tracer.on_undo([target = &place, before = place] { *target = before; });
    place = std::move(value);
}

}  // namespace stator
