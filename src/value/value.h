/// A value: what the tracer knows about one Python object. Each kind of value has a file in `kinds` that implements how
/// it is called, indexed, iterated, compared, guarded, rebuilt and printed. Values live in the arena of one trace.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/ref.h"
#include "graph/node.h"
#include "source/source.h"

namespace stator {

class Tracer;
class PlanBuilder;
struct Effect;
struct Value;

enum class Kind : std::uint8_t {
    Null,  // the NULL that CPython keeps on its stack beside a callable; never seen by the program
    Constant,
    Tensor,
    Tuple,
    List,
    Dict,
    DictView,
    Set,
    Slice,
    Function,
    Method,  // anything callable bound to its first argument
    Builtin,
    Class,
    PythonModule,
    Object,
    Cell,
    Iterator,
    Generator,
    Exception,
    Super,
    Context,
    Deque,
    Scalar,        // an instance of a subclass of int, float, str, ...
    TensorObject,  // a tensor of a class of the program's own
    Array,         // a numpy array, or a numpy scalar that the graph computes
};

/// The result of an operation: a value, or the information that a frame was pushed which will deliver the value. The
/// tracer does not recurse, so every caller has to handle both; a coroutine (see task.h) simply awaits the outcome.
class [[nodiscard]] Outcome {
  public:
    /// Null stands for NotImplemented, for operations that may return it.
    Outcome(Value* value) : value_(value) {}
    static Outcome pending() {
        Outcome outcome(nullptr);
        outcome.pending_ = true;
        return outcome;
    }
    bool is_pending() const { return pending_; }
    Value* value() const {
        STATOR_DCHECK(!pending_, "the value is still to come");
        return value_;
    }

  private:
    Value* value_;
    bool pending_ = false;
};

struct Keyword {
    PyObject* name;
    Value* value;
};

/// The arguments of one call, already spread: no star forms are left.
struct Arguments {
    std::vector<Value*> positional;
    std::vector<Keyword> keywords;

    /// Positional ones only. (Inside a coroutine, GCC 12 can't compile a braced list beside `co_await`.)
    template <class... Values>
    static Arguments of(Values*... values) {
        Arguments arguments;
        arguments.positional.reserve(sizeof...(values));
        (arguments.positional.push_back(values), ...);
        return arguments;
    }
    static Arguments of(std::vector<Value*> values) {
        Arguments arguments;
        arguments.positional = std::move(values);
        return arguments;
    }

    std::size_t count() const { return positional.size() + keywords.size(); }
    Value* keyword(const char* name) const;
    /// The same with `first` in front.
    Arguments after(Value* first) const;
};

enum class BinaryOperator : std::uint8_t {
    Add,
    And,
    FloorDivide,
    LeftShift,
    MatrixMultiply,
    Multiply,
    Remainder,
    Or,
    Power,
    RightShift,
    Subtract,
    TrueDivide,
    Xor,
};
enum class UnaryOperator : std::uint8_t { Negative, Positive, Invert };
enum class Comparison : std::uint8_t { Less, LessEqual, Equal, NotEqual, Greater, GreaterEqual };  // as Py_LT .. Py_GE

struct Value {
    explicit Value(Kind kind) : kind(kind) {}
    Value(const Value&) = delete;
    Value& operator=(const Value&) = delete;
    virtual ~Value() = default;

    const Kind kind;
    /// False while the program only passes the value around: then it needs no guard.
    bool realized = true;
    /// The dict or set from outside that contains this key or element, if a guard compares its members by value. In
    /// another call the member may be a different object that is equal to this one.
    Value* equal_member_of = nullptr;
    /// Where it came from; null if it was made in the trace.
    Source* source = nullptr;

    /// Installs the guards of its kind. Called before the first operation on a value with a source.
    virtual void realize(Tracer& tracer);

    /// The Python class of the value.
    virtual PyTypeObject* type() const = 0;
    /// The real object where the value is one (a constant, a class, a function or an instance from outside), else null.
    virtual PyObject* object() const { return nullptr; }
    /// An object equal to the value (a new one for containers of constants); empty if not all of it is constant.
    virtual Ref<> as_constant(Tracer& tracer);

    /// `self.name` as the program sees it. The default follows Python's protocol over `type()`, see attributes.h.
    virtual Outcome get_attribute(Tracer& tracer, Borrowed<> name);
    /// The attribute in the instance itself, without its class; null if there is none. Guards either result.
    virtual Value* own_attribute(Tracer& tracer, Borrowed<> name);
    virtual void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value);
    /// False if there was no such attribute.
    virtual bool delete_own_attribute(Tracer& tracer, Borrowed<> name);
    /// Sets an attribute that is a field of the C struct (`__name__` of a function, `args` of an exception); a null
    /// value deletes it. False if the kind has no such field.
    virtual bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value);

    virtual Outcome call(Tracer& tracer, const Arguments& arguments);

    /// `self[key]` of the builtin kinds. `protocol/operations` calls a `__getitem__` of the program before it comes
    /// here.
    virtual Outcome get_item(Tracer& tracer, Value* key);
    virtual void set_item(Tracer& tracer, Value* key, Value* value);
    /// `self[key] = value`: `set_item`, unless the kind iterates over `value` (assignment to a slice of a list).
    virtual Outcome assign_item(Tracer& tracer, Value* key, Value* value);
    virtual void delete_item(Tracer& tracer, Value* key);
    virtual Outcome contains(Tracer& tracer, Value* item);
    /// `len`; -1 if the kind has none.
    virtual std::ptrdiff_t length(Tracer& tracer);
    virtual bool truth(Tracer& tracer);

    /// A new iterator over it.
    virtual Outcome iterate(Tracer& tracer);
    /// The next item of an iterator, or `Tracer::exhausted()`.
    virtual Outcome next(Tracer& tracer);

    /// `self op other`, or `other op self` where `reflected`. Null where Python would see NotImplemented.
    virtual Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected);
    /// `self op= other`; null to fall back to `binary`.
    virtual Value* in_place(Tracer& tracer, BinaryOperator op, Value* other);
    /// `self op= other`: `in_place`, unless the kind iterates over `other`, which may run code of the program.
    virtual Outcome update(Tracer& tracer, BinaryOperator op, Value* other) { return in_place(tracer, op, other); }
    virtual Value* unary(Tracer& tracer, UnaryOperator op);
    /// Null where Python would see NotImplemented.
    virtual Outcome compare(Tracer& tracer, Comparison op, Value* other);
    /// The hash of the value. Raises TypeError in the program if it is unhashable.
    virtual Py_hash_t hash(Tracer& tracer);

    /// The value as an argument of a node. Breaks the graph if the kind can't be one.
    virtual graph::Argument as_argument(Tracer& tracer);
    /// Adds the steps that rebuild the value to the plan; returns the register that will hold it.
    virtual int rebuild(PlanBuilder& plan);
    virtual std::string print() const = 0;
};

/// Checked downcast by kind; each kind's struct names its `kKind`.
template <class T>
T* cast(Value* value) {
    return value != nullptr && value->kind == T::kKind ? static_cast<T*>(value) : nullptr;
}
template <class T>
const T* cast(const Value* value) {
    return value != nullptr && value->kind == T::kKind ? static_cast<const T*>(value) : nullptr;
}

/// Names of the special methods, by operator.
const char* method_name(BinaryOperator op, bool reflected);
const char* in_place_method_name(BinaryOperator op);
const char* symbol(BinaryOperator op, bool in_place);
const char* method_name(UnaryOperator op);
const char* method_name(Comparison op);
const char* symbol(Comparison op);

/// `operator.add`, `operator.iadd`, ...: the functions that stand for operators in graphs. Borrowed, never freed.
PyObject* operator_function(BinaryOperator op, bool in_place);
PyObject* operator_function(UnaryOperator op);
PyObject* operator_function(Comparison op);
PyObject* getitem_function();
PyObject* setitem_function();

}  // namespace stator
