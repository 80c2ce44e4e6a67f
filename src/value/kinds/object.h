/// Instances of user-defined classes, and of any class without its own kind. From outside or created in the trace.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "value/value.h"

namespace stator {

struct DictValue;

/// A value with a class and possibly instance attributes. Containers derive from it, because an instance of a user's
/// subclass of `dict` is a dict with attributes.
struct ObjectValue : Value {
    static constexpr Kind kKind = Kind::Object;
    explicit ObjectValue(PyTypeObject* type) : Value(kKind), class_(type) {}
    ObjectValue(Kind kind, PyTypeObject* type) : Value(kind), class_(type) {}

    PyTypeObject* class_;  // kept alive by the trace
    /// The real object, if it came from outside.
    PyObject* outside = nullptr;
    /// Attributes set in the trace, in order; null for a deleted one.
    std::vector<std::pair<PyObject*, Value*>> attributes;
    /// The `__dict__` of an object made in the trace, once the program has read it. From then on it holds the
    /// attributes, except for those in `__slots__`.
    DictValue* own_dict = nullptr;
    /// The result of a `__hash__` of the program when the object was last used as a key; see protocol/keys.h.
    std::optional<Py_hash_t> known_hash;
    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override { return class_; }
    PyObject* object() const override { return outside; }
    Value* own_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    bool delete_own_attribute(Tracer& tracer, Borrowed<> name) override;
    bool set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    Outcome call(Tracer& tracer, const Arguments& arguments) override;
    bool truth(Tracer& tracer) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Downcast; null if the kind does not derive from ObjectValue.
ObjectValue* as_object(Value* value);
inline const ObjectValue* as_object(const Value* value) {
    return as_object(const_cast<Value*>(value));
}

/// `object.__dict__`.
Value* instance_dict(Tracer& tracer, Value* object);

/// The `__dict__` of an outside object, a Python module or a tensor, to be mutated; null if the class has none.
DictValue* attributes_to_change(Tracer& tracer, Value* object);

/// The source of the `__dict__` of an instance from outside; null if the class has none.
Source* instance_dict_source(Tracer& tracer, ObjectValue* object);

}  // namespace stator
