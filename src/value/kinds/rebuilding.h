/// What the rebuilding of containers has in common.
#pragma once

#include <vector>

#include "effect/plan.h"
#include "value/kinds/object.h"
#include "value/kinds/table.h"

namespace stator {

/// Whether a value cannot lead back to the container that holds it, so that the container may be built after it.
bool is_leaf(const Value* value);
bool all_leaves(const std::vector<Value*>& values);

/// What a value from outside that did not change is in a plan: the object that its source leads to.
int rebuild_outside(PlanBuilder& plan, Value* value);
/// A builtin, a class or a Python module: itself, once a guard has seen to it; before that, what is found in its place.
int rebuild_identical(PlanBuilder& plan, Value* value, PyObject* object);

/// The real `__dict__` of the object in register `to`, whose attributes `dict` holds.
int rebuild_own_dict(PlanBuilder& plan, int to, DictValue* dict);
/// Fills it.
void rebuild_own_dict_entries(PlanBuilder& plan, int to, ObjectValue* object);
/// Puts an entry of a table into the real dict in register `to`. Nothing of the program runs: a key with a `__hash__`
/// of the program's own is not asked again.
void rebuild_entry(PlanBuilder& plan, int to, const Table::Entry& entry);
/// Whether some keys of a table have a hash from the program's own code. Breaks if the real table could not be filled
/// without running it.
bool has_own_hashes(const Table& table);
/// Sets what the trace put into the instance dict of a container made in the trace.
void rebuild_attributes(PlanBuilder& plan, int to, ObjectValue* object);

/// A new object by a call of C code that runs nothing of the program; the value may be among the parts of its
/// arguments.
int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const std::vector<Value*>& arguments);
int rebuild_by_call(PlanBuilder& plan, const Value* value, Borrowed<> callable, const Arguments& arguments);

/// An iterator that another one is to be made over: one of the program's own is not asked for its iterator.
int rebuild_inner_iterator(PlanBuilder& plan, Value* iterator);

/// Says so for as long as a container is in its register and lacks some of its contents.
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
