/// `itertools`: iterators that pass on one item at a time.
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

/// An iterator whose next item is found by a task.
template <class Self>
struct TaskIterator : IteratorValue {
    explicit TaskIterator(PyTypeObject* type) : IteratorValue(type) {}
    Outcome next(Tracer& tracer) override { return tracer.start(Self::step(tracer, static_cast<Self*>(this))); }
};

int rebuild_as_call(PlanBuilder& plan, IteratorValue* iterator, const std::vector<Value*>& arguments) {
    return rebuild_by_call(plan, iterator, reinterpret_cast<PyObject*>(iterator->class_), arguments);
}

// The state of an iterator is rebuilt through the iterators that it is created over, not with `__setstate__`, which
// newer Pythons deprecate.

int empty_iterator(PlanBuilder& plan) {
    return plan.add(PlanOp::Call, {plan.add(PlanOp::Tuple)}, builtin_function("iter"));
}

/// An iterator over `items`, followed by those of `rest` (-1: none).
int rebuild_ahead_of(PlanBuilder& plan, std::vector<std::int32_t> items, int rest) {
    static PyObject* const chain = imported("itertools", "chain");
    std::vector<std::int32_t> parts{plan.add(PlanOp::Tuple, std::move(items))};
    if (rest >= 0) parts.push_back(rest);
    return plan.add(PlanOp::Call, std::move(parts), chain);
}

/// A call of the iterator's class with registers, unless a reference cycle has rebuilt the iterator meanwhile.
int rebuild_over(PlanBuilder& plan, IteratorValue* iterator, std::vector<std::int32_t> from,
                 PyObject* callable = nullptr) {
    if (int known = plan.known(iterator); known >= 0) return known;
    int to = plan.reserve(iterator);
    plan.add_to(to, PlanOp::Call, std::move(from),
                callable != nullptr ? callable : reinterpret_cast<PyObject*>(iterator->class_));
    return to;
}

// --- chain
// -------------------------------------------------------------------------------------------------------------

struct ChainIterator final : TaskIterator<ChainIterator> {
    explicit ChainIterator(Value* iterables) : TaskIterator(kClass()), iterables(iterables) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "chain");
        return type;
    }
    Value* iterables;  // an iterator over iterables; null at the end
    Value* current = nullptr;

    static Task step(Tracer& tracer, ChainIterator* self) {
        while (self->iterables != nullptr) {
            if (self->current == nullptr) {
                Value* iterable = co_await operations::next(tracer, self->iterables);
                if (iterable == tracer.exhausted()) {
                    set_undoably(tracer, self->iterables, nullptr);
                    break;
                }
                Value* iterator = co_await operations::iterate(tracer, iterable);
                set_undoably(tracer, self->current, iterator);
            }
            Value* item = co_await operations::next(tracer, self->current);
            if (item != tracer.exhausted()) co_return item;
            set_undoably(tracer, self->current, nullptr);
        }
        co_return tracer.exhausted();
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        static PyObject* const from_iterable = method_of_class(kClass(), "from_iterable");
        int rest = iterables == nullptr ? empty_iterator(plan) : rebuild_inner_iterator(plan, iterables);
        if (iterables != nullptr && current != nullptr)
            rest = rebuild_ahead_of(plan, {rebuild_inner_iterator(plan, current)}, rest);
        return rebuild_over(plan, this, {rest}, from_iterable);
    }
};

Outcome make_chain(Tracer& tracer, const Arguments& arguments) {
    if (!arguments.keywords.empty()) tracer.raise(PyExc_TypeError, "chain() takes no keyword arguments");
    return tracer.make<ChainIterator>(make_tuple(tracer, arguments.positional)->iterate(tracer).value());
}

Task chain_over(Tracer& tracer, Value* iterable) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<ChainIterator>(iterator);
}

/// A classmethod: the first argument is the class.
Outcome chain_from_iterable(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 2 || !arguments.keywords.empty())
        tracer.raise(PyExc_TypeError, "itertools.chain.from_iterable() takes exactly one argument (" +
                                          std::to_string(arguments.count() - 1) + " given)");
    return tracer.start(chain_over(tracer, arguments.positional[1]));
}

// --- islice
// ------------------------------------------------------------------------------------------------------------

struct IsliceIterator final : TaskIterator<IsliceIterator> {
    IsliceIterator(Value* iterator, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step)
        : TaskIterator(kClass()), iterator(iterator), wanted(start), stop(stop), stride(step) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "islice");
        return type;
    }
    Value* iterator;  // null at the end
    Py_ssize_t taken = 0;
    Py_ssize_t wanted;  // position of the next item to return
    Py_ssize_t stop;    // -1: none
    Py_ssize_t stride;

    static Task step(Tracer& tracer, IsliceIterator* self) {
        if (self->iterator == nullptr) co_return tracer.exhausted();
        while (true) {
            bool skipping = self->taken < self->wanted;
            if (!skipping && self->stop != -1 && self->taken >= self->stop) break;
            Value* item = co_await operations::next(tracer, self->iterator);
            if (item == tracer.exhausted()) break;
            set_undoably(tracer, self->taken, self->taken + 1);
            if (skipping) continue;
            Py_ssize_t after =
                self->wanted > PY_SSIZE_T_MAX - self->stride ? PY_SSIZE_T_MAX : self->wanted + self->stride;
            if (self->stop != -1) after = std::min(after, self->stop);
            set_undoably(tracer, self->wanted, after);
            co_return item;
        }
        set_undoably(tracer, self->iterator, nullptr);
        co_return tracer.exhausted();
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        int rest = iterator == nullptr ? empty_iterator(plan) : rebuild_inner_iterator(plan, iterator);
        auto number = [&](Py_ssize_t value) { return plan.constant(checked(PyLong_FromSsize_t(value))); };
        Py_ssize_t skipped = std::max<Py_ssize_t>(0, wanted - taken);
        int last = stop == -1 ? plan.constant(Py_None) : number(std::max<Py_ssize_t>(0, stop - taken));
        return rebuild_over(plan, this, {rest, number(skipped), last, number(stride)});
    }
};

Task start_islice(Tracer& tracer, Value* iterable, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    co_return tracer.make<IsliceIterator>(iterator, start, stop, step);
}

/// A bound of `islice`: a non-negative int, or `otherwise` for None.
Py_ssize_t islice_bound(Tracer& tracer, Value* value, Py_ssize_t otherwise, Py_ssize_t least, const char* message) {
    tracer.realize(value);
    if (value->object() == Py_None) return otherwise;
    auto number = as_clipped_index(tracer, value);
    if (!number && has_index_method(value)) expect_index(tracer, value);
    if (!number || *number < least || *number == PY_SSIZE_T_MAX) tracer.raise(PyExc_ValueError, message);
    return *number;
}

Outcome make_islice(Tracer& tracer, const Arguments& arguments) {
    if (!arguments.keywords.empty()) tracer.raise(PyExc_TypeError, "islice() takes no keyword arguments");
    expect_arguments(tracer, "itertools", "islice", arguments, 2, 4);
    constexpr const char* kStop = "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.";
    constexpr const char* kIndices = "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.";
    constexpr const char* kStep = "Step for islice() must be a positive integer or None.";
    const auto& given = arguments.positional;
    if (given.size() == 2)
        return tracer.start(start_islice(tracer, given[0], 0, islice_bound(tracer, given[1], -1, 0, kStop), 1));
    Py_ssize_t start = islice_bound(tracer, given[1], 0, 0, kIndices);
    Py_ssize_t stop = islice_bound(tracer, given[2], -1, 0, kIndices);
    Py_ssize_t step = given.size() == 4 ? islice_bound(tracer, given[3], 1, 1, kStep) : 1;
    return tracer.start(start_islice(tracer, given[0], start, stop, step));
}

// --- count, repeat, cycle
// ----------------------------------------------------------------------------------------------

struct CountIterator final : TaskIterator<CountIterator> {
    CountIterator(Value* number, Value* stride) : TaskIterator(kClass()), number(number), stride(stride) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "count");
        return type;
    }
    Value* number;
    Value* stride;

    static Task step(Tracer& tracer, CountIterator* self) {
        Value* now = self->number;
        Value* after = co_await operations::binary(tracer, BinaryOperator::Add, now, self->stride);
        set_undoably(tracer, self->number, after);
        co_return now;
    }
    int rebuild(PlanBuilder& plan) override { return rebuild_as_call(plan, this, {number, stride}); }
};

Outcome make_count(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "count", arguments, {"start", "step"}, 0);
    Value* start = bound[0] != nullptr ? bound[0] : tracer.integer(0);
    Value* step = bound[1] != nullptr ? bound[1] : tracer.integer(1);
    for (Value* part : {start, step}) {
        tracer.realize(part);
        bool number = part->kind == Kind::Tensor || (part->object() != nullptr && PyNumber_Check(part->object()));
        if (!number) tracer.raise(PyExc_TypeError, "a number is required");
    }
    return tracer.make<CountIterator>(start, step);
}

struct RepeatIterator final : IteratorValue {
    RepeatIterator(Value* item, Py_ssize_t times) : IteratorValue(kClass()), item(item), times(times) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "repeat");
        return type;
    }
    Value* item;
    Py_ssize_t times;  // -1: endlessly

    bool immediate() const override { return times >= 0; }
    Outcome next(Tracer& tracer) override {
        if (times == 0) return tracer.exhausted();
        if (times > 0) set_undoably(tracer, times, times - 1);
        return item;
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        std::vector<std::int32_t> from{item->rebuild(plan)};
        if (times >= 0) from.push_back(plan.constant(checked(PyLong_FromSsize_t(times))));
        return rebuild_over(plan, this, std::move(from));
    }
};

Outcome make_repeat(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "repeat", arguments, {"object", "times"}, 1);
    Py_ssize_t times = -1;
    if (bound[1] != nullptr) times = std::max<Py_ssize_t>(0, expect_index(tracer, bound[1]));
    return tracer.make<RepeatIterator>(bound[0], times);
}

struct CycleIterator final : TaskIterator<CycleIterator> {
    explicit CycleIterator(Value* iterator) : TaskIterator(kClass()), iterator(iterator) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "cycle");
        return type;
    }
    Value* iterator;  // null once it is exhausted
    std::vector<Value*> saved;
    std::size_t position = 0;

    static Task step(Tracer& tracer, CycleIterator* self) {
        if (self->iterator != nullptr) {
            Value* item = co_await operations::next(tracer, self->iterator);
            if (item != tracer.exhausted()) {
                tracer.on_undo([self] { self->saved.pop_back(); });
                self->saved.push_back(item);
                co_return item;
            }
            set_undoably(tracer, self->iterator, nullptr);
        }
        if (self->saved.empty()) co_return tracer.exhausted();
        Value* item = self->saved[self->position];
        set_undoably(tracer, self->position, (self->position + 1) % self->saved.size());
        co_return item;
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        int rest = iterator == nullptr ? -1 : rebuild_inner_iterator(plan, iterator);
        std::vector<std::int32_t> items;
        for (Value* item : saved) items.push_back(item->rebuild(plan));
        if (int known = plan.known(this); known >= 0) return known;
        int to = rebuild_over(plan, this, {rebuild_ahead_of(plan, std::move(items), rest)});
        rebuild_steps(plan, to, saved.size() + position);
        return to;
    }
};

// --- one iterable and a function
// ---------------------------------------------------------------------------------------

struct WhileIterator final : TaskIterator<WhileIterator> {
    WhileIterator(PyTypeObject* type, Value* predicate, Value* iterator, bool takes)
        : TaskIterator(type), predicate(predicate), iterator(iterator), takes(takes) {}
    Value* predicate;  // null once it returned false
    Value* iterator;
    bool takes;  // takewhile, else dropwhile

    static Task step(Tracer& tracer, WhileIterator* self) {
        while (true) {
            if (self->takes && self->predicate == nullptr) co_return tracer.exhausted();
            Value* item = co_await operations::next(tracer, self->iterator);
            if (item == tracer.exhausted() || self->predicate == nullptr) co_return item;
            Value* answer = co_await operations::call(tracer, self->predicate, Arguments::of(item));
            answer = co_await operations::truth(tracer, answer);
            if (self->takes && is_true(answer)) co_return item;
            if (!is_true(answer)) set_undoably(tracer, self->predicate, nullptr);
            if (!self->takes && !is_true(answer)) co_return item;
        }
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        if (predicate != nullptr)
            return rebuild_over(plan, this, {predicate->rebuild(plan), rebuild_inner_iterator(plan, iterator)});
        // The predicate has returned false. It is replaced by one that always does: for takewhile over one item that it
        // drops, for dropwhile over the remaining items.
        static PyObject* const says_no = [] {
            Ref<> nobody = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
            return checked(PyObject_CallFunctionObjArgs(imported("functools", "partial"), imported("operator", "is_"),
                                                        nobody.get(), nullptr))
                .release();
        }();
        int never = plan.constant(says_no);
        if (!takes) return rebuild_over(plan, this, {never, rebuild_inner_iterator(plan, iterator)});
        int to = rebuild_over(plan, this, {never, rebuild_ahead_of(plan, {plan.constant(Py_None)}, -1)});
        rebuild_steps(plan, to, 1);
        return to;
    }
};

struct StarmapIterator final : TaskIterator<StarmapIterator> {
    StarmapIterator(PyTypeObject* type, Value* function, Value* iterator)
        : TaskIterator(type), function(function), iterator(iterator) {}
    Value* function;
    Value* iterator;

    static Task step(Tracer& tracer, StarmapIterator* self) {
        Value* item = co_await operations::next(tracer, self->iterator);
        if (item == tracer.exhausted()) co_return item;
        Value* collected = co_await operations::collect(tracer, item);
        co_return co_await operations::call(tracer, self->function, Arguments::of(as_sequence(collected)->items));
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        return rebuild_over(plan, this, {function->rebuild(plan), rebuild_inner_iterator(plan, iterator)});
    }
};

struct AccumulateIterator final : TaskIterator<AccumulateIterator> {
    AccumulateIterator(Value* iterator, Value* function, Value* initial)
        : TaskIterator(kClass()), iterator(iterator), function(function), initial(initial) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "accumulate");
        return type;
    }
    Value* iterator;
    Value* function;  // null: addition
    Value* initial;   // null if there is none, or none left
    Value* total = nullptr;

    static Task step(Tracer& tracer, AccumulateIterator* self) {
        if (self->initial != nullptr) {
            set_undoably(tracer, self->total, self->initial);
            set_undoably(tracer, self->initial, nullptr);
            co_return self->total;
        }
        Value* item = co_await operations::next(tracer, self->iterator);
        if (item == tracer.exhausted()) co_return item;
        Value* total = item;
        if (self->total != nullptr && self->function == nullptr)
            total = co_await operations::binary(tracer, BinaryOperator::Add, self->total, item);
        else if (self->total != nullptr)
            total = co_await operations::call(tracer, self->function, Arguments::of(self->total, item));
        set_undoably(tracer, self->total, total);
        co_return total;
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        int rest = rebuild_inner_iterator(plan, iterator);
        Value* first = initial != nullptr ? initial : total;
        if (first != nullptr) rest = rebuild_ahead_of(plan, {first->rebuild(plan)}, rest);
        std::vector<std::int32_t> from{rest};
        if (function != nullptr) from.push_back(function->rebuild(plan));
        if (int known = plan.known(this); known >= 0) return known;
        int to = rebuild_over(plan, this, std::move(from));
        if (initial == nullptr && total != nullptr) rebuild_steps(plan, to, 1);
        return to;
    }
};

enum class Wrapper { Cycle, TakeWhile, DropWhile, Starmap, Accumulate, Pairwise };

struct PairwiseIterator final : TaskIterator<PairwiseIterator> {
    PairwiseIterator(PyTypeObject* type, Value* iterator) : TaskIterator(type), iterator(iterator) {}
    Value* iterator;
    Value* before = nullptr;

    static Task step(Tracer& tracer, PairwiseIterator* self) {
        if (self->before == nullptr) {
            Value* first = co_await operations::next(tracer, self->iterator);
            if (first == tracer.exhausted()) co_return first;
            set_undoably(tracer, self->before, first);
        }
        Value* item = co_await operations::next(tracer, self->iterator);
        if (item == tracer.exhausted()) {
            set_undoably(tracer, self->before, nullptr);
            co_return item;
        }
        std::vector<Value*> pair;
        pair.push_back(self->before);
        pair.push_back(item);
        set_undoably(tracer, self->before, item);
        co_return make_tuple(tracer, std::move(pair));
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        int rest = rebuild_inner_iterator(plan, iterator);
        if (before != nullptr) rest = rebuild_ahead_of(plan, {before->rebuild(plan)}, rest);
        return rebuild_over(plan, this, {rest});
    }
};

/// Creates an iterator that wraps one iterable, after `iter` of it.
Task wrap_iterable(Tracer& tracer, Wrapper wrapper, Value* iterable, Value* function, Value* initial) {
    static PyTypeObject* const takewhile = find_imported_class("itertools", "takewhile");
    static PyTypeObject* const dropwhile = find_imported_class("itertools", "dropwhile");
    static PyTypeObject* const starmap = find_imported_class("itertools", "starmap");
    static PyTypeObject* const pairwise = find_imported_class("itertools", "pairwise");
    Value* iterator = co_await operations::iterate(tracer, iterable);
    switch (wrapper) {
        case Wrapper::Cycle:
            co_return tracer.make<CycleIterator>(iterator);
        case Wrapper::TakeWhile:
            co_return tracer.make<WhileIterator>(takewhile, function, iterator, true);
        case Wrapper::DropWhile:
            co_return tracer.make<WhileIterator>(dropwhile, function, iterator, false);
        case Wrapper::Starmap:
            co_return tracer.make<StarmapIterator>(starmap, function, iterator);
        case Wrapper::Accumulate:
            co_return tracer.make<AccumulateIterator>(iterator, function, initial);
        case Wrapper::Pairwise:
            co_return tracer.make<PairwiseIterator>(pairwise, iterator);
    }
    co_return iterator;
}

Outcome make_cycle(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "itertools", "cycle", arguments, 1, 1);
    return tracer.start(wrap_iterable(tracer, Wrapper::Cycle, arguments.positional[0], nullptr, nullptr));
}

Outcome make_pairwise(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "itertools", "pairwise", arguments, 1, 1);
    return tracer.start(wrap_iterable(tracer, Wrapper::Pairwise, arguments.positional[0], nullptr, nullptr));
}

template <Wrapper wrapper>
Outcome make_with_function(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kName = wrapper == Wrapper::TakeWhile   ? "takewhile"
                                  : wrapper == Wrapper::DropWhile ? "dropwhile"
                                                                  : "starmap";
    expect_arguments(tracer, "itertools", kName, arguments, 2, 2);
    return tracer.start(wrap_iterable(tracer, wrapper, arguments.positional[1], arguments.positional[0], nullptr));
}

Value* unless_none(Tracer& tracer, Value* value) {
    if (value == nullptr) return nullptr;
    tracer.realize(value);
    return value->object() == Py_None ? nullptr : value;
}

Outcome make_accumulate(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "accumulate", arguments, {"iterable", "func", "initial"}, 1);
    if (arguments.positional.size() > 2)
        tracer.raise(PyExc_TypeError, "accumulate() takes at most 2 positional arguments (" +
                                          std::to_string(arguments.positional.size()) + " given)");
    return tracer.start(wrap_iterable(tracer, Wrapper::Accumulate, bound[0], unless_none(tracer, bound[1]),
                                      unless_none(tracer, bound[2])));
}

// --- several iterables
// -------------------------------------------------------------------------------------------------

struct CompressIterator final : TaskIterator<CompressIterator> {
    CompressIterator(Value* data, Value* selectors) : TaskIterator(kClass()), data(data), selectors(selectors) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "compress");
        return type;
    }
    Value* data;
    Value* selectors;

    static Task step(Tracer& tracer, CompressIterator* self) {
        while (true) {
            Value* item = co_await operations::next(tracer, self->data);
            if (item == tracer.exhausted()) co_return item;
            Value* selector = co_await operations::next(tracer, self->selectors);
            if (selector == tracer.exhausted()) co_return selector;
            Value* truth = co_await operations::truth(tracer, selector);
            if (is_true(truth)) co_return item;
        }
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        return rebuild_over(plan, this, {rebuild_inner_iterator(plan, data), rebuild_inner_iterator(plan, selectors)});
    }
};

Task start_compress(Tracer& tracer, Value* data, Value* selectors) {
    Value* items = co_await operations::iterate(tracer, data);
    Value* flags = co_await operations::iterate(tracer, selectors);
    co_return tracer.make<CompressIterator>(items, flags);
}

Outcome make_compress(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "compress", arguments, {"data", "selectors"}, 2);
    return tracer.start(start_compress(tracer, bound[0], bound[1]));
}

struct ZipLongestIterator final : TaskIterator<ZipLongestIterator> {
    ZipLongestIterator(std::vector<Value*> iterators, Value* fill)
        : TaskIterator(kClass()), iterators(std::move(iterators)), fill(fill) {}
    static PyTypeObject* kClass() {
        static PyTypeObject* const type = find_imported_class("itertools", "zip_longest");
        return type;
    }
    std::vector<Value*> iterators;  // null for an exhausted one
    Value* fill;

    static Task step(Tracer& tracer, ZipLongestIterator* self) {
        std::vector<Value*> items;
        for (std::size_t i = 0; i < self->iterators.size(); ++i) {
            Value* item = self->fill;
            if (self->iterators[i] != nullptr) {
                Value* found = co_await operations::next(tracer, self->iterators[i]);
                if (found == tracer.exhausted()) {
                    set_undoably(tracer, self->iterators[i], nullptr);
                    bool left = std::ranges::any_of(self->iterators, [](Value* other) { return other != nullptr; });
                    if (!left) co_return found;
                } else {
                    item = found;
                }
            }
            items.push_back(item);
        }
        bool left = std::ranges::any_of(self->iterators, [](Value* other) { return other != nullptr; });
        if (!left) co_return tracer.exhausted();
        co_return make_tuple(tracer, std::move(items));
    }
    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        std::vector<std::int32_t> from;
        for (Value* iterator : iterators)
            from.push_back(iterator == nullptr ? empty_iterator(plan) : rebuild_inner_iterator(plan, iterator));
        from.push_back(plan.add(PlanOp::Dict, {plan.constant(interned("fillvalue")), fill->rebuild(plan)}));
        if (int known = plan.known(this); known >= 0) return known;
        int to = plan.reserve(this);
        plan.add_to(to, PlanOp::CallNamed, std::move(from), reinterpret_cast<PyObject*>(class_));
        return to;
    }
};

Task start_zip_longest(Tracer& tracer, std::vector<Value*> iterables, Value* fill) {
    std::vector<Value*> iterators;
    for (std::size_t i = 0; i < iterables.size(); ++i)
        iterators.push_back(co_await operations::iterate(tracer, iterables[i]));
    co_return tracer.make<ZipLongestIterator>(std::move(iterators), fill);
}

Outcome make_zip_longest(Tracer& tracer, const Arguments& arguments) {
    Value* fill = tracer.none();
    for (const Keyword& keyword : arguments.keywords) {
        if (PyUnicode_CompareWithASCIIString(keyword.name, "fillvalue") != 0)
            refuse_arguments(tracer, nullptr, "zip_longest", arguments);
        fill = keyword.value;
    }
    return tracer.start(start_zip_longest(tracer, arguments.positional, fill));
}

}  // namespace

void register_itertools(Handlers& handlers) {
    handlers.add("itertools", "chain", make_chain);
    handlers.add_method(ChainIterator::kClass(), "from_iterable", chain_from_iterable);
    handlers.add("itertools", "islice", make_islice);
    handlers.add("itertools", "count", make_count);
    handlers.add("itertools", "repeat", make_repeat);
    handlers.add("itertools", "cycle", make_cycle);
    handlers.add("itertools", "takewhile", make_with_function<Wrapper::TakeWhile>);
    handlers.add("itertools", "dropwhile", make_with_function<Wrapper::DropWhile>);
    handlers.add("itertools", "starmap", make_with_function<Wrapper::Starmap>);
    handlers.add("itertools", "accumulate", make_accumulate);
    handlers.add("itertools", "pairwise", make_pairwise);
    handlers.add("itertools", "compress", make_compress);
    handlers.add("itertools", "zip_longest", make_zip_longest);
}

}  // namespace stator
