/// `with`, `try`, `raise`, `match`.
#include <algorithm>

#include "base/names.h"
#include "cpython/objects.h"
#include "trace/handlers/handlers.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"

namespace stator::handlers {

using bytecode::Instruction;

// --- with -----------------------------------------------------------------------------------------------------------

namespace {

/// A special method bound to the manager, looked up on its class.
Value* bound_special(Interpreter& t, Value* manager, const char* name) {
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(t, manager->type(), interned(name), &raw);
    if (raw == nullptr) {
        const std::string_view method = name;
        t.raise(PyExc_TypeError,
                "'" + std::string(manager->type()->tp_name) + "' object does not support the " +
                    (method.starts_with("__a") ? "asynchronous " : "") + "context manager protocol" +
                    (method.ends_with("exit__") ? " (missed " + std::string(method) + " method)" : ""));
    }
    Outcome bound = bind_attribute(t, attribute, raw, manager, manager->type(), interned(name));
    if (bound.is_pending())
        t.break_graph(BreakKind::UnknownObject, "__enter__ or __exit__ of a context manager is a descriptor");
    return bound.value();
}

void push_exit_and_result(Interpreter&, BytecodeFrame& frame, const Instruction&, Value* result) {
    frame.push(frame.held);
    frame.push(result);
    next(frame);
}

}  // namespace

void BeforeWith(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* manager = frame.top();
    t.realize(manager);
    Value* enter = bound_special(t, manager, "__enter__");
    frame.held = bound_special(t, manager, "__exit__");
    t.finish(frame, operations::call(t, enter, {}), 1, push_exit_and_result);
}

void BeforeAsyncWith(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* manager = frame.top();
    t.realize(manager);
    Value* enter = bound_special(t, manager, "__aenter__");
    frame.held = bound_special(t, manager, "__aexit__");
    t.finish(frame, operations::call(t, enter, {}), 1, push_exit_and_result);
}

void WithExceptStart(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* exception = frame.top();
    Value* exit = frame.top(3);
    t.realize(exception);
    Value* type = t.constant(reinterpret_cast<PyObject*>(exception->type()));
    t.finish(frame, operations::call(t, exit, Arguments::of(type, exception, traceback_of(t, exception))), 0);
}

// --- try ------------------------------------------------------------------------------------------------------------

void PushExcInfo(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* exception = frame.pop();
    frame.push(t.handled_here());
    frame.push(exception);
    t.set_handled_exception(exception);
    next(frame);
}

void PopExcept(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    Value* previous = frame.pop();
    t.set_handled_exception(previous);
    next(frame);
}

namespace {

bool matches(Interpreter& t, Value* exception, Value* pattern) {
    t.realize(exception);
    t.realize(pattern);
    if (SequenceValue* tuple = as_sequence(pattern); tuple != nullptr) {
        for (Value* item : tuple->all(t))
            if (matches(t, exception, item)) return true;
        return false;
    }
    auto* type = cast<ClassValue>(pattern);
    if (type == nullptr || !PyExceptionClass_Check(type->object()))
        t.raise(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return is_subtype(t, exception->type(), type->held);
}

}  // namespace

void CheckExcMatch(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    bool does = matches(t, frame.top(1), frame.top(0));
    t.finish(frame, t.boolean(does), 1);
}

void CheckEgMatch(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "except* is used");
}

void PrepReraiseStar(Interpreter& t, BytecodeFrame&, const Instruction&) {
    cannot(t, "except* is used");
}

void Reraise(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.realize(frame.top());
    throw Raised{frame.top()};
}

namespace {

Task raise_value(Interpreter& t, Value* value, Value* cause) {
    t.realize(value);
    if (auto* type = cast<ClassValue>(value); type != nullptr && PyExceptionClass_Check(type->object())) {
        value = co_await operations::call(t, type, {});
        t.realize(value);
    }
    if (!PyType_IsSubtype(value->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException)))
        t.raise(PyExc_TypeError, "exceptions must derive from BaseException");
    auto* exception = cast<ExceptionValue>(value);
    if (exception == nullptr)
        t.break_graph(BreakKind::UnknownObject, "an exception object that existed before the call is raised");
    if (cause != nullptr) {
        t.realize(cause);
        if (auto* type = cast<ClassValue>(cause); type != nullptr && PyExceptionClass_Check(type->object())) {
            cause = co_await operations::call(t, type, {});
        } else if (cause->object() != Py_None &&
                   !PyType_IsSubtype(cause->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
            t.raise(PyExc_TypeError, "exception causes must derive from BaseException");
        }
        set_undoably(t, exception->cause, cause->object() == Py_None ? nullptr : cause);
        set_undoably(t, exception->suppress_context, true);
    }
    set_context(t, exception, t.handled_exception());
    throw Raised{exception};
}

}  // namespace

void RaiseVarargs(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    if (instruction.arg == 0) {
        if (t.handled_exception() == nullptr) t.raise(PyExc_RuntimeError, "No active exception to reraise");
        t.realize(t.handled_exception());
        throw Raised{t.handled_exception()};
    }
    bool has_cause = instruction.arg == 2;
    Outcome outcome = t.start(raise_value(t, frame.top(has_cause ? 1 : 0), has_cause ? frame.top() : nullptr));
    t.finish(frame, outcome, 0);
}

// --- match ----------------------------------------------------------------------------------------------------------

void GetLen(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, operations::length(t, frame.top()), 0);
}

void MatchMapping(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.realize(frame.top());
    t.finish(frame, t.boolean((frame.top()->type()->tp_flags & Py_TPFLAGS_MAPPING) != 0), 0);
}

void MatchSequence(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.realize(frame.top());
    t.finish(frame, t.boolean((frame.top()->type()->tp_flags & Py_TPFLAGS_SEQUENCE) != 0), 0);
}

namespace {

Task match_keys(Tracer& tracer, Value* subject, TupleValue* keys) {
    // Python calls `subject.get`, which gives the same for dicts.
    PyObject* get = nullptr;
    class_attribute(tracer, subject->type(), interned("get"), &get);
    if (get != cpython::lookup_in_mro(&PyDict_Type, interned("get")))
        tracer.break_graph(BreakKind::UnknownObject, "a mapping pattern matches a mapping with a user-defined get()");
    std::vector<Value*> found;
    for (std::size_t i = 0; i < keys->items.size(); ++i) {
        Value* key = keys->item(tracer, i);
        Value* has = co_await operations::contains(tracer, subject, key);
        if (has->object() != Py_True) co_return tracer.none();
        Value* value = co_await operations::get_item(tracer, subject, key);
        found.push_back(value);
    }
    co_return stator::make_tuple(tracer, std::move(found));
}

/// Classes whose single positional pattern is the subject itself.
bool matches_itself(PyTypeObject* type) {
    return (type->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
}

Task match_class(Tracer& tracer, Value* subject, Value* pattern, int positional, TupleValue* names) {
    tracer.realize(subject);
    tracer.realize(pattern);
    auto* type = cast<ClassValue>(pattern);
    if (type == nullptr) tracer.raise(PyExc_TypeError, "called match pattern must be a class");
    static PyObject* const isinstance = PyDict_GetItemString(PyEval_GetBuiltins(), "isinstance");
    Value* is_one = co_await operations::call(tracer, tracer.constant(isinstance), Arguments::of(subject, type));
    if (is_one->object() != Py_True) co_return tracer.none();
    std::vector<Value*> found;
    std::vector<PyObject*> attributes;
    if (positional > 0) {
        Value* order = co_await operations::get_attribute_or(tracer, type, interned("__match_args__"), nullptr);
        auto* tuple = order == nullptr ? nullptr : cast<TupleValue>(order);
        bool is_whole = order == nullptr && matches_itself(type->held);
        std::size_t allowed = is_whole ? 1 : tuple == nullptr ? 0 : tuple->items.size();
        if (allowed < static_cast<std::size_t>(positional))
            tracer.break_graph(BreakKind::UnknownObject,
                               "a class pattern has more positional patterns than __match_args__ allows");
        if (is_whole) found.push_back(subject);
        for (std::size_t i = 0; !is_whole && i < static_cast<std::size_t>(positional); ++i)
            attributes.push_back(tuple->item(tracer, i)->object());
    }
    for (std::size_t i = 0; i < names->items.size(); ++i) attributes.push_back(names->item(tracer, i)->object());
    for (std::size_t i = 0; i < attributes.size(); ++i) {
        bool is_new = std::find(attributes.begin(), attributes.begin() + static_cast<std::ptrdiff_t>(i),
                                attributes[i]) == attributes.begin() + static_cast<std::ptrdiff_t>(i);
        if (attributes[i] == nullptr || !PyUnicode_CheckExact(attributes[i]) || !is_new)
            tracer.break_graph(BreakKind::UnknownObject, "a class pattern with a __match_args__ that Python rejects");
        Value* value = co_await operations::get_attribute_or(tracer, subject, attributes[i], nullptr);
        if (value == nullptr) co_return tracer.none();
        found.push_back(value);
    }
    co_return stator::make_tuple(tracer, std::move(found));
}

}  // namespace

void MatchKeys(Interpreter& t, BytecodeFrame& frame, const Instruction&) {
    t.finish(frame, t.start(match_keys(t, frame.top(1), cast<TupleValue>(frame.top(0)))), 0);
}

void MatchClass(Interpreter& t, BytecodeFrame& frame, const Instruction& instruction) {
    t.finish(frame,
             t.start(match_class(t, frame.top(2), frame.top(1), instruction.arg, cast<TupleValue>(frame.top(0)))), 3);
}

}  // namespace stator::handlers
