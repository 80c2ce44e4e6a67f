/// `dict.update` and other functions that take the same arguments.
#include "base/names.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

Task update_from_mapping(Tracer& tracer, DictValue* target, Value* other) {
    Value* keys = co_await operations::call_method(tracer, other, "keys", Arguments::of());
    // All keys first, then the values, but for an OrderedDict.
    bool is_ordered = PyType_IsSubtype(target->class_, &PyODict_Type) != 0;
    if (!is_ordered) keys = co_await operations::collect_as_sequence(tracer, keys);
    Value* iterator = co_await operations::iterate(tracer, keys);
    while (true) {
        Value* key = co_await operations::next(tracer, iterator);
        if (key == tracer.exhausted()) co_return tracer.none();
        refuse_own_hash(tracer, key);
        Value* value = co_await operations::get_item(tracer, other, key);
        co_await put_into_dict(tracer, target, key, value);
    }
}

/// An OrderedDict unpacks a pair like an assignment to two names, and raises almost the same message.
[[noreturn]] void raise_for_ordered(Tracer& tracer, std::size_t count) {
    if (count > 2) tracer.raise(PyExc_ValueError, "too many values to unpack (expected 2)");
    tracer.raise(PyExc_ValueError,
                 "need more than " + std::to_string(count) + " value" + (count == 1 ? "" : "s") + " to unpack");
}

Task update_from_pairs(Tracer& tracer, DictValue* target, Value* pairs) {
    bool is_ordered = PyType_IsSubtype(target->class_, &PyODict_Type) != 0;
    Value* iterator = co_await operations::iterate(tracer, pairs);
    for (std::size_t position = 0;; ++position) {
        Value* pair = co_await operations::next(tracer, iterator);
        if (pair == tracer.exhausted()) co_return tracer.none();
        tracer.realize(pair);
        if (!is_iterable(pair) && !is_ordered)
            tracer.raise(PyExc_TypeError, "cannot convert dictionary update sequence element #" +
                                              std::to_string(position) + " to a sequence");
        Value* collected = co_await operations::collect_as_sequence(tracer, pair);
        const std::vector<Value*>& parts = as_sequence(collected)->items;
        if (parts.size() != 2 && is_ordered) raise_for_ordered(tracer, parts.size());
        if (parts.size() != 2)
            tracer.raise(PyExc_ValueError, "dictionary update sequence element #" + std::to_string(position) +
                                               " has length " + std::to_string(parts.size()) + "; 2 is required");
        refuse_own_hash(tracer, parts[0]);
        co_await put_into_dict(tracer, target, parts[0], parts[1]);
    }
}

Task update_one_by_one(Tracer& tracer, DictValue* target, DictValue* other) {
    for (Table::Entry* entry : std::vector<Table::Entry*>(other->entries(tracer)))
        co_await put_into_dict(tracer, target, entry->key, other->value_of(tracer, entry));
    co_return tracer.none();
}

Task update_by_protocol(Tracer& tracer, DictValue* target, Value* other) {
    Value* keys = co_await operations::get_attribute_or(tracer, other, interned("keys"), tracer.exhausted());
    if (keys == tracer.exhausted()) co_return co_await tracer.start(update_from_pairs(tracer, target, other));
    co_return co_await tracer.start(update_from_mapping(tracer, target, other));
}

}  // namespace

bool sets_by_method(Tracer& tracer, DictValue* dict) {
    return PyType_IsSubtype(dict->class_, &PyODict_Type) != 0 &&
           operations::user_method(tracer, dict, "__setitem__") != nullptr;
}

Outcome put_into_dict(Tracer& tracer, DictValue* target, Value* key, Value* value) {
    if (sets_by_method(tracer, target)) return operations::set_item(tracer, target, key, value);
    target->insert(tracer, key, value);
    return tracer.none();
}

Outcome update_dict(Tracer& tracer, DictValue* target, Value* other) {
    tracer.realize(other);
    if (auto* dict = cast<DictValue>(other);
        dict != nullptr && operations::user_method(tracer, dict, "__iter__") == nullptr) {
        if (sets_by_method(tracer, target)) return tracer.start(update_one_by_one(tracer, target, dict));
        merge_dict(tracer, target, dict);
        return tracer.none();
    }
    if (as_sequence(other) != nullptr || other->kind == Kind::Iterator || other->kind == Kind::Generator)
        return tracer.start(update_from_pairs(tracer, target, other));
    return tracer.start(update_by_protocol(tracer, target, other));
}

}  // namespace stator
