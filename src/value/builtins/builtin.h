/// C functions and the models of those that Stator supports. One table, keyed by the object itself, has functions
/// (`len`), classes (`list`), and methods (`list.append`, whether called on the class or bound).
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "value/value.h"

namespace stator {

/// For methods the first positional argument is `self`.
using Handler = Outcome (*)(Tracer& tracer, const Arguments& arguments);

/// The table. Filled once, by the `register_` function of each file of handlers.
class Handlers {
  public:
    static Handlers& instance();

    void add(Borrowed<> callable, Handler handler);
    /// `module.name`; ignored if the module is not installed or has no such name.
    void add(const char* module, const char* name, Handler handler);
    /// The same once the program has imported the module, which takes long and which few programs do.
    void add_once_imported(const char* module, const char* name, Handler handler);
    /// A method or slot wrapper of a class, as found in the class's own dict.
    void add_method(PyTypeObject* type, const char* name, Handler handler);
    /// A C function that is called while tracing if all arguments are constants.
    void add_pure(Borrowed<> callable);
    void add_pure(const char* module, const char* name);
    /// Every method of a class of immutable objects is pure.
    void add_pure_class(PyTypeObject* type);

    /// Null if unknown.
    Handler find(Borrowed<> callable);
    bool is_pure(Borrowed<> callable) const;

  private:
    struct Waiting {
        PyObject* module;  // its name, interned
        const char* name;
        Handler handler;
    };
    bool add_imported();

    std::unordered_map<PyObject*, Handler> handlers_;
    std::vector<Waiting> waiting_;
    Py_ssize_t known_modules_ = 0;  // in `sys.modules` when `waiting_` was last looked through
    std::unordered_set<PyObject*> pure_;
    std::unordered_set<PyTypeObject*> pure_classes_;
};

/// A C function or method descriptor.
struct BuiltinValue final : Value {
    static constexpr Kind kKind = Kind::Builtin;
    explicit BuiltinValue(PyObject* held) : Value(kKind), held(held) {}

    PyObject* const held;

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override { return Py_TYPE(held); }
    PyObject* object() const override { return held; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// The arguments of a call as real objects, if all of them are constants.
class ConstantArguments {
  public:
    /// False if one of them is not a constant.
    bool take(Tracer& tracer, const Arguments& arguments);
    /// Makes the call; null with the error indicator set if it raised.
    Ref<> call(Borrowed<> callable) const;

  private:
    std::vector<Ref<>> held_;
    std::vector<PyObject*> raw_;  // in held_
    std::size_t positional_ = 0;
    Ref<> names_;
};

/// Calls a pure function on constant arguments; null if one of them is not constant. Its exceptions are raised in the
/// program.
Value* fold(Tracer& tracer, Borrowed<> callable, const Arguments& arguments);

/// Binds the arguments of a builtin as its C signature would: `names` in order, those from `required` on optional (null
/// in the result). Otherwise raises Python's TypeError in the traced program, or breaks.
std::vector<Value*> bind_builtin(Tracer& tracer, const char* function, const Arguments& arguments,
                                 std::initializer_list<const char*> names, std::size_t required,
                                 std::size_t positional_only = 0);

}  // namespace stator
