/// Classes that the program makes in the trace, by `collections.namedtuple`. The tracer has a class like it, which
/// never leaves the trace: the plan makes a new one in each call.
#pragma once

#include "value/value.h"

namespace stator {

class MadeClass {
  public:
    /// `model` is kept alive by the trace, `arguments` are those of `collections.namedtuple`, all of them constants.
    MadeClass(PyTypeObject* model, Value* value, Arguments arguments);
    ~MadeClass();
    MadeClass(const MadeClass&) = delete;
    MadeClass& operator=(const MadeClass&) = delete;

    /// Null for any other class.
    static const MadeClass* find(PyTypeObject* model);

    /// Breaks the graph if this attribute of the class leads to the class itself or to an object that may be mutated.
    void expect_own_part(Tracer& tracer, Borrowed<> name) const;
    /// Breaks the graph because of a use of the class.
    [[noreturn]] void refuse(Tracer& tracer, const std::string& use) const;
    /// The class of this call.
    int rebuild(PlanBuilder& plan) const;
    /// An instance of the class of this call, with the items in these registers.
    int rebuild_instance(PlanBuilder& plan, const Value* instance, std::vector<std::int32_t> items) const;

  private:
    PyTypeObject* const model_;
    Value* const value_;
    Arguments const arguments_;
};

}  // namespace stator
