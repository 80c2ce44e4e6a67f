/// Changes of an iterator's or a container's own state that are taken back with the instruction that made them.
#pragma once

#include "value/tracer.h"

namespace stator {

template <class T>
void set_undoably(Tracer& tracer, T& place, std::type_identity_t<T> value) {
    tracer.on_undo([target = &place, before = place] { *target = before; });
    place = std::move(value);
}

}  // namespace stator
