#include "value/lazy.h"

#include "effect/plan.h"
#include "value/calling.h"
#include "value/identity.h"
#include "value/sequence.h"

namespace stator {

namespace {

int rebuild_call(PlanBuilder& plan, IteratorValue* iterator, std::vector<Value*> arguments) {
    if (int known = plan.known(iterator); known >= 0) return known;
    std::vector<std::int32_t> from;
    for (Value* argument : arguments) from.push_back(argument->rebuild(plan));
    int to = plan.reserve(iterator);
    plan.add_to(to, PlanOp::Call, std::move(from), reinterpret_cast<PyObject*>(iterator->class_));
    return to;
}

Task next_numbered(Tracer& tracer, EnumerateIterator* self) {
    Value* item = co_await operations::next(tracer, self->iterator);
    if (item == tracer.exhausted()) co_return item;
    Value* number = self->count;
    tracer.on_undo([self, number] { self->count = number; });
    self->count = co_await operations::binary(tracer, BinaryOperator::Add, number, tracer.integer(1));
    std::vector<Value*> pair;
    pair.push_back(number);
    pair.push_back(item);
    co_return make_tuple(tracer, std::move(pair));
}

/// `argument 2`, or `arguments 1-2`: those before the one that zip complains of.
std::string earlier(std::size_t count) {
    return count == 1 ? "argument 1" : "arguments 1-" + std::to_string(count);
}

[[noreturn]] void raise_uneven(Tracer& tracer, std::size_t position, const char* how) {
    tracer.raise(PyExc_ValueError,
                 "zip() argument " + std::to_string(position + 1) + " is " + how + " than " + earlier(position));
}

Task next_zipped(Tracer& tracer, ZipIterator* self) {
    std::vector<Value*> items;
    for (std::size_t i = 0; i < self->iterators.size(); ++i) {
        Value* item = co_await operations::next(tracer, self->iterators[i]);
        if (item != tracer.exhausted()) {
            items.push_back(item);
            continue;
        }
        if (!self->strict) co_return item;
        if (i > 0) raise_uneven(tracer, i, "shorter");
        for (std::size_t j = 1; j < self->iterators.size(); ++j) {
            Value* extra = co_await operations::next(tracer, self->iterators[j]);
            if (extra != tracer.exhausted()) raise_uneven(tracer, j, "longer");
        }
        co_return item;
    }
    co_return make_tuple(tracer, std::move(items));
}

Task next_mapped(Tracer& tracer, MapIterator* self) {
    std::vector<Value*> items;
    for (std::size_t i = 0; i < self->iterators.size(); ++i) {
        Value* item = co_await operations::next(tracer, self->iterators[i]);
        if (item == tracer.exhausted()) co_return item;
        items.push_back(item);
    }
    co_return co_await Continued{call_with_all(tracer, self->function, items), {Continuation::Kind::Next}};
}

Task next_filtered(Tracer& tracer, FilterIterator* self) {
    while (true) {
        Value* item = co_await operations::next(tracer, self->iterator);
        if (item == tracer.exhausted()) co_return item;
        Value* answer = item;
        if (self->function->object() != Py_None) answer = co_await call_with(tracer, self->function, item);
        answer = co_await operations::truth(tracer, answer);
        if (is_true(answer) == self->wanted) co_return item;
    }
}

}  // namespace

Outcome EnumerateIterator::next(Tracer& tracer) {
    return tracer.start(next_numbered(tracer, this));
}

int EnumerateIterator::rebuild(PlanBuilder& plan) {
    return rebuild_call(plan, this, {iterator, count});
}

Outcome ZipIterator::next(Tracer& tracer) {
    if (iterators.empty()) return tracer.exhausted();
    return tracer.start(next_zipped(tracer, this));
}

int ZipIterator::rebuild(PlanBuilder& plan) {
    if (strict) return IteratorValue::rebuild(plan);
    return rebuild_call(plan, this, iterators);
}

Outcome MapIterator::next(Tracer& tracer) {
    return tracer.start(next_mapped(tracer, this));
}

int MapIterator::rebuild(PlanBuilder& plan) {
    std::vector<Value*> arguments{function};
    arguments.insert(arguments.end(), iterators.begin(), iterators.end());
    return rebuild_call(plan, this, std::move(arguments));
}

Outcome FilterIterator::next(Tracer& tracer) {
    return tracer.start(next_filtered(tracer, this));
}

int FilterIterator::rebuild(PlanBuilder& plan) {
    return rebuild_call(plan, this, {function, iterator});
}

}  // namespace stator
