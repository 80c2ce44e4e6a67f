/// What the tracer knows of one Python value. Each kind has a file of its own beside this one and answers there how it
/// is called, indexed, iterated, compared, guarded, rebuilt and printed. Values live in the arena of one trace.
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
};

/// What an operation came to: a value now, or a frame that was pushed and will deliver it later. The tracer does not
/// recurse, so whoever asks must be ready for both; a coroutine (see task.h) simply awaits it.
class [[nodiscard]] Outcome {
  public:
    /// Null stands for NotImplemented, where an operation may answer so.
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
    /// False while the value is only passed around: what is not looked at needs no guard.
    bool realized = true;
    /// The dict or set from outside that it is a key or an element of, where a guard compares those by value: the
    /// program may have another object, equal to this one.
    Value* equal_member_of = nullptr;
    /// Where it came from; null if it was made in the trace.
    Source* source = nullptr;

    /// Installs the guards that its kind relies on. Called before the first operation on a value with a source.
    virtual void realize(Tracer& tracer);

    /// The Python class of the value.
    virtual PyTypeObject* type() const = 0;
    /// The real object where the value is one (a constant, a class, a function or an instance from outside), else null.
    virtual PyObject* object() const { return nullptr; }
    /// An object equal to the value, made anew for containers of constants; empty if it is not all known.
    virtual Ref<> as_constant(Tracer& tracer);

    /// `self.name` as the program sees it. The default follows Python's protocol over `type()`, see attributes.h.
    virtual Outcome get_attribute(Tracer& tracer, Borrowed<> name);
    /// Only what the instance itself holds under `name`; null if nothing. Guards either answer.
    virtual Value* own_attribute(Tracer& tracer, Borrowed<> name);
    virtual void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value);
    /// False if there was no such attribute.
    virtual bool delete_own_attribute(Tracer& tracer, Borrowed<> name);
    /// Sets what C code keeps in the instance itself (`__name__` of a function, `args` of an exception); a null value
    /// deletes. False if the kind has nothing of that name.
    virtual bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value);

    virtual Outcome call(Tracer& tracer, const Arguments& arguments);

    /// Items, as the builtin kinds have them; user classes with `__getitem__` and friends are dispatched before.
    virtual Outcome get_item(Tracer& tracer, Value* key);
    virtual void set_item(Tracer& tracer, Value* key, Value* value);
    /// What `self[key] = value` asks for: `set_item`, unless the kind walks over `value` (a slice of a list).
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
    /// What `self op= other` asks for: `in_place`, unless the kind walks over `other`, which may run the program's
    /// code.
    virtual Outcome update(Tracer& tracer, BinaryOperator op, Value* other) { return in_place(tracer, op, other); }
    virtual Value* unary(Tracer& tracer, UnaryOperator op);
    /// Null where Python would see NotImplemented.
    virtual Outcome compare(Tracer& tracer, Comparison op, Value* other);
    /// Whether a dict or set can hold it, by which hash.
    virtual Py_hash_t hash(Tracer& tracer);

    /// As an argument of a node. Breaks where the kind cannot be one.
    virtual graph::Argument as_argument(Tracer& tracer);
    /// The register of the plan that will hold the rebuilt value.
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
