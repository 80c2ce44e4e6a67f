/// Dicts with their subclasses (OrderedDict, defaultdict, Counter, ModelOutput, ...) and their views. A dict from
/// outside is read and guarded key by key; only its length and iterating over it need all keys.
#pragma once

#include <optional>

#include "value/kinds/iterator.h"
#include "value/kinds/object.h"
#include "value/kinds/table.h"

namespace stator {

struct DictValue final : ObjectValue {
    static constexpr Kind kKind = Kind::Dict;
    explicit DictValue(PyTypeObject* type = &PyDict_Type) : ObjectValue(kKind, type) {}

    /// Its entries. Of an outside dict that is not complete: only those that the trace has set.
    Table table;
    /// False for an outside dict until all its keys are in `table`.
    bool complete = true;
    /// Keys that the trace has removed from an outside dict before it was complete.
    Table removed;
    /// Whether it is an outside dict that the trace has mutated.
    bool changed = false;
    /// `default_factory` of a defaultdict made in the trace.
    Value* default_factory = nullptr;
    /// The object made in the trace whose `__dict__` this is.
    ObjectValue* owner = nullptr;

    /// Copies all keys to `table`, and guards them and their order.
    void complete_now(Tracer& tracer);
    /// Null if absent. Guards either result.
    Value* find(Tracer& tracer, Value* key);
    Value* find(Tracer& tracer, Borrowed<> constant_key);
    void insert(Tracer& tracer, Value* key, Value* value);
    /// Returns the removed value; null if absent.
    Value* remove(Tracer& tracer, Value* key);
    void clear(Tracer& tracer);
    /// `insert` and `remove` without logging an effect: the caller logs one for the whole operation.
    void put(Tracer& tracer, Value* key, Value* value);
    Value* take(Tracer& tracer, Value* key);
    /// Moves a key to the end of an OrderedDict, or to its front.
    void move(Tracer& tracer, Value* key, bool to_end);
    /// The value that the trace has set for a key, null if it has removed the key; nullopt if it has done neither.
    std::optional<Value*> overlaid(Tracer& tracer, Value* key);
    /// The value of an entry of `table`; makes it if it was not read yet.
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
    PyObject* outside = nullptr;  // a real mappingproxy

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

/// Over a dict. Raises if the size of the dict has changed since.
struct DictIterator final : IteratorValue {
    using What = DictViewValue::What;
    DictIterator(Tracer& tracer, DictValue* dict, What what, bool reversed);

    DictValue* dict;  // null at the end
    What what;
    bool reversed;
    std::size_t position = 0;  // in `Table::all`
    std::size_t taken = 0;     // number of items so far
    bool immediate() const override { return true; }
    Outcome next(Tracer& tracer) override;
    int rebuild(PlanBuilder& plan) override;

  private:
    std::size_t size_, places_;
};

/// The value of a real dict that the trace has mutated; else null.
DictValue* changed_dict(Tracer& tracer, Borrowed<> real);

/// A new dict with the same entries.
DictValue* copy_dict(Tracer& tracer, DictValue* dict, PyTypeObject* type = &PyDict_Type);
/// `dict.update(other)` for another dict.
void merge_dict(Tracer& tracer, DictValue* target, DictValue* other);
/// Whether `update` calls a `__setitem__` of the program, as only that of an OrderedDict does.
bool sets_by_method(Tracer& tracer, DictValue* dict);
/// Sets one item of an update.
Outcome put_into_dict(Tracer& tracer, DictValue* target, Value* key, Value* value);
/// `dict.update(other)` for a mapping (an object with `keys`) or an iterable of pairs; pending if that runs code of the
/// program. Returns None.
Outcome update_dict(Tracer& tracer, DictValue* target, Value* other);

/// `collections.OrderedDict`, `collections.defaultdict`; borrowed, never freed.
inline PyTypeObject* ordered_dict_class() {
    return &PyODict_Type;
}
PyTypeObject* default_dict_class();

}  // namespace stator
