/// Methods of generators that coroutines have too.
#pragma once

#include "value/value.h"

namespace stator {

Outcome generator_send(Tracer& tracer, const Arguments& arguments);
Outcome generator_throw(Tracer& tracer, const Arguments& arguments);
Outcome generator_close(Tracer& tracer, const Arguments& arguments);

/// The exception that `throw(exception, message, traceback)` raises, of which the last two may be null: an instance of
/// the class, or the instance itself.
Outcome exception_to_throw(Tracer& tracer, Value* exception, Value* message, Value* traceback);

}  // namespace stator
