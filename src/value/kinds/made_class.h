/// Classes that the program makes in the trace: by `collections.namedtuple`, and by class statements. The tracer has a
/// class like it, the model, which never leaves the trace: the plan makes a new one in each call.
#pragma once

#include <vector>

#include "value/value.h"

namespace stator {

struct DictValue;
struct FunctionValue;

/// The parts of a class statement, or of `type(name, bases, names)`.
struct ClassParts {
    PyObject* name;
    std::vector<Value*> bases;
    DictValue* names;       // what the body has assigned, and what the class has been assigned since
    std::size_t count = 0;  // of those that the body has assigned, which are first
};

class MadeClass {
  public:
    /// `model` is kept alive by the trace. `factory`, a function of the library, makes such a class of these arguments,
    /// which consist of constants: `collections.namedtuple`.
    MadeClass(PyTypeObject* model, Value* value, PyObject* factory, Arguments arguments);
    MadeClass(PyTypeObject* model, Value* value, ClassParts parts);
    ~MadeClass();
    MadeClass(const MadeClass&) = delete;
    MadeClass& operator=(const MadeClass&) = delete;

    /// Null for any other class.
    static const MadeClass* find(PyTypeObject* model);
    /// The attribute of a class, if the first class of its MRO that has it was made by a class statement; null
    /// otherwise. `raw` receives what the model has in its place, a descriptor of the same kind.
    static Value* attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, PyObject** raw);
    /// The same in the class itself.
    Value* own_attribute(Tracer& tracer, Borrowed<> name, PyObject** raw) const;

    /// Breaks the graph if this attribute of the class leads to the class itself or to an object that may be mutated.
    void expect_own_part(Tracer& tracer, Borrowed<> name) const;
    /// `cls.name = value`; a null value deletes it. Breaks the graph if that would change how the class works.
    void set_attribute(Tracer& tracer, Borrowed<> name, Value* value) const;
    /// Calls a decorator of the library, which runs no code of the program and gives the class back, on the model; the
    /// plan calls it on the class of each call. All arguments are kept alive by the trace. Breaks the graph unless the
    /// values of `read`, a dict of names in the class, are constants.
    void decorate(Tracer& tracer, PyObject* function, std::vector<PyObject*> arguments, Borrowed<> read) const;
    /// Breaks the graph because of a use of the class.
    [[noreturn]] void refuse(Tracer& tracer, const std::string& use) const;
    /// The class of this call.
    int rebuild(PlanBuilder& plan) const;
    /// An instance of the class of this call, with the items in these registers.
    int rebuild_instance(PlanBuilder& plan, const Value* instance, std::vector<std::int32_t> items) const;

  private:
    /// A decorator that has changed the class, with its further arguments.
    struct Decoration {
        PyObject* function = nullptr;
        std::vector<PyObject*> arguments{};
        std::vector<std::pair<PyObject*, Value*>> before{};  // the names of the body, which it has replaced
        std::vector<Value*> after{};                         // what it has left, by position in the names
    };

    int rebuild_statement(PlanBuilder& plan) const;
    int rebuild_body(PlanBuilder& plan, const std::vector<std::pair<PyObject*, Value*>>& names) const;
    void take_names_from_model(Tracer& tracer) const;

    PyTypeObject* const model_;
    Value* const value_;
    PyObject* const factory_ = nullptr;
    Arguments const arguments_{};
    ClassParts const parts_{};
    mutable Decoration decoration_{};
};

/// A new, empty instance by the `__new__` of the builtin base, in register `to`; also of a class made in the trace.
void add_new_object(PlanBuilder& plan, int to, PyTypeObject* type, std::vector<std::int32_t> arguments);

/// Makes a class. Breaks the graph if that would run code of the program, or if its instances would be more than
/// objects with attributes.
Value* make_class(Tracer& tracer, ClassParts parts);

/// Runs the body of a class statement, with the dict of its names: pending. The trace room implements it.
Outcome push_class_body(Tracer& tracer, FunctionValue* body, DictValue* names);

/// An object that a model has in the place of one that the trace has made.
class StandIn {
  public:
    /// `held` is kept alive by the trace.
    StandIn(PyObject* held, Value* value);
    ~StandIn();
    StandIn(const StandIn&) = delete;
    StandIn& operator=(const StandIn&) = delete;

    /// What an object stands for; null for any other object.
    static Value* behind(PyObject* held);

  private:
    PyObject* const held_;
};

}  // namespace stator
