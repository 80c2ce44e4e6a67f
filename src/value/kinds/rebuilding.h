/// Shared steps of rebuilding values in a plan.
#pragma once

#include <vector>

#include "effect/plan.h"
#include "value/kinds/object.h"
#include "value/kinds/table.h"

namespace stator {

/// Whether a value can't reference the container that holds it, so that it can be built before the container.
bool is_leaf(const Value* value);
bool all_leaves(const std::vector<Value*>& values);

/// A value from outside that was not mutated: the plan reads its source.
int rebuild_outside(PlanBuilder& plan, Value* value);
/// A builtin, a class or a Python module: the object itself if it is guarded, else its source.
int rebuild_identical(PlanBuilder& plan, Value* value, PyObject* object);

/// The real `__dict__` of the object in register `to`, whose attributes `dict` holds.
int rebuild_own_dict(PlanBuilder& plan, int to, DictValue* dict);
/// Sets its entries.
void rebuild_own_dict_entries(PlanBuilder& plan, int to, ObjectValue* object);
/// Puts an entry of a table into the real dict in register `to`, without running code of the program: a `__hash__` of
/// the program is not called again.
void rebuild_entry(PlanBuilder& plan, int to, const Table::Entry& entry);
/// Whether some keys of a table have a `__hash__` of the program. Breaks the graph if the real table can't be filled
/// without calling it.
bool has_own_hashes(const Table& table);
/// Sets the attributes of a container made in the trace.
void rebuild_attributes(PlanBuilder& plan, int to, ObjectValue* object);

/// Rebuilds an object by a call of C code that runs no code of the program. The arguments may contain the value itself.
int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const std::vector<Value*>& arguments);
int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const Arguments& arguments);

/// The iterator inside another iterator. `iter` is not called on an iterator of a class of the program.
int rebuild_inner_iterator(PlanBuilder& plan, Value* iterator);

/// Marks a container as not filled yet while it is in scope.
class Filling {
  public:
    Filling(PlanBuilder& plan, const void* value) : plan_(plan), value_(value) { plan.begin_filling(value); }
    ~Filling() { plan_.end_filling(value_); }
    Filling(const Filling&) = delete;
    Filling& operator=(const Filling&) = delete;

  private:
    PlanBuilder& plan_;
    const void* value_;
};

/// A method of a class; borrowed, never freed.
PyObject* method_of_class(PyTypeObject* type, const char* name);
/// A function of `builtins`; borrowed, never freed.
PyObject* builtin_function(const char* name);

}  // namespace stator
