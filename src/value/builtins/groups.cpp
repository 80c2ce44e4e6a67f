/// `itertools`: iterators that consume all items first (`product`, `permutations`, ...) or share them (`tee`,
/// `groupby`, `batched`).
#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "value/builtins/registry.h"
#include "value/kinds/iterator.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

constexpr std::size_t kMostResults = 100000;

void check_count(Tracer& tracer, std::size_t count) {
    if (count > kMostResults)
        tracer.break_graph(BreakKind::UnknownObject,
                           "an itertools iterator with more than a hundred thousand combinations");
}

// --- product
// -----------------------------------------------------------------------------------------------------------

Task start_product(Tracer& tracer, std::vector<Value*> iterables, Py_ssize_t repeat) {
    static PyTypeObject* const type = find_imported_class("itertools", "product");
    std::vector<std::vector<Value*>> pools;
    for (std::size_t i = 0; i < iterables.size(); ++i) {
        Value* collected = co_await operations::collect(tracer, iterables[i]);
        pools.push_back(as_sequence(collected)->items);
    }
    std::vector<std::vector<Value*>> results(1);
    for (Py_ssize_t turn = 0; turn < repeat; ++turn)
        for (const std::vector<Value*>& pool : pools) {
            check_count(tracer, results.size() * pool.size());
            std::vector<std::vector<Value*>> longer;
            for (const std::vector<Value*>& result : results)
                for (Value* item : pool) {
                    longer.push_back(result);
                    longer.back().push_back(item);
                }
            results = std::move(longer);
        }
    std::vector<Value*> items;
    for (std::vector<Value*>& result : results) items.push_back(make_tuple(tracer, std::move(result)));
    auto* iterator = tracer.make<ItemsIterator>(type, std::move(items));
    for (const std::vector<Value*>& pool : pools) iterator->made_of.positional.push_back(make_tuple(tracer, pool));
    iterator->made_of.keywords.push_back({interned("repeat"), tracer.integer(repeat)});
    co_return iterator;
}

Outcome make_product(Tracer& tracer, const Arguments& arguments) {
    Py_ssize_t repeat = 1;
    for (const Keyword& keyword : arguments.keywords) {
        if (PyUnicode_CompareWithASCIIString(keyword.name, "repeat") != 0)
            refuse_arguments(tracer, nullptr, "product", arguments);
        repeat = expect_index(tracer, keyword.value);
    }
    if (repeat < 0) tracer.raise(PyExc_ValueError, "repeat argument cannot be negative");
    return tracer.start(start_product(tracer, arguments.positional, repeat));
}

// --- permutations and combinations
// -------------------------------------------------------------------------------------

enum class Choice { Permutations, Combinations, WithReplacement };

/// All choices of `length` positions out of `size`, in lexicographic order.
void choose(Tracer& tracer, Choice choice, std::size_t size, std::size_t length, std::vector<std::size_t>& chosen,
            std::vector<std::vector<std::size_t>>& results) {
    if (chosen.size() == length) {
        check_count(tracer, results.size());
        results.push_back(chosen);
        return;
    }
    std::size_t first = 0;
    if (choice != Choice::Permutations && !chosen.empty())
        first = chosen.back() + (choice == Choice::Combinations ? 1 : 0);
    for (std::size_t i = first; i < size; ++i) {
        if (choice == Choice::Permutations && std::ranges::find(chosen, i) != chosen.end()) continue;
        chosen.push_back(i);
        choose(tracer, choice, size, length, chosen, results);
        chosen.pop_back();
    }
}

Task start_choice(Tracer& tracer, Choice choice, Value* iterable, Py_ssize_t length) {
    static PyTypeObject* const types[] = {find_imported_class("itertools", "permutations"),
                                          find_imported_class("itertools", "combinations"),
                                          find_imported_class("itertools", "combinations_with_replacement")};
    Value* collected = co_await operations::collect(tracer, iterable);
    const std::vector<Value*>& pool = as_sequence(collected)->items;
    auto wanted = length < 0 ? pool.size() : static_cast<std::size_t>(length);
    std::vector<std::vector<std::size_t>> results;
    std::vector<std::size_t> chosen;
    if (choice == Choice::WithReplacement || wanted <= pool.size())
        choose(tracer, choice, pool.size(), wanted, chosen, results);
    std::vector<Value*> items;
    for (const std::vector<std::size_t>& result : results) {
        std::vector<Value*> taken;
        for (std::size_t position : result) taken.push_back(pool[position]);
        items.push_back(make_tuple(tracer, std::move(taken)));
    }
    auto* iterator = tracer.make<ItemsIterator>(types[static_cast<int>(choice)], std::move(items));
    iterator->made_of.positional.push_back(make_tuple(tracer, pool));
    iterator->made_of.positional.push_back(tracer.integer(static_cast<std::int64_t>(wanted)));
    co_return iterator;
}

template <Choice choice>
Outcome make_choice(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kNames[] = {"permutations", "combinations", "combinations_with_replacement"};
    constexpr bool kOptional = choice == Choice::Permutations;
    auto bound =
        bind_builtin(tracer, kNames[static_cast<int>(choice)], arguments, {"iterable", "r"}, kOptional ? 1 : 2);
    Py_ssize_t length = -1;
    if (bound[1] != nullptr) {
        tracer.realize(bound[1]);
        bool none = kOptional && bound[1]->object() == Py_None;
        if (!none) {
            if (kOptional && (bound[1]->object() == nullptr || !PyLong_Check(bound[1]->object())))
                tracer.raise(PyExc_TypeError, "Expected int as r");
            length = expect_index(tracer, bound[1]);
            if (length < 0) tracer.raise(PyExc_ValueError, "r must be non-negative");
        }
    }
    return tracer.start(start_choice(tracer, choice, bound[0], length));
}

// --- tee
// ---------------------------------------------------------------------------------------------------------------

/// State that the iterators of one `tee` share.
struct TeeItems {
    Value* iterator;
    std::vector<Value*> items;
};

struct TeeIterator final : IteratorValue {
    TeeIterator(PyTypeObject* type, TeeItems* shared) : IteratorValue(type), shared(shared) {}
    TeeItems* shared;
    std::size_t position = 0;

    Outcome next(Tracer& tracer) override { return tracer.start(step(tracer, this)); }
    static Task step(Tracer& tracer, TeeIterator* self) {
        TeeItems* shared = self->shared;
        if (self->position == shared->items.size()) {
            Value* item = co_await operations::next(tracer, shared->iterator);
            if (item == tracer.exhausted()) co_return item;
            tracer.on_undo([shared] { shared->items.pop_back(); });
            shared->items.push_back(item);
        }
        set_undoably(tracer, self->position, self->position + 1);
        co_return shared->items[self->position - 1];
    }
    /// All iterators of a tee are copies of one that stays at the first item.
    int rebuild(PlanBuilder& plan) override {
        static PyObject* const copy = method_of_class(class_, "__copy__");
        if (int known = plan.known(this); known >= 0) return known;
        if (plan.known(shared) < 0) {
            std::vector<std::int32_t> items;
            for (Value* item : shared->items) items.push_back(item->rebuild(plan));
            int rest = rebuild_inner_iterator(plan, shared->iterator);
            if (plan.known(shared) < 0) {
                int over = rest;
                if (!items.empty())
                    over = plan.add(PlanOp::Call, {plan.add(PlanOp::Tuple, std::move(items)), rest},
                                    imported("itertools", "chain"));
                plan.add_to(plan.reserve(shared), PlanOp::Call, {over}, reinterpret_cast<PyObject*>(class_));
            }
        }
        if (int known = plan.known(this); known >= 0) return known;
        int to = plan.reserve(this);
        plan.add_to(to, PlanOp::Call, {plan.known(shared)}, copy);
        rebuild_steps(plan, to, position);
        return to;
    }
};

Task start_tee(Tracer& tracer, Value* iterable, Py_ssize_t count) {
    static PyTypeObject* const type = find_imported_class("itertools", "_tee");
    Value* iterator = co_await operations::iterate(tracer, iterable);
    auto* shared = tracer.make<TeeItems>(iterator);
    std::vector<Value*> iterators;
    for (Py_ssize_t i = 0; i < count; ++i) iterators.push_back(tracer.make<TeeIterator>(type, shared));
    co_return make_tuple(tracer, std::move(iterators));
}

Outcome make_tee(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "tee", arguments, {"iterable", "n"}, 1, 2);
    Py_ssize_t count = bound[1] != nullptr ? expect_index(tracer, bound[1]) : 2;
    if (count < 0) tracer.raise(PyExc_ValueError, "n must be >= 0");
    return tracer.start(start_tee(tracer, bound[0], count));
}

// --- groupby
// -----------------------------------------------------------------------------------------------------------

struct GroupIterator;

struct GroupByIterator final : IteratorValue {
    GroupByIterator(PyTypeObject* type, Value* iterator, Value* key_function)
        : IteratorValue(type), iterator(iterator), key_function(key_function) {}
    Value* iterator;
    Value* key_function;             // null: the item itself
    Value* target_key = nullptr;     // of the last returned group
    Value* key = nullptr;            // of `item`
    Value* item = nullptr;           // read ahead; null if there is none
    GroupIterator* group = nullptr;  // the current group, which can still be advanced

    Outcome next(Tracer& tracer) override { return tracer.start(step(tracer, this)); }
    static Task step(Tracer& tracer, GroupByIterator* self);
    /// Reads the next item with its key; `exhausted()` at the end.
    static Task advance(Tracer& tracer, GroupByIterator* self);
    int rebuild(PlanBuilder& plan) override;
};

struct GroupIterator final : IteratorValue {
    GroupIterator(PyTypeObject* type, GroupByIterator* parent, Value* key)
        : IteratorValue(type), parent(parent), key(key) {}
    GroupByIterator* parent;
    Value* key;

    Outcome next(Tracer& tracer) override { return tracer.start(step(tracer, this)); }
    static Task step(Tracer& tracer, GroupIterator* self) {
        GroupByIterator* parent = self->parent;
        if (parent->group != self) co_return tracer.exhausted();
        if (parent->item == nullptr) {
            Value* more = co_await tracer.start(GroupByIterator::advance(tracer, parent));
            if (more == tracer.exhausted()) co_return more;
        }
        Value* same = co_await same_or_equal(tracer, self->key, parent->key);
        if (!is_true(same)) co_return tracer.exhausted();
        Value* item = parent->item;
        set_undoably(tracer, parent->item, nullptr);
        co_return item;
    }
    int rebuild(PlanBuilder& plan) override;
};

Task GroupByIterator::advance(Tracer& tracer, GroupByIterator* self) {
    Value* item = co_await operations::next(tracer, self->iterator);
    if (item == tracer.exhausted()) co_return item;
    Value* key = item;
    if (self->key_function != nullptr) key = co_await operations::call(tracer, self->key_function, Arguments::of(item));
    set_undoably(tracer, self->item, item);
    set_undoably(tracer, self->key, key);
    co_return item;
}

Task GroupByIterator::step(Tracer& tracer, GroupByIterator* self) {
    static PyTypeObject* const group_type = find_imported_class("itertools", "_grouper");
    set_undoably(tracer, self->group, nullptr);
    while (true) {
        if (self->key != nullptr) {
            if (self->target_key == nullptr) break;
            Value* same = co_await same_or_equal(tracer, self->target_key, self->key);
            if (!is_true(same)) break;
        }
        Value* more = co_await tracer.start(advance(tracer, self));
        if (more == tracer.exhausted()) co_return more;
    }
    set_undoably(tracer, self->target_key, self->key);
    auto* group = tracer.make<GroupIterator>(group_type, self, self->key);
    set_undoably(tracer, self->group, group);
    std::vector<Value*> pair;
    pair.push_back(self->key);
    pair.push_back(group);
    co_return make_tuple(tracer, std::move(pair));
}

int GroupByIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    // The state can be set only if an item was read ahead.
    bool has_begun = key != nullptr;
    if (has_begun && (item == nullptr || target_key == nullptr)) return IteratorValue::rebuild(plan);
    int over = rebuild_inner_iterator(plan, iterator);
    int function = key_function == nullptr ? plan.constant(Py_None) : key_function->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {over, function}, reinterpret_cast<PyObject*>(class_));
    if (!has_begun) return to;
    static PyObject* const set_state = method_of_class(class_, "__setstate__");
    int ahead = key->rebuild(plan), next_item = item->rebuild(plan), last = target_key->rebuild(plan);
    plan.add(PlanOp::Call, {to, plan.add(PlanOp::Tuple, {ahead, next_item, last})}, set_state);
    return to;
}

int GroupIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    bool is_live = parent->group == this;
    // An exhausted group is rebuilt as a group of an empty groupby.
    int of = is_live ? parent->rebuild(plan)
                     : plan.add(PlanOp::Call, {plan.add(PlanOp::Tuple)}, reinterpret_cast<PyObject*>(parent->class_));
    int of_key = is_live ? key->rebuild(plan) : plan.constant(Py_None);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {of, of_key}, reinterpret_cast<PyObject*>(class_));
    return to;
}

Task start_groupby(Tracer& tracer, Value* iterable, Value* key_function) {
    static PyTypeObject* const type = find_imported_class("itertools", "groupby");
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<GroupByIterator>(type, iterator, key_function);
}

Outcome make_groupby(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "groupby", arguments, {"iterable", "key"}, 1);
    Value* key = bound[1];
    if (key != nullptr) {
        tracer.realize(key);
        if (key->object() == Py_None) key = nullptr;
    }
    return tracer.start(start_groupby(tracer, bound[0], key));
}

// --- batched
// -----------------------------------------------------------------------------------------------------------

struct BatchedIterator final : IteratorValue {
    BatchedIterator(PyTypeObject* type, Value* iterator, Py_ssize_t size, bool strict)
        : IteratorValue(type), iterator(iterator), size(size), strict(strict) {}
    Value* iterator;
    Py_ssize_t size;
    bool strict;

    Outcome next(Tracer& tracer) override { return tracer.start(step(tracer, this)); }
    static Task step(Tracer& tracer, BatchedIterator* self) {
        std::vector<Value*> items;
        while (static_cast<Py_ssize_t>(items.size()) < self->size) {
            Value* item = co_await operations::next(tracer, self->iterator);
            if (item == tracer.exhausted()) break;
            items.push_back(item);
        }
        if (items.empty()) co_return tracer.exhausted();
        if (self->strict && static_cast<Py_ssize_t>(items.size()) < self->size)
            tracer.raise(PyExc_ValueError, "batched(): incomplete batch");
        co_return make_tuple(tracer, std::move(items));
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        if (strict) return IteratorValue::rebuild(plan);
        int rest = rebuild_inner_iterator(plan, iterator);
        if (int known = plan.known(this); known >= 0) return known;
        int to = plan.reserve(this);
        plan.add_to(to, PlanOp::Call, {rest, plan.constant(checked(PyLong_FromSsize_t(size)))},
                    reinterpret_cast<PyObject*>(class_));
        return to;
    }
};

Task start_batched(Tracer& tracer, Value* iterable, Py_ssize_t size, Value* strict) {
    static PyTypeObject* const type = find_imported_class("itertools", "batched");
    Value* truth = co_await operations::truth(tracer, strict);
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<BatchedIterator>(type, iterator, size, is_true(truth));
}

Outcome make_batched(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "batched", arguments, {"iterable", "n", "strict"}, 2);
    Py_ssize_t size = expect_index(tracer, bound[1]);
    if (size < 1) tracer.raise(PyExc_ValueError, "n must be at least one");
    Value* strict = bound[2] != nullptr ? bound[2] : tracer.boolean(false);
    return tracer.start(start_batched(tracer, bound[0], size, strict));
}

}  // namespace

void register_groups(Handlers& handlers) {
    handlers.add("itertools", "product", make_product);
    handlers.add("itertools", "permutations", make_choice<Choice::Permutations>);
    handlers.add("itertools", "combinations", make_choice<Choice::Combinations>);
    handlers.add("itertools", "combinations_with_replacement", make_choice<Choice::WithReplacement>);
    handlers.add("itertools", "tee", make_tee);
    handlers.add("itertools", "groupby", make_groupby);
    handlers.add("itertools", "batched", make_batched);
    for (const char* name : {"chain",
                             "islice",
                             "count",
                             "repeat",
                             "cycle",
                             "takewhile",
                             "dropwhile",
                             "starmap",
                             "accumulate",
                             "pairwise",
                             "compress",
                             "zip_longest",
                             "filterfalse",
                             "product",
                             "permutations",
                             "combinations",
                             "combinations_with_replacement",
                             "_tee",
                             "groupby",
                             "_grouper",
                             "batched"})
        if (PyTypeObject* type = find_imported_class("itertools", name)) {
            handlers.add_method(type, "__next__", iterator_next);
            handlers.add_method(type, "__iter__", iterator_iter);
        }
}

}  // namespace stator
