/// `collections.deque`: constructor and methods.
#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/deque.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/raising.h"
#include "value/protocol/text.h"

namespace stator {

namespace {

DequeValue* deque_receiver(Tracer& tracer, const Arguments& arguments, const char* method, std::size_t least,
                           std::size_t most) {
    return receiver<DequeValue>(tracer, arguments, deque_class(), method, least, most);
}

Outcome fill(Tracer& tracer, DequeValue* deque, const Arguments& arguments, Value* result) {
    auto bound = bind_builtin(tracer, "deque", arguments, {"iterable", "maxlen"}, 0);
    if (bound[1] != nullptr) {
        tracer.realize(bound[1]);
        if (bound[1]->object() != Py_None) {
            if (bound[1]->kind != Kind::Constant || !PyLong_Check(bound[1]->object()))
                tracer.raise(PyExc_TypeError, "an integer is required");
            Py_ssize_t longest = expect_index(tracer, bound[1]);
            if (longest < 0) tracer.raise(PyExc_ValueError, "maxlen must be non-negative");
            deque->longest = longest;
        }
    }
    if (bound[0] == nullptr) return result;
    return extend_deque(tracer, deque, bound[0], false, result);
}

Outcome make_deque_of(Tracer& tracer, const Arguments& arguments) {
    DequeValue* deque = make_deque(tracer, {}, -1);
    return fill(tracer, deque, arguments, deque);
}

Outcome new_deque(Tracer& tracer, const Arguments& arguments) {
    auto* type = arguments.positional.empty() ? nullptr : cast<ClassValue>(arguments.positional[0]);
    if (type == nullptr || !PyType_IsSubtype(type->held, deque_class()))
        tracer.break_graph(BreakKind::UnknownFunction,
                           "deque.__new__ is called with arguments that Stator has no model of");
    return tracer.make<DequeValue>(type->held);
}

Outcome deque_init(Tracer& tracer, const Arguments& arguments) {
    auto* self = cast<DequeValue>(arguments.positional.empty() ? nullptr : arguments.positional[0]);
    if (self == nullptr) raise_wrong_receiver(tracer, deque_class(), "__init__", arguments);
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    tracer.realize(self);
    tracer.effects().expect_made_in_trace(self);
    if (!self->items.empty()) self->assign(tracer, {}, "clear");
    return fill(tracer, self, rest, tracer.none());
}

Outcome deque_append(Tracer& tracer, const Arguments& arguments) {
    deque_receiver(tracer, arguments, "append", 1, 1)->append(tracer, arguments.positional[1]);
    return tracer.none();
}

Outcome deque_appendleft(Tracer& tracer, const Arguments& arguments) {
    deque_receiver(tracer, arguments, "appendleft", 1, 1)->append_left(tracer, arguments.positional[1]);
    return tracer.none();
}

Outcome deque_extend(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "extend", 1, 1);
    return extend_deque(tracer, self, arguments.positional[1], false, tracer.none());
}

Outcome deque_extendleft(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "extendleft", 1, 1);
    return extend_deque(tracer, self, arguments.positional[1], true, tracer.none());
}

template <bool left>
Outcome deque_pop(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, left ? "popleft" : "pop", 0, 0);
    if (self->items.empty()) tracer.raise(PyExc_IndexError, "pop from an empty deque");
    return self->take_end(tracer, left);
}

Outcome deque_clear(Tracer& tracer, const Arguments& arguments) {
    deque_receiver(tracer, arguments, "clear", 0, 0)->assign(tracer, {}, "clear");
    return tracer.none();
}

Outcome deque_copy(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "copy", 0, 0);
    if (self->class_ != deque_class()) tracer.break_graph(BreakKind::UnknownObject, "copy of a subclass of deque");
    return make_deque(tracer, self->items, self->longest);
}

Outcome deque_reverse(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "reverse", 0, 0);
    std::vector<Value*> contents = self->items;
    std::ranges::reverse(contents);
    self->assign(tracer, std::move(contents), "reverse");
    return tracer.none();
}

Outcome deque_reversed(Tracer& tracer, const Arguments& arguments) {
    static PyTypeObject* const type = imported_class("_collections", "_deque_reverse_iterator");
    return tracer.make<DequeIterator>(type, deque_receiver(tracer, arguments, "__reversed__", 0, 0), true);
}

Outcome deque_rotate(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "rotate", 0, 1);
    Py_ssize_t steps = arguments.positional.size() == 2 ? expect_index(tracer, arguments.positional[1]) : 1;
    auto size = static_cast<Py_ssize_t>(self->items.size());
    if (size < 2) return tracer.none();
    steps = ((steps % size) + size) % size;
    std::vector<Value*> contents = self->items;
    std::ranges::rotate(contents, contents.end() - steps);
    self->assign(tracer, std::move(contents), "rotate", {tracer.integer(steps)});
    return tracer.none();
}

Outcome deque_insert(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "insert", 2, 2);
    auto size = static_cast<Py_ssize_t>(self->items.size());
    Py_ssize_t at = expect_index(tracer, arguments.positional[1]);
    if (self->longest == size) tracer.raise(PyExc_IndexError, "deque already at its maximum size");
    at = at < 0 ? std::max<Py_ssize_t>(0, at + size) : std::min(at, size);
    std::vector<Value*> contents = self->items;
    contents.insert(contents.begin() + at, arguments.positional[2]);
    self->assign(tracer, std::move(contents), "insert", {tracer.integer(at), arguments.positional[2]});
    return tracer.none();
}

enum class Search { Count, Index, Remove };

Task search(Tracer& tracer, Search what, DequeValue* self, Value* wanted, std::size_t start, std::size_t stop) {
    std::size_t changes = self->changes;
    std::int64_t count = 0;
    for (std::size_t i = start; i < stop && i < self->items.size(); ++i) {
        Value* answer = co_await same_or_equal(tracer, self->items[i], wanted);
        if (self->changes != changes) {
            if (what == Search::Remove) tracer.raise(PyExc_IndexError, "deque mutated during remove().");
            tracer.raise(PyExc_RuntimeError, "deque mutated during iteration");
        }
        if (!is_true(answer)) continue;
        if (what == Search::Index) co_return tracer.integer(static_cast<std::int64_t>(i));
        ++count;
        if (what == Search::Count) continue;
        std::vector<Value*> contents = self->items;
        contents.erase(contents.begin() + static_cast<std::ptrdiff_t>(i));
        Value* position = tracer.integer(static_cast<std::int64_t>(i));
        self->assign(tracer, std::move(contents), "__delitem__", std::vector<Value*>(1, position));
        co_return tracer.none();
    }
    if (what == Search::Count) co_return tracer.integer(count);
    // The message depends on the Python version, so the real method raises it.
    if (Ref<> known = wanted->as_constant(tracer)) {
        const char* method = what == Search::Remove ? "remove" : "index";
        Ref<> empty = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(deque_class())));
        Ref<> failed = Ref<>::steal(PyObject_CallMethodOneArg(empty.get(), interned(method), known.get()));
        tracer.raise_from_python();
    }
    Value* shown = co_await repr_of(tracer, wanted);
    tracer.raise(PyExc_ValueError, std::string(utf8(shown->object())) + " is not in deque");
}

Outcome deque_count(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "count", 1, 1);
    return tracer.start(search(tracer, Search::Count, self, arguments.positional[1], 0, self->items.size()));
}

Outcome deque_remove(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "remove", 1, 1);
    return tracer.start(search(tracer, Search::Remove, self, arguments.positional[1], 0, self->items.size()));
}

Outcome deque_index(Tracer& tracer, const Arguments& arguments) {
    auto* self = deque_receiver(tracer, arguments, "index", 1, 3);
    auto size = static_cast<Py_ssize_t>(self->items.size());
    Py_ssize_t bounds[2] = {0, size};
    for (std::size_t i = 0; i + 2 < arguments.positional.size(); ++i) {
        auto at = as_clipped_index(tracer, arguments.positional[i + 2]);
        if (!at) tracer.raise(PyExc_TypeError, "slice indices must be integers or have an __index__ method");
        bounds[i] = *at < 0 ? std::max<Py_ssize_t>(0, *at + size) : std::min(*at, size);
    }
    return tracer.start(search(tracer, Search::Index, self, arguments.positional[1],
                               static_cast<std::size_t>(bounds[0]), static_cast<std::size_t>(bounds[1])));
}

}  // namespace

void register_deques(Handlers& handlers) {
    PyTypeObject* type = deque_class();
    handlers.add(reinterpret_cast<PyObject*>(type), make_deque_of);
    handlers.add_method(type, "__new__", new_deque);
    handlers.add_method(type, "__init__", deque_init);
    handlers.add_method(type, "append", deque_append);
    handlers.add_method(type, "appendleft", deque_appendleft);
    handlers.add_method(type, "extend", deque_extend);
    handlers.add_method(type, "extendleft", deque_extendleft);
    handlers.add_method(type, "pop", deque_pop<false>);
    handlers.add_method(type, "popleft", deque_pop<true>);
    handlers.add_method(type, "clear", deque_clear);
    handlers.add_method(type, "copy", deque_copy);
    handlers.add_method(type, "__copy__", deque_copy);
    handlers.add_method(type, "reverse", deque_reverse);
    handlers.add_method(type, "__reversed__", deque_reversed);
    handlers.add_method(type, "rotate", deque_rotate);
    handlers.add_method(type, "insert", deque_insert);
    handlers.add_method(type, "count", deque_count);
    handlers.add_method(type, "remove", deque_remove);
    handlers.add_method(type, "index", deque_index);
}

}  // namespace stator
