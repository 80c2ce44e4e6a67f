/// Dicts with their subclasses (OrderedDict, defaultdict, Counter, ModelOutput, ...) and their views. An outside dict
/// is read key by key, and only the keys that were read are guarded. Iteration needs all keys.
#pragma once

#include <optional>

#include "value/kinds/iterator.h"
#include "value/kinds/object.h"
#include "value/kinds/table.h"

namespace stator {

struct DictValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Dict;
    explicit DictValue(PyTypeObject* type = &PyDict_Type) : ObjectValue(kKind, type) {}

    /// The entries. For an outside dict that is not complete, only those that the trace has set.
    Table table{Table::ChangingInts::Kept};
    /// False for an outside dict until all of its keys are in `table`.
    bool complete = true;
    /// Keys that the trace removed from an outside dict before it was complete.
    Table removed{Table::ChangingInts::Kept};
    /// Whether the trace has mutated this outside dict.
    bool changed = false;
    /// `default_factory` of a defaultdict created in the trace.
    Value* default_factory = nullptr;
    /// The object created in the trace whose `__dict__` this is.
    ObjectValue* owner = nullptr;

    /// Copies all keys into `table`, and guards them and their order.
    void complete_now(Tracer& tracer);
    void complete_by_positions(Tracer& tracer);
    /// Null if absent. Guards the presence or the absence.
    Value* find(Tracer& tracer, Value* key);
    Value* find(Tracer& tracer, Borrowed<> constant_key);
    void insert(Tracer& tracer, Value* key, Value* value);
    /// Returns the removed value; null if the key is absent.
    Value* remove(Tracer& tracer, Value* key);
    void clear(Tracer& tracer);
    /// The same without a side effect, for callers that record their own.
    void put(Tracer& tracer, Value* key, Value* value);
    Value* take(Tracer& tracer, Value* key);
    /// Moves a key to the end of an OrderedDict, or to its front.
    void move(Tracer& tracer, Value* key, bool to_end);
    /// The value that the trace has set for a key, null if it removed the key; nothing if it did not change the key.
    std::optional<Value*> overlaid(Tracer& tracer, Value* key);
    /// The value of an entry of `table`, wrapped on first use.
    Value* value_of(Tracer& tracer, Table::Entry* entry);
    /// Live entries in order, with their values.
    std::vector<Table::Entry*> entries(Tracer& tracer);

    void realize(Tracer& tracer) override;
    Ref<> as_constant(Tracer& tracer) override;
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    void set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    void set_item(Tracer& tracer, Value* key, Value* value) override;
    void delete_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Value* in_place(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome update(Tracer& tracer, BinaryOperator op, Value* other) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    graph::Argument as_argument(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// `d.keys()`, `d.values()`, `d.items()`, and `types.MappingProxyType(d)`.
struct DictViewValue final : Value {
    static constexpr Kind kKind = Kind::DictView;
    enum class What : std::uint8_t { Keys, Values, Items, Proxy };
    DictViewValue(DictValue* dict, What what) : Value(kKind), dict(dict), what(what) {}

    DictValue* dict;
    What what;
    PyObject* outside = nullptr;  // a real view or mappingproxy

    void realize(Tracer& tracer) override;
    PyTypeObject* type() const override;
    PyObject* object() const override { return outside; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    Outcome get_item(Tracer& tracer, Value* key) override;
    Outcome contains(Tracer& tracer, Value* item) override;
    std::ptrdiff_t length(Tracer& tracer) override;
    bool truth(Tracer& tracer) override;
    Outcome iterate(Tracer& tracer) override;
    Value* binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) override;
    Outcome compare(Tracer& tracer, Comparison op, Value* other) override;
    Py_hash_t hash(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;
    std::string print() const override;
};

/// Iterates over a dict. Raises if the size changes.
struct DictIterator final : IteratorValue {
    using What = DictViewValue::What;
    DictIterator(Tracer& tracer, DictValue* dict, What what, bool reversed);

    DictValue* dict;  // null at the end
    What what;
    bool reversed;
    std::size_t position = 0;  // how many entries of the table were passed
    std::size_t taken = 0;     // how many items were returned
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;

  private:
    std::size_t size_, places_;
};

/// The value of a real dict that the trace has mutated; null if it is unchanged.
DictValue* changed_dict(Tracer& tracer, Borrowed<> real);

/// A new dict with the same entries.
DictValue* copy_dict(Tracer& tracer, DictValue* dict, PyTypeObject* type = &PyDict_Type);
/// `dict.update(other)` for another dict.
void merge_dict(Tracer& tracer, DictValue* target, DictValue* other);
/// Whether `update` and similar methods call a user-defined `__setitem__`: only those of OrderedDict do.
bool sets_by_method(Tracer& tracer, DictValue* dict);
/// Sets one item of an update.
Outcome put_into_dict(Tracer& tracer, DictValue* target, Value* key, Value* value);
/// `dict.update(other)` for a mapping (an object with `keys`) or an iterable of pairs; pending if that runs user code.
/// Returns None.
Outcome update_dict(Tracer& tracer, DictValue* target, Value* other);

/// `collections.OrderedDict`, `collections.defaultdict`; borrowed, never freed.
inline PyTypeObject* ordered_dict_class() {
    return &PyODict_Type;
}
PyTypeObject* default_dict_class();

}  // namespace stator
