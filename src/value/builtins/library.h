/// Models of functions and classes of Python's library.
#pragma once

#include "value/builtins/builtin.h"

namespace stator {

/// The module of the function that makes a class.
Value* module_of_caller(Tracer& tracer);

/// `class Name(typing.NamedTuple)`.
struct ClassParts;
Value* make_named_tuple_of(Tracer& tracer, const ClassParts& parts);
/// `type(name, bases, names)`.
Outcome make_class_of(Tracer& tracer, const Arguments& arguments);

void register_named_tuples(Handlers& handlers);
void register_class_statements(Handlers& handlers);
void register_made_descriptors(Handlers& handlers);
void register_context_variables(Handlers& handlers);
void register_config_patches(Handlers& handlers);
void register_questions(Handlers& handlers);
void register_warnings(Handlers& handlers);

}  // namespace stator
