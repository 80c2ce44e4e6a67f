/// Locks of `threading`. One that the trace has made is known to no other thread. One from outside breaks the graph
/// where it is taken, because what the program reads while it holds the lock may change until then. The lock of module
/// `logging` is not taken where it would protect nothing but a cache.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/builtins/registry.h"
#include "value/kinds/function.h"
#include "value/kinds/object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* lock_class() {
    static PyTypeObject* const type =
        Py_TYPE(checked(PyObject_CallNoArgs(imported("_thread", "allocate_lock"))).release());
    return type;
}

PyTypeObject* reentrant_class() {
    static PyTypeObject* const type = imported_class("_thread", "RLock");
    return type;
}

/// A lock that the trace has made.
struct LockValue final : ObjectValue {
    explicit LockValue(PyTypeObject* type) : ObjectValue(type) {}

    int held = 0;  // how many times it was acquired and not released

    bool is_reentrant() const { return class_ == reentrant_class(); }

    int rebuild(PlanBuilder& plan) override {
        if (int known = plan.known(this); known >= 0) return known;
        static PyObject* const allocate = imported("_thread", "allocate_lock");
        int to = plan.add(PlanOp::Call, {}, is_reentrant() ? reinterpret_cast<PyObject*>(class_) : allocate);
        plan.remember(this, to);
        PyObject* const acquire = method_of_class(class_, "acquire");
        for (int i = 0; i < held; ++i) plan.add(PlanOp::Call, {to}, acquire);
        return to;
    }
};

Outcome make_lock(Tracer& tracer, const Arguments& arguments) {
    bind_builtin(tracer, "allocate_lock", arguments, {}, 0, 0);
    return tracer.make<LockValue>(lock_class());
}

Outcome make_reentrant_lock(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 0) tracer.break_graph(BreakKind::UnknownFunction, "RLock is called with arguments");
    return tracer.make<LockValue>(reentrant_class());
}

LockValue* lock_of(Tracer& tracer, const Arguments& arguments) {
    auto* lock = arguments.positional.empty() ? nullptr : dynamic_cast<LockValue*>(arguments.positional[0]);
    if (lock != nullptr) return lock;
    tracer.break_graph(BreakKind::UnknownObject,
                       "a lock that existed before the call is used: what it protects may change until it is acquired");
}

Outcome acquire(Tracer& tracer, const Arguments& arguments) {
    LockValue* lock = lock_of(tracer, arguments);
    auto bound = bind_builtin(tracer, "acquire", arguments, {"self", "blocking", "timeout"}, 1, 1);
    if (bound[2] != nullptr) tracer.break_graph(BreakKind::UnknownFunction, "a lock is acquired with a timeout");
    if (lock->held == 0 || lock->is_reentrant()) {
        set_undoably(tracer, lock->held, lock->held + 1);
        return tracer.boolean(true);
    }
    if (bound[1] != nullptr) tracer.realize(bound[1]);
    if (bound[1] != nullptr && bound[1]->object() == Py_False) return tracer.boolean(false);
    tracer.break_graph(BreakKind::UnknownFunction, "a lock is acquired that this thread holds");
}

Outcome release(Tracer& tracer, const Arguments& arguments) {
    LockValue* lock = lock_of(tracer, arguments);
    if (lock->held == 0)
        tracer.raise(PyExc_RuntimeError,
                     lock->is_reentrant() ? "cannot release un-acquired lock" : "release unlocked lock");
    set_undoably(tracer, lock->held, lock->held - 1);
    return tracer.none();
}

/// `Logger.isEnabledFor(level)`: a logger remembers its answers, and takes the lock for the first one. That is given
/// now, and read with guards.
Outcome is_enabled_for(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("logging", "Logger.isEnabledFor");
    static PyTypeObject* const logger_class = imported_class("logging", "Logger");
    static PyTypeObject* const root_class = imported_class("logging", "RootLogger");
    PyObject* const logger = arguments.positional.size() == 2 ? arguments.positional[0]->object() : nullptr;
    if (logger != nullptr && (Py_IS_TYPE(logger, logger_class) || Py_IS_TYPE(logger, root_class))) {
        Ref<> level = arguments.positional[1]->as_constant(tracer);
        if (level && PyLong_CheckExact(level.get()))
            checked(PyObject_CallFunctionObjArgs(function, logger, level.get(), nullptr));
    }
    Value* inlined = tracer.outside(tracer.provenance().pinned(function), function);
    return tracer.push_call(static_cast<FunctionValue*>(inlined), arguments);
}

Outcome is_locked(Tracer& tracer, const Arguments& arguments) {
    return tracer.boolean(lock_of(tracer, arguments)->held > 0);
}

}  // namespace

void register_locks(Handlers& handlers) {
    handlers.add("_thread", "allocate_lock", make_lock);
    handlers.add("_thread", "RLock", make_reentrant_lock);
    handlers.add(reinterpret_cast<PyObject*>(lock_class()), make_lock);
    for (PyTypeObject* type : {lock_class(), reentrant_class()}) {
        for (const char* name : {"acquire", "__enter__"}) handlers.add_method(type, name, acquire);
        for (const char* name : {"release", "__exit__"}) handlers.add_method(type, name, release);
    }
    handlers.add_method(lock_class(), "locked", is_locked);
    handlers.add("logging", "Logger.isEnabledFor", is_enabled_for);
}

}  // namespace stator
