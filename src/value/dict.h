/// Dicts with their subclasses (OrderedDict, defaultdict, Counter, ModelOutput, ...) and their views. A dict from outside
/// is read key by key, guarding just what was asked; only iterating it, its length or a change needs all keys.
#pragma once

#include "value/object.h"
#include "value/table.h"

namespace stator {

struct DictValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Dict;
    explicit DictValue(PyTypeObject* type = &PyDict_Type) : ObjectValue(kKind, type) {}

    Table table;
    /// False for an outside dict whose keys were not all taken over into `table` yet.
    bool complete = true;
    /// `default_factory` of a defaultdict made in the trace.
    Value* default_factory = nullptr;

    /// Takes over all keys, guarded in order.
    void complete_now(Tracer& tracer);
    /// Null if absent; guards either answer.
    Value* find(Tracer& tracer, Value* key);
    Value* find(Tracer& tracer, Borrowed<> constant_key);
    void insert(Tracer& tracer, Value* key, Value* value);

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    void set_item(Tracer& tracer, Value* key, Value* value) override;
    void delete_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// `d.keys()`, `d.values()`, `d.items()`, and `types.MappingProxyType(d)`.
struct DictViewValue final : Value {
    static constexpr Kind kKind = Kind::DictView;
    enum class What : std::uint8_t { Keys, Values, Items };
    DictViewValue(DictValue* dict, What what) : Value(kKind), dict(dict), what(what) {}

    DictValue* dict;
    What what;

    PyTypeObject* type() const override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

}  // namespace stator
