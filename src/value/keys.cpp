#include "value/keys.h"

#include <vector>

#include "base/names.h"
#include "cpython/objects.h"
#include "value/dict.h"
#include "value/identity.h"
#include "value/operations.h"
#include "value/sequence.h"
#include "value/set.h"

namespace stator {

namespace {

Table* table_of(Tracer& tracer, Value* container) {
    if (auto* dict = cast<DictValue>(container)) {
        dict->complete_now(tracer);
        return &dict->table;
    }
    auto* set = cast<SetValue>(container);
    return set == nullptr ? nullptr : &set->table;
}

Task hash_by_method(Tracer& tracer, ObjectValue* key, Value* method) {
    Value* answer = co_await operations::call(tracer, method, Arguments::of(key));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError, "__hash__ method should return an integer");
    Py_hash_t hash = PyLong_AsSsize_t(answer->object());
    if (hash == -1) {
        PyErr_Clear();
        hash = PyObject_Hash(answer->object());
    }
    key->known_hash = hash;
    co_return tracer.none();
}

/// Lets every object inside the key know its hash.
Task learn_hash(Tracer& tracer, Value* key) {
    tracer.realize(key);
    if (auto* tuple = cast<TupleValue>(key); tuple != nullptr) {
        for (std::size_t i = 0; i < tuple->items.size(); ++i)
            co_await tracer.start(learn_hash(tracer, tuple->item(tracer, i)));
    }
    if (Value* method = operations::user_method(tracer, key, "__hash__"); method != nullptr)
        co_await tracer.start(hash_by_method(tracer, static_cast<ObjectValue*>(key), method));
    co_return tracer.none();
}

Task prepare(Tracer& tracer, Value* container, Value* key) {
    co_await tracer.start(learn_hash(tracer, key));
    Table* table = table_of(tracer, container);
    if (table == nullptr) co_return key;
    Py_hash_t hash = key->hash(tracer);
    std::vector<Table::Entry*> entries = table->entries();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i]->hash != hash) continue;
        Value* equal = co_await same_or_equal(tracer, entries[i]->key, key);
        if (is_true(equal)) co_return entries[i]->key;
    }
    co_return key;
}

Task index_from(Tracer& tracer, Value* value, Value* method) {
    Value* answer = co_await operations::call(tracer, method, Arguments::of(value));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError,
                     "__index__ returned non-int (type " + std::string(answer->type()->tp_name) + ")");
    co_return answer;
}

}  // namespace

bool needs_preparation(Tracer& tracer, Value* key) {
    switch (key->kind) {
        case Kind::Object:
        case Kind::Scalar:
        case Kind::Dict:
        case Kind::List:
        case Kind::Set:
        case Kind::Exception:
            tracer.realize(key);
            return operations::user_method(tracer, key, "__hash__") != nullptr;
        case Kind::Tuple: {
            tracer.realize(key);
            if (operations::user_method(tracer, key, "__hash__") != nullptr) return true;
            auto* tuple = static_cast<TupleValue*>(key);
            for (std::size_t i = 0; i < tuple->items.size(); ++i)
                if (needs_preparation(tracer, tuple->item(tracer, i))) return true;
            return false;
        }
        default:
            return false;
    }
}

Outcome prepare_key(Tracer& tracer, Value* container, Value* key) {
    return tracer.start(prepare(tracer, container, key));
}

bool has_own_index(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Object) return false;
    tracer.realize(value);
    return operations::user_method(tracer, value, "__index__") != nullptr;
}

Outcome index_by_method(Tracer& tracer, Value* value) {
    return tracer.start(index_from(tracer, value, operations::user_method(tracer, value, "__index__")));
}

}  // namespace stator
