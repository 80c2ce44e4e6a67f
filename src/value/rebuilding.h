/// What the rebuilding of containers has in common.
#pragma once

#include <vector>

#include "effect/plan.h"
#include "value/object.h"

namespace stator {

/// Whether a value cannot lead back to the container that holds it, so that the container may be built after it.
bool is_leaf(const Value* value);
bool all_leaves(const std::vector<Value*>& values);

/// What a value from outside that did not change is in a plan: the object that its source leads to.
int rebuild_outside(PlanBuilder& plan, Value* value);

/// The real `__dict__` of the object in register `to`, whose attributes `dict` holds.
int rebuild_own_dict(PlanBuilder& plan, int to, DictValue* dict);
/// Fills it.
void rebuild_own_dict_entries(PlanBuilder& plan, int to, ObjectValue* object);
/// Sets what the trace put into the instance dict of a container made in the trace.
void rebuild_attributes(PlanBuilder& plan, int to, ObjectValue* object);

/// A function of `builtins`; borrowed, never freed.
PyObject* builtin_function(const char* name);

}  // namespace stator
