#include "value/kinds/lazy_iterators.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

/// A call of the class, or of a function that creates an instance, with a function if there is one, iterators, and one
/// more value.
int rebuild_call(PlanBuilder& plan, IteratorValue* self, Value* function, const std::vector<Value*>& iterators,
                 Value* last = nullptr, PyObject* callable = nullptr) {
    if (int known = plan.known(self); known >= 0) return known;
    std::vector<std::int32_t> from;
    if (function != nullptr) from.push_back(function->rebuild(plan));
    for (Value* iterator : iterators) from.push_back(rebuild_inner_iterator(plan, iterator));
    if (last != nullptr) from.push_back(last->rebuild(plan));
    // In a reference cycle, rebuilding the parts may already have rebuilt this value.
    if (int known = plan.known(self); known >= 0) return known;
    int to = plan.reserve(self);
    plan.add_to(to, PlanOp::Call, std::move(from),
                callable != nullptr ? callable : reinterpret_cast<PyObject*>(self->class_));
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

/// `argument 2`, or `arguments 1-2`: the arguments before the one that zip's error message names.
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
    co_return co_await Continued{operations::call(tracer, self->function, Arguments::of(items)),
                                 {Continuation::Kind::Next}};
}

Task next_filtered(Tracer& tracer, FilterIterator* self) {
    while (true) {
        Value* item = co_await operations::next(tracer, self->iterator);
        if (item == tracer.exhausted()) co_return item;
        Value* answer = item;
        if (self->function->object() != Py_None)
            answer = co_await operations::call(tracer, self->function, Arguments::of(item));
        answer = co_await operations::truth(tracer, answer);
        if (is_true(answer) == self->wanted) co_return item;
    }
}

}  // namespace

Outcome EnumerateIterator::next(Tracer& tracer) {
    return tracer.start(next_numbered(tracer, this));
}

int EnumerateIterator::rebuild(PlanBuilder& plan) {
    return rebuild_call(plan, this, nullptr, {iterator}, count);
}

Outcome ZipIterator::next(Tracer& tracer) {
    if (iterators.empty()) return tracer.exhausted();
    return tracer.start(next_zipped(tracer, this));
}

int ZipIterator::rebuild(PlanBuilder& plan) {
    if (!strict) return rebuild_call(plan, this, nullptr, iterators);
    static PyObject* const strict_zip = [] {
        PyObject* partial = imported("functools", "partial");
        Ref<> arguments = checked(PyTuple_Pack(1, &PyZip_Type)), named = checked(PyDict_New());
        checked(PyDict_SetItemString(named.get(), "strict", Py_True));
        return checked(PyObject_Call(partial, arguments.get(), named.get())).release();
    }();
    return rebuild_call(plan, this, nullptr, iterators, nullptr, strict_zip);
}

Outcome MapIterator::next(Tracer& tracer) {
    return tracer.start(next_mapped(tracer, this));
}

int MapIterator::rebuild(PlanBuilder& plan) {
    return rebuild_call(plan, this, function, iterators);
}

Outcome FilterIterator::next(Tracer& tracer) {
    return tracer.start(next_filtered(tracer, this));
}

int FilterIterator::rebuild(PlanBuilder& plan) {
    return rebuild_call(plan, this, function, {iterator});
}

}  // namespace stator
