/// Locks of `threading`: taken and given back as effects, in the order of what is changed between.
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "value/object.h"
#include "value/registry.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* lock_class(const char* factory) {
    Ref<> module = checked(PyImport_ImportModule("_thread"));
    Ref<> lock = checked(PyObject_CallMethod(module.get(), factory, nullptr));
    return Py_TYPE(lock.release());
}

PyObject* method(const Value* lock, const char* name) {
    return cpython::lookup_in_mro(lock->type(), interned(name), nullptr);
}

/// How often the program holds a lock since the trace began.
std::ptrdiff_t times_held(const Tracer& tracer, const Value* lock) {
    return tracer.recorded_calls(lock, method(lock, "acquire")) - tracer.recorded_calls(lock, method(lock, "release"));
}

Value* lock_from_outside(Tracer& tracer, const Arguments& arguments) {
    Value* self = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (self == nullptr || self->source == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "a lock that is new is used");
    tracer.realize(self);
    return self;
}

template <bool kIsReentrant>
Outcome acquire(Tracer& tracer, const Arguments& arguments) {
    Value* self = lock_from_outside(tracer, arguments);
    if (arguments.count() != 1)
        tracer.break_graph(BreakKind::UnknownFunction, "a lock is asked for, but may not be waited for");
    if (!kIsReentrant && times_held(tracer, self) > 0)
        tracer.break_graph(BreakKind::UnknownFunction, "a lock is taken twice");
    tracer.record({PlanOp::Call, {self}, method(self, "acquire")});
    return tracer.boolean(true);
}

/// Also as `__exit__`, whatever that is told.
Outcome release(Tracer& tracer, const Arguments& arguments) {
    Value* self = lock_from_outside(tracer, arguments);
    if (times_held(tracer, self) <= 0)
        tracer.break_graph(BreakKind::UnknownFunction, "a lock is given back that was not taken here");
    tracer.record({PlanOp::Call, {self}, method(self, "release")});
    return tracer.none();
}

}  // namespace

void register_locks(Handlers& handlers) {
    PyTypeObject *plain = lock_class("allocate_lock"), *reentrant = lock_class("RLock");
    for (const char* name : {"acquire", "__enter__"}) {
        handlers.add_method(plain, name, acquire<false>);
        handlers.add_method(reentrant, name, acquire<true>);
    }
    for (const char* name : {"release", "__exit__"}) {
        handlers.add_method(plain, name, release);
        handlers.add_method(reentrant, name, release);
    }
}

}  // namespace stator
