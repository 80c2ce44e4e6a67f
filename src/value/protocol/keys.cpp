#include "value/protocol/keys.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"

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

/// Computes the hash of every object inside the key.
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

/// Copies hashes from the objects in the key that is looked up to their counterparts in the equal key of a table.
void share_hashes(Value* from, Value* to) {
    if (from->kind == Kind::Tuple && to->kind == Kind::Tuple) {
        const auto &mine = static_cast<TupleValue*>(from)->items, &theirs = static_cast<TupleValue*>(to)->items;
        for (std::size_t i = 0; i < mine.size() && i < theirs.size(); ++i) share_hashes(mine[i], theirs[i]);
        return;
    }
    if (!has_own_hash(to)) return;
    auto* object = static_cast<ObjectValue*>(to);
    object->known_hash = has_own_hash(from) ? static_cast<ObjectValue*>(from)->known_hash : std::nullopt;
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
        if (!is_true(equal)) continue;
        share_hashes(key, entries[i]->key);
        if (has_own_hash(entries[i]->key)) static_cast<ObjectValue*>(entries[i]->key)->known_hash = hash;
        co_return entries[i]->key;
    }
    co_return key;
}

Task index_from(Tracer& tracer, Value* value, Value* method) {
    Value* answer = co_await operations::call(tracer, method, Arguments::of(value));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError, "__index__ returned non-int (type " + std::string(answer->type()->tp_name) + ")");
    co_return answer;
}

}  // namespace

ForgottenHash::~ForgottenHash() {
    if (key_->kind == Kind::Tuple) {
        for (Value* item : static_cast<TupleValue*>(key_)->items)
            if (item != nullptr) ForgottenHash forgotten(item);
    }
    if (has_own_hash(key_)) static_cast<ObjectValue*>(key_)->known_hash.reset();
}

namespace {

/// Whether a key of this kind may be an instance of a user-defined class.
bool may_have_own_hash(const Value* key) {
    return key->kind != Kind::Deque && key->kind != Kind::Function && as_object(key) != nullptr;
}

}  // namespace

bool has_own_hash(const Value* key) {
    if (!may_have_own_hash(key)) return false;
    PyObject* method = cpython::lookup_in_mro(key->type(), interned("__hash__"));
    return method != nullptr && PyFunction_Check(method);
}

bool needs_preparation(Tracer& tracer, Value* key) {
    if (!may_have_own_hash(key)) return false;
    tracer.realize(key);
    if (operations::user_method(tracer, key, "__hash__") != nullptr) return true;
    auto* tuple = cast<TupleValue>(key);
    for (std::size_t i = 0; tuple != nullptr && i < tuple->items.size(); ++i)
        if (needs_preparation(tracer, tuple->item(tracer, i))) return true;
    return false;
}

void refuse_own_hash(Tracer& tracer, Value* key) {
    if (needs_preparation(tracer, key))
        tracer.break_graph(BreakKind::UnknownObject,
                           "objects of " + type_name(key->type()) + " have a user-defined __hash__");
}

Outcome prepare_key(Tracer& tracer, Value* container, Value* key) {
    return tracer.start(prepare(tracer, container, key));
}

bool has_own_index(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Object) return false;
    tracer.realize(value);
    if (PyType_IsSubtype(value->type(), &PyLong_Type)) return false;  // it is a number: `__index__` is not called
    return operations::user_method(tracer, value, "__index__") != nullptr;
}

Outcome index_by_method(Tracer& tracer, Value* value) {
    return tracer.start(index_from(tracer, value, operations::user_method(tracer, value, "__index__")));
}

namespace {

bool is_table(const Value* value) {
    return value->kind == Kind::Dict || value->kind == Kind::Set;
}

/// Builtins whose arguments are all ints.
bool takes_only_numbers(PyObject* callable) {
    if (callable == reinterpret_cast<PyObject*>(&PyRange_Type)) return true;
    for (const char* name : {"bin", "hex", "oct", "chr"})
        if (callable == builtin_function(name)) return true;
    return false;
}

Task settle_and_call(Tracer& tracer, Handler handler, Arguments arguments) {
    if (is_table(arguments.positional[0])) {
        ForgottenHash forgotten(arguments.positional[1]);
        arguments.positional[1] = co_await prepare_key(tracer, arguments.positional[0], arguments.positional[1]);
        ForgottenHash also_forgotten(arguments.positional[1]);
        co_return co_await handler(tracer, arguments);
    } else {
        for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
            if (!has_own_index(tracer, arguments.positional[i])) continue;
            arguments.positional[i] = co_await index_by_method(tracer, arguments.positional[i]);
        }
    }
    co_return co_await handler(tracer, arguments);
}

}  // namespace

bool needs_settling(Tracer& tracer, Borrowed<> callable, const Arguments& arguments) {
    const std::vector<Value*>& values = arguments.positional;
    if (values.empty()) return false;
    if (is_table(values[0])) {
        if (values.size() < 2 || values[1]->kind == Kind::Constant) return false;
        // Methods that take a whole container do not hash it as an element.
        if (Py_TYPE(callable.get()) != &PyMethodDescr_Type && Py_TYPE(callable.get()) != &PyWrapperDescr_Type)
            return false;
        std::string_view name = utf8(reinterpret_cast<PyDescrObject*>(callable.get())->d_name);
        constexpr std::string_view kByKey[] = {"get",         "setdefault",  "pop",         "add",
                                               "discard",     "remove",      "move_to_end", "__getitem__",
                                               "__setitem__", "__delitem__", "__contains__"};
        bool by_key = std::ranges::find(kByKey, name) != std::end(kByKey);
        return by_key && needs_preparation(tracer, values[1]);
    }
    bool has_object = std::ranges::any_of(values, [](Value* value) { return value->kind == Kind::Object; });
    if (!has_object || !takes_only_numbers(callable)) return false;
    return std::ranges::any_of(values, [&](Value* value) { return has_own_index(tracer, value); });
}

Outcome call_settled(Tracer& tracer, Handler handler, const Arguments& arguments) {
    return tracer.start(settle_and_call(tracer, handler, arguments));
}

}  // namespace stator
