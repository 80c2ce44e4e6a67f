/// Searches for another place outside that holds an object, where the place in which the trace found it loses it.
#pragma once

#include <vector>

#include "value/kinds/outside_iterator.h"
#include "value/tracer.h"

namespace stator {

/// The place of the item that the iterator returned last, or of a part of it if it is a tuple that the iterator made,
/// if the container still holds this object there; else null.
Source* last_item_place(Tracer& tracer, const OutsideIterator* iterator, PyObject* wanted);

/// A place that is reached by attributes and items from one of the values, with guards on the way to it; null if there
/// is none near by.
Source* path_to(Tracer& tracer, const std::vector<const Value*>& from, PyObject* wanted);

}  // namespace stator
