/// Building and unpacking containers and strings.
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/opcodes.h"
#include "trace/handlers/handlers.h"
#include "value/builtins/builtin.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/calling.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/text.h"

namespace stator::handlers {

using bytecode::Instruction;

namespace {

std::vector<Value*> take(BytecodeFrame& frame, int count) {
    auto first = frame.stack.end() - count;
    std::vector<Value*> items(first, frame.stack.end());
    frame.stack.erase(first, frame.stack.end());
    return items;
}

/// The container of a comprehension or display. After a graph break inside of that it comes from outside.
Value* container_at(Interpreter& t, BytecodeFrame& frame, int depth) {
    Value* container = frame.top(static_cast<std::size_t>(depth));
    t.realize(container);
    return container;
}

/// The same for a list that only grows: no guard on its length, so that one capture serves all iterations.
ListValue* list_to_grow(Interpreter& t, BytecodeFrame& frame, int depth) {
    Value* list = frame.top(static_cast<std::size_t>(depth));
    if (list->realized || list->kind != Kind::List || list->type() != &PyList_Type)
        return static_cast<ListValue*>(container_at(t, frame, depth));
    t.guard({GuardKind::Type, list->source, reinterpret_cast<PyObject*>(&PyList_Type)});
    return static_cast<ListValue*>(list);
}

}  // namespace

void BuildTuple(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    frame.push(stator::make_tuple(t, take(frame, instruction.arg)));
    next(frame);
}

void BuildList(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    frame.push(make_list(t, take(frame, instruction.arg)));
    next(frame);
}

namespace {

/// Fills a display whose keys have a `__hash__` of the program: from keys and values in turn, or from elements.
Task fill_display(Tracer& tracer, Value* container, std::vector<Value*> parts) {
    auto* dict = cast<DictValue>(container);
    for (std::size_t i = 0; i < parts.size(); i += dict != nullptr ? 2 : 1) {
        ForgottenHash forgotten(parts[i]);
        Value* key = co_await prepare_key(tracer, container, parts[i]);
        ForgottenHash also_forgotten(key);
        if (dict != nullptr)
            dict->insert(tracer, key, parts[i + 1]);
        else
            static_cast<SetValue*>(container)->add(tracer, key);
    }
    co_return container;
}

/// Whether hashing one of the keys of a display runs code of the program.
bool needs_filling(Interpreter& t, BytecodeFrame& frame, int count, int step) {
    for (int i = 0; i < count; i += step)
        if (needs_preparation(t, frame.top(static_cast<std::size_t>(count - 1 - i)))) return true;
    return false;
}

std::vector<Value*> operands(BytecodeFrame& frame, int count) {
    return {frame.stack.end() - count, frame.stack.end()};
}

}  // namespace

void BuildSet(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* set = t.make<SetValue>();
    if (needs_filling(t, frame, instruction.arg, 1))
        return t.finish(frame, t.start(fill_display(t, set, operands(frame, instruction.arg))), instruction.arg);
    for (int i = instruction.arg; i-- > 0;) {
        Value* item = frame.top(static_cast<std::size_t>(i));
        t.realize(item);
        set->table.insert(t, item, nullptr);
    }
    t.finish(frame, set, instruction.arg);
}

void BuildMap(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* dict = t.make<DictValue>();
    int count = 2 * instruction.arg;
    if (needs_filling(t, frame, count, 2))
        return t.finish(frame, t.start(fill_display(t, dict, operands(frame, count))), count);
    for (auto i = static_cast<std::size_t>(instruction.arg); i-- > 0;) {
        Value* key = frame.top(2 * i + 1);
        t.realize(key);
        dict->table.insert(t, key, frame.top(2 * i));
    }
    t.finish(frame, dict, 2 * instruction.arg);
}

void BuildConstKeyMap(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* keys = cast<TupleValue>(frame.top());
    auto* dict = t.make<DictValue>();
    for (int i = 0; i < instruction.arg; ++i)
        dict->table.insert(t, keys->item(t, static_cast<std::size_t>(i)),
                           frame.top(static_cast<std::size_t>(instruction.arg - i)));
    t.finish(frame, dict, instruction.arg + 1);
}

void ListToTuple(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, stator::make_tuple(t, as_sequence(frame.top())->all(t)), 1);
}

// --- growing the container of a comprehension or display ------------------------------------------------------------

void ListAppend(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    list_to_grow(t, frame, instruction.arg)->append(t, frame.top());
    t.finish(frame, t.none(), 1, Interpreter::drop_result);
}

void SetAdd(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.realize(frame.top());
    auto* set = static_cast<SetValue*>(container_at(t, frame, instruction.arg));
    if (needs_preparation(t, frame.top()))
        return t.finish(frame, t.start(fill_display(t, set, {frame.top()})), 1, Interpreter::drop_result);
    set->add(t, frame.top());
    t.finish(frame, t.none(), 1, Interpreter::drop_result);
}

void MapAdd(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* dict = static_cast<DictValue*>(container_at(t, frame, instruction.arg + 1));
    t.realize(frame.top(1));
    if (needs_preparation(t, frame.top(1)))
        return t.finish(frame, t.start(fill_display(t, dict, operands(frame, 2))), 2, Interpreter::drop_result);
    dict->insert(t, frame.top(1), frame.top(0));
    t.finish(frame, t.none(), 2, Interpreter::drop_result);
}

namespace {

Task extend_list(Tracer& tracer, ListValue* list, Value* iterable) {
    tracer.realize(iterable);
    if (!is_iterable(iterable))
        tracer.raise(PyExc_TypeError,
                     "Value after * must be an iterable, not " + std::string(iterable->type()->tp_name));
    auto* items = static_cast<ListValue*>(co_await operations::collect(tracer, iterable));
    for (Value* item : items->items) list->append(tracer, item);
    co_return tracer.none();
}

Task update_set(Tracer& tracer, SetValue* set, Value* iterable) {
    tracer.realize(iterable);
    if (auto* other = cast<SetValue>(iterable);
        other != nullptr && operations::user_method(tracer, iterable, "__iter__") == nullptr) {
        set->merge(tracer, other);
        co_return tracer.none();
    }
    auto* items = static_cast<ListValue*>(co_await operations::collect_elements(tracer, iterable));
    for (Value* item : items->items) {
        tracer.realize(item);
        refuse_own_hash(tracer, item);
        set->add(tracer, item);
    }
    co_return tracer.none();
}

void expect_new_keyword(Tracer& tracer, DictValue* dict, Value* key, Value* callable) {
    tracer.realize(key);
    if (dict->find(tracer, key) == nullptr) return;
    PyObject* name = key->object();
    if (name == nullptr || !PyUnicode_CheckExact(name))
        tracer.break_graph(BreakKind::UnknownObject, "the name of a keyword argument is not a str");
    tracer.raise(PyExc_TypeError, callable_title(callable) + " got multiple values for keyword argument '" +
                                      std::string(utf8(name)) + "'");
}

/// `{**mapping}` and `f(**mapping)`. In a call, a duplicate key is an error that names the callable.
Task update_dict(Tracer& tracer, DictValue* dict, Value* mapping, Value* callable) {
    tracer.realize(mapping);
    auto* other = cast<DictValue>(mapping);
    if (other == nullptr || operations::user_method(tracer, mapping, "keys") != nullptr) {
        Value* method =
            co_await operations::get_attribute_or(tracer, mapping, tracer.string("keys")->object(), nullptr);
        if (method == nullptr) {
            std::string type = mapping->type()->tp_name;
            if (callable != nullptr)
                tracer.raise(PyExc_TypeError,
                             callable_title(callable) + " argument after ** must be a mapping, not " + type);
            tracer.raise(PyExc_TypeError, "'" + type + "' object is not a mapping");
        }
        Value* keys = co_await operations::call(tracer, method, {});
        auto* list = static_cast<ListValue*>(co_await operations::collect_as_sequence(tracer, keys));
        for (std::size_t i = 0; i < list->items.size(); ++i) {
            Value* key = list->items[i];
            refuse_own_hash(tracer, key);
            if (callable != nullptr) expect_new_keyword(tracer, dict, key, callable);
            Value* value = co_await operations::get_item(tracer, mapping, key);
            dict->insert(tracer, key, value);
        }
        co_return tracer.none();
    }
    other->complete_now(tracer);
    for (Table::Entry* entry : other->table.entries()) {
        if (callable != nullptr) expect_new_keyword(tracer, dict, entry->key, callable);
        dict->insert(tracer, entry->key, other->find(tracer, entry->key));
    }
    co_return tracer.none();
}

}  // namespace

void ListExtend(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* list = static_cast<ListValue*>(container_at(t, frame, instruction.arg));
    t.finish(frame, t.start(extend_list(t, list, frame.top())), 1, Interpreter::drop_result);
}

void SetUpdate(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* set = static_cast<SetValue*>(container_at(t, frame, instruction.arg));
    t.finish(frame, t.start(update_set(t, set, frame.top())), 1, Interpreter::drop_result);
}

void DictUpdate(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* dict = static_cast<DictValue*>(container_at(t, frame, instruction.arg));
    t.finish(frame, t.start(update_dict(t, dict, frame.top(), nullptr)), 1, Interpreter::drop_result);
}

void DictMerge(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto* dict = static_cast<DictValue*>(container_at(t, frame, instruction.arg));
    // Between it and the dict are the positional arguments, and from 3.13 on a NULL.
    std::size_t above = cpython::kDialect.null_above_callable ? 3 : 2;
    Value* callable = frame.top(static_cast<std::size_t>(instruction.arg) + above);
    t.finish(frame, t.start(update_dict(t, dict, frame.top(), callable)), 1, Interpreter::drop_result);
}

// --- unpacking ------------------------------------------------------------------------------------------------------

namespace {

void push_reversed(BytecodeFrame& frame, const std::vector<Value*>& items, std::size_t first, std::size_t last) {
    for (std::size_t i = last; i-- > first;) frame.push(items[i]);
}

void unpack(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* result) {
    const auto& items = static_cast<ListValue*>(result)->items;
    auto expected = static_cast<std::size_t>(instruction.arg);
    if (items.size() > expected)
        t.raise(PyExc_ValueError, "too many values to unpack (expected " + std::to_string(expected) + ")");
    if (items.size() < expected)
        t.raise(PyExc_ValueError, "not enough values to unpack (expected " + std::to_string(expected) + ", got " +
                                      std::to_string(items.size()) + ")");
    push_reversed(frame, items, 0, items.size());
    next(frame);
}

void unpack_starred(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction, Value* result) {
    const auto& items = static_cast<ListValue*>(result)->items;
    auto before = static_cast<std::size_t>(instruction.arg), after = static_cast<std::size_t>(instruction.extra);
    if (items.size() < before + after)
        t.raise(PyExc_ValueError, "not enough values to unpack (expected at least " + std::to_string(before + after) +
                                      ", got " + std::to_string(items.size()) + ")");
    std::size_t middle_end = items.size() - after;
    push_reversed(frame, items, middle_end, items.size());
    frame.push(make_list(t, {items.begin() + static_cast<std::ptrdiff_t>(before),
                             items.begin() + static_cast<std::ptrdiff_t>(middle_end)}));
    push_reversed(frame, items, 0, before);
    next(frame);
}

/// The items that an unpacking takes: `least` and one more if it needs exactly that many, else all of them.
Task take_items(Tracer& tracer, Value* iterator, std::size_t least, bool takes_all) {
    Value* taken = co_await operations::collect_some(tracer, iterator, takes_all ? least : least + 1);
    auto* items = static_cast<ListValue*>(taken);
    if (!takes_all || items->items.size() < least) co_return items;
    auto* rest = static_cast<ListValue*>(co_await operations::collect(tracer, iterator));
    for (Value* item : rest->items) items->append(tracer, item);
    co_return items;
}

Task collect_to_unpack(Tracer& tracer, Value* value, std::size_t least, bool takes_all) {
    tracer.realize(value);
    bool is_exact = value->type() == &PyList_Type || value->type() == &PyTuple_Type;
    if (is_exact) co_return co_await operations::collect(tracer, value);
    Value* iterator = nullptr;
    try {
        iterator = co_await operations::iterate(tracer, value);
    } catch (const Raised& raised) {
        bool has_iteration = value->type()->tp_iter != nullptr || value->type()->tp_as_sequence != nullptr;
        if (raised.exception->type() != reinterpret_cast<PyTypeObject*>(PyExc_TypeError) || has_iteration) throw;
    }
    if (iterator != nullptr) co_return co_await tracer.start(take_items(tracer, iterator, least, takes_all));
    tracer.raise(PyExc_TypeError, "cannot unpack non-iterable " + std::string(value->type()->tp_name) + " object");
}

}  // namespace

void UnpackSequence(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto least = static_cast<std::size_t>(instruction.arg);
    t.finish(frame, t.start(collect_to_unpack(t, frame.top(), least, false)), 1, unpack);
}

void UnpackEx(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    auto least = static_cast<std::size_t>(instruction.arg);
    t.finish(frame, t.start(collect_to_unpack(t, frame.top(), least, true)), 1, unpack_starred);
}

// --- strings --------------------------------------------------------------------------------------------------------

namespace {

constexpr int kStr = 1, kRepr = 2;  // 3 is ascii

Ref<> known(Tracer& tracer, Value* value, const char* what) {
    tracer.realize(value);
    Ref<> object = value->as_constant(tracer);
    if (!object)
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string("a value of type ") + type_name(value->type()) + " is " + what);
    return object;
}

/// The value as text by `str`, `repr` or `ascii`.
Outcome converted(Tracer& tracer, Value* value, int conversion) {
    if (conversion == kStr) return str_of(tracer, value);
    if (conversion == kRepr) return repr_of(tracer, value);
    static PyObject* ascii = PyDict_GetItemString(PyEval_GetBuiltins(), "ascii");
    return operations::call(tracer, tracer.constant(ascii), Arguments::of(value));
}

Task formatted(Tracer& tracer, Value* value, int conversion, Value* specification) {
    if (conversion != 0) value = co_await converted(tracer, value, conversion);
    co_return co_await format_of(tracer, value, specification);
}

}  // namespace

void ConvertValue(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.finish(frame, converted(t, frame.top(), instruction.arg), 1);
}

void FormatValue(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    bool has_spec = instruction.extra == 1;
    Value* value = frame.top(has_spec ? 1 : 0);
    t.finish(frame, t.start(formatted(t, value, instruction.arg, has_spec ? frame.top() : nullptr)), has_spec ? 2 : 1);
}

void BuildString(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    Ref<> parts = checked(PyTuple_New(instruction.arg));
    for (int i = 0; i < instruction.arg; ++i) {
        Value* part = frame.top(static_cast<std::size_t>(instruction.arg - 1 - i));
        PyTuple_SET_ITEM(parts.get(), i, known(t, part, "a part of a string").release());
    }
    Ref<> empty = checked(PyUnicode_FromStringAndSize("", 0));
    t.finish(frame, t.fresh(checked(PyUnicode_Join(empty.get(), parts.get()))), instruction.arg);
}

}  // namespace stator::handlers
