/// `functools.partial` and its subclasses: an object that holds `func`, `args` and `keywords`.
#pragma once

#include "value/kinds/object.h"

namespace stator {

bool is_partial_class(PyTypeObject* type);
/// `partial.__new__(type, *arguments)`.
ObjectValue* make_partial(Tracer& tracer, PyTypeObject* type, const Arguments& arguments);
/// Calls the wrapped function.
Outcome call_partial(Tracer& tracer, Value* partial, const Arguments& arguments);
/// What a partial holds.
struct PartialParts {
    Value* function;
    Arguments arguments;
};
PartialParts parts_of_partial(Tracer& tracer, Value* partial);
int rebuild_partial(PlanBuilder& plan, ObjectValue* partial);

}  // namespace stator
