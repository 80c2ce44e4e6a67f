#include "value/kinds/exception.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "cpython/tracebacks.h"
#include "effect/plan.h"
#include "value/effect_log.h"
#include "value/kinds/class.h"
#include "value/kinds/made_class.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/text.h"
#include "value/tracer.h"

namespace stator {

ExceptionValue* make_exception(Tracer& tracer, PyTypeObject* type, std::vector<Value*> arguments) {
    auto* exception = tracer.make<ExceptionValue>(type);
    exception->arguments = std::move(arguments);
    return exception;
}

ExceptionValue* make_exception(Tracer& tracer, PyObject* real) {
    auto* exception = tracer.make<ExceptionValue>(Py_TYPE(real));
    exception->real = tracer.keep(Ref<>::share(real));
    Ref<> args = checked(PyObject_GetAttrString(real, "args"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i)
        exception->arguments.push_back(tracer.fresh(Ref<>::share(PyTuple_GET_ITEM(args.get(), i))));
    PyObject *name = nullptr, *held = nullptr;
    PyObject* attributes = cpython::instance_dict(real);
    for (Py_ssize_t position = 0; attributes != nullptr && PyDict_Next(attributes, &position, &name, &held) != 0;)
        exception->attributes.emplace_back(tracer.keep(Ref<>::share(name)), tracer.fresh(Ref<>::share(held)));
    return exception;
}

// --- making
// ------------------------------------------------------------------------------------------------------------

namespace {

PyTypeObject* exception_class(PyObject* type) {
    return reinterpret_cast<PyTypeObject*>(type);
}

/// The C class that an exception class derives from.
PyTypeObject* c_class_of(PyTypeObject* type) {
    while ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) type = type->tp_base;
    return type;
}

bool is_a(PyTypeObject* type, PyObject* of) {
    return PyType_IsSubtype(type, exception_class(of)) != 0;
}

/// Whether the C class stores nothing but `args`.
bool keeps_only_arguments(PyTypeObject* c_class) {
    auto* base = exception_class(PyExc_BaseException);
    return c_class->tp_new == base->tp_new && c_class->tp_init == base->tp_init;
}

/// The arguments as real objects: a tuple and a dict, which may be null. False if an argument is not a constant.
bool real_arguments(Tracer& tracer, const Arguments& arguments, Ref<>& positional, Ref<>& named) {
    positional = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        tracer.realize(arguments.positional[i]);
        Ref<> known = arguments.positional[i]->as_constant(tracer);
        if (!known) return false;
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), known.release());
    }
    if (!arguments.keywords.empty()) named = checked(PyDict_New());
    for (const Keyword& keyword : arguments.keywords) {
        tracer.realize(keyword.value);
        Ref<> known = keyword.value->as_constant(tracer);
        if (!known) return false;
        checked(PyDict_SetItem(named.get(), keyword.name, known.get()));
    }
    return true;
}

}  // namespace

ExceptionValue* new_exception(Tracer& tracer, PyTypeObject* type, const Arguments& arguments, bool has_own_init) {
    PyTypeObject* c_class = c_class_of(type);
    if (is_a(c_class, PyExc_BaseExceptionGroup))
        tracer.break_graph(BreakKind::UnknownObject, "an exception group is created");
    if (has_own_init && c_class->tp_new != exception_class(PyExc_BaseException)->tp_new)
        tracer.break_graph(BreakKind::UnknownObject,
                           "an exception of class " + type_name(type) + " with a user-defined __init__ is created");
    ExceptionValue* exception = make_exception(tracer, type, arguments.positional);
    if (!has_own_init) initialise_exception(tracer, exception, arguments);
    return exception;
}

void initialise_exception(Tracer& tracer, ExceptionValue* exception, const Arguments& arguments) {
    PyTypeObject* c_class = c_class_of(exception->class_);
    if (keeps_only_arguments(c_class)) {
        if (!arguments.keywords.empty())
            tracer.raise(PyExc_TypeError,
                         std::string(utf8(PyType_GetName(exception->class_))) + "() takes no keyword arguments");
        exception->arguments = arguments.positional;
        return;
    }
    Ref<> positional, named;
    if (!real_arguments(tracer, arguments, positional, named)) {
        // StopIteration's `value` is its first argument. Other C classes would store arguments that are not constants.
        if (!is_a(c_class, PyExc_StopIteration) || !arguments.keywords.empty())
            tracer.break_graph(BreakKind::UnknownObject, "an exception of class " + type_name(c_class) +
                                                             " is created with arguments that are not constants");
        exception->arguments = arguments.positional;
        return;
    }
    Ref<> real = Ref<>::steal(c_class->tp_new(c_class, positional.get(), named.get()));
    if (!real) tracer.raise_from_python();
    if (c_class->tp_init(real.get(), positional.get(), named.get()) < 0) tracer.raise_from_python();
    // OSError(2, ...) returns a FileNotFoundError.
    if (exception->class_ == c_class) exception->class_ = Py_TYPE(real.get());
    Ref<> args = checked(PyObject_GetAttrString(real.get(), "args"));
    exception->arguments.clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i)
        exception->arguments.push_back(tracer.fresh(Ref<>::share(PyTuple_GET_ITEM(args.get(), i))));
    exception->real = tracer.keep(std::move(real));
    exception->made_of = arguments;
}

// --- text
// --------------------------------------------------------------------------------------------------------------

namespace {

Task text_of_arguments(Tracer& tracer, ExceptionValue* exception) {
    if (exception->arguments.empty()) co_return tracer.string("");
    if (exception->arguments.size() > 1) co_return co_await repr_of(tracer, make_tuple(tracer, exception->arguments));
    if (is_a(exception->class_, PyExc_KeyError)) co_return co_await repr_of(tracer, exception->arguments[0]);
    co_return co_await str_of(tracer, exception->arguments[0]);
}

Task repr_of_exception(Tracer& tracer, ExceptionValue* exception) {
    std::string name(utf8(Ref<>::steal(PyType_GetName(exception->class_)).get()));
    std::size_t dot = name.rfind('.');
    if (dot != std::string::npos) name = name.substr(dot + 1);
    if (exception->arguments.size() == 1) {
        Value* text = co_await repr_of(tracer, exception->arguments[0]);
        co_return tracer.string(name + "(" + std::string(utf8(text->object())) + ")");
    }
    Value* text = co_await repr_of(tracer, make_tuple(tracer, exception->arguments));
    co_return tracer.string(name + std::string(utf8(text->object())));
}

}  // namespace

Outcome exception_str(Tracer& tracer, ExceptionValue* exception) {
    if (exception->real != nullptr) {
        Ref<> text = Ref<>::steal(PyObject_Str(exception->real));
        if (!text) tracer.raise_from_python();
        return tracer.fresh(std::move(text));
    }
    return tracer.start(text_of_arguments(tracer, exception));
}

Outcome exception_repr(Tracer& tracer, ExceptionValue* exception) {
    return tracer.start(repr_of_exception(tracer, exception));
}

Outcome TracebackValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("tb_next")) return next_entry == nullptr ? tracer.none() : next_entry;
    if (name.get() == interned("tb_lineno")) return tracer.integer(cpython::line_at(frame->code, at));
    if (name.get() == interned("tb_lasti")) return tracer.integer(at.value);
    tracer.break_graph(BreakKind::UnknownObject, "the frames of a traceback are read");
}

bool TracebackValue::set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (name.get() != interned("tb_next") || value == nullptr) return false;
    tracer.realize(value);
    const bool is_entry = value->type() == &PyTraceBack_Type && value->source == nullptr;
    if (!is_entry && value->object() != Py_None) return false;
    auto* next = is_entry ? static_cast<TracebackValue*>(value) : nullptr;
    for (const TracebackValue* entry = next; entry != nullptr; entry = entry->next_entry)
        if (entry == this) tracer.raise(PyExc_ValueError, "traceback loop detected");
    set_undoably(tracer, next_entry, next);
    return true;
}

int TracebackValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    int rest = next_entry == nullptr ? -1 : next_entry->rebuild(plan);
    int of = plan.known(frame);
    if (of < 0) {
        of = plan.reserve(frame);
        plan.add_to(of, frame->is_entered ? PlanOp::EnteredFrame : PlanOp::Frame, {plan.constant(frame->globals)},
                    reinterpret_cast<PyObject*>(frame->code), frame->at.value);
    }
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Traceback, {of, rest}, nullptr, at.value);
    return to;
}

Value* traceback_of(Tracer& tracer, Value* value) {
    auto* exception = cast<ExceptionValue>(value);
    if (exception == nullptr || exception->source != nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "the traceback of an exception that existed before the call is read");
    return exception->traceback == nullptr ? tracer.none() : exception->traceback;
}

void add_to_traceback(Tracer& tracer, ExceptionValue* exception, TracedFrame* frame, cpython::Offset at) {
    set_undoably(tracer, frame->at, at);
    set_undoably(tracer, exception->traceback, tracer.make<TracebackValue>(frame, at, exception->traceback));
}

void set_context(Tracer& tracer, ExceptionValue* exception, Value* handled) {
    if (handled == nullptr || handled == exception) return;
    // The program may have created a cycle of contexts: then `slow` is met again.
    auto next = [](ExceptionValue* link) { return link == nullptr ? nullptr : cast<ExceptionValue>(link->context); };
    auto* slow = cast<ExceptionValue>(handled);
    bool slow_moves = false;
    for (auto* link = slow; link != nullptr; link = next(link)) {
        if (link->context == exception) {
            set_undoably(tracer, link->context, nullptr);
            break;
        }
        if (slow_moves) slow = next(slow);
        slow_moves = !slow_moves;
        if (next(link) == slow) break;
    }
    set_undoably(tracer, exception->context, handled);
}

Outcome ExceptionValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("args")) return make_tuple(tracer, arguments);
    if (name.get() == interned("__cause__")) return cause == nullptr ? tracer.none() : cause;
    if (name.get() == interned("__context__")) return context == nullptr ? tracer.none() : context;
    if (name.get() == interned("__suppress_context__")) return tracer.boolean(suppress_context);
    if (name.get() == interned("__traceback__")) return traceback_of(tracer, this);
    if (name.get() == interned("value") &&
        PyType_IsSubtype(class_, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
        return arguments.empty() ? tracer.none() : arguments[0];
    PyObject* raw = cpython::lookup_in_mro(class_, name, nullptr);
    bool kept_by_c = raw != nullptr && (Py_TYPE(raw) == &PyMemberDescr_Type || Py_TYPE(raw) == &PyGetSetDescr_Type) &&
                     (reinterpret_cast<PyDescrObject*>(raw)->d_type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 &&
                     name.get() != interned("__dict__") && name.get() != interned("__class__");
    if (kept_by_c && own_attribute(tracer, name) == nullptr) {
        if (real == nullptr)
            tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) +
                                                             "' of an exception of class " + type_name(class_) +
                                                             " is read");
        Ref<> answer = Ref<>::steal(PyObject_GetAttr(real, name));
        if (!answer) tracer.raise_from_python();
        return tracer.fresh(std::move(answer));
    }
    return ObjectValue::get_attribute(tracer, name);
}

bool ExceptionValue::set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    tracer.effects().expect_made_in_trace(this);
    if (value == nullptr) tracer.break_graph(BreakKind::UnknownObject, "an attribute of an exception is deleted");
    tracer.realize(value);
    if (name.get() == interned("__cause__") || name.get() == interned("__context__")) {
        bool is_cause = name.get() == interned("__cause__");
        if (value->object() != Py_None && value->kind != Kind::Exception)
            tracer.raise(PyExc_TypeError, std::string("exception ") + (is_cause ? "cause" : "context") +
                                              " must be None or derive from BaseException");
        set_undoably(tracer, is_cause ? cause : context, value->object() == Py_None ? nullptr : value);
        if (is_cause) set_undoably(tracer, suppress_context, true);
        return true;
    }
    if (name.get() == interned("__suppress_context__")) {
        set_undoably(tracer, suppress_context, value->object() == Py_True);
        return true;
    }
    if (name.get() == interned("args")) {
        if (real != nullptr || as_sequence(value) == nullptr)
            tracer.break_graph(BreakKind::UnknownObject,
                               "args of an exception of class " + type_name(class_) + " is set");
        set_undoably(tracer, arguments, as_sequence(value)->all(tracer));
        return true;
    }
    if (name.get() == interned("__traceback__")) {
        bool is_ours = value->type() == &PyTraceBack_Type && value->source == nullptr;
        if (!is_ours && value->object() != Py_None)
            tracer.break_graph(BreakKind::UnknownObject, "the traceback of an exception is set");
        set_undoably(tracer, traceback, is_ours ? static_cast<TracebackValue*>(value) : nullptr);
        return true;
    }
    return ObjectValue::set_kept_attribute(tracer, name, value);
}

namespace {

/// The arguments with which the C class creates an exception in the same state.
Arguments making_of(const ExceptionValue* exception) {
    if (exception->made_of.count() > 0) return exception->made_of;
    return {exception->arguments, {}};
}

/// Sets attributes other than `args` that C code stored in an exception that it raised.
void rebuild_kept(PlanBuilder& plan, int to, PyObject* real) {
    for (const char* name : {"name", "path", "filename", "filename2"}) {
        Ref<> kept = Ref<>::steal(PyObject_GetAttrString(real, name));
        if (!kept) PyErr_Clear();
        if (!kept || !PyUnicode_Check(kept.get())) continue;
        plan.add(PlanOp::SetAttribute, {to, plan.constant(kept)}, interned(name));
    }
}

}  // namespace

int ExceptionValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return ObjectValue::rebuild(plan);
    PyTypeObject* c_class = c_class_of(class_);
    Arguments making = making_of(this);
    std::vector<std::int32_t> positional, pairs;
    for (Value* argument : making.positional) positional.push_back(argument->rebuild(plan));
    for (const Keyword& keyword : making.keywords) {
        pairs.push_back(plan.constant(keyword.name));
        pairs.push_back(keyword.value->rebuild(plan));
    }
    if (const MadeClass* made = MadeClass::find(class_)) made->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    add_new_object(plan, to, class_, positional);
    if (!keeps_only_arguments(c_class)) {
        positional.insert(positional.begin(), to);
        positional.push_back(plan.add(PlanOp::Dict, std::move(pairs)));
        plan.add(PlanOp::CallNamed, std::move(positional), method_of_class(c_class, "__init__"));
        if (real != nullptr && made_of.count() == 0) rebuild_kept(plan, to, real);
    }
    if (cause != nullptr) plan.add(PlanOp::SetAttribute, {to, cause->rebuild(plan)}, interned("__cause__"));
    if (context != nullptr) plan.add(PlanOp::SetAttribute, {to, context->rebuild(plan)}, interned("__context__"));
    if (cause != nullptr || suppress_context)
        plan.add(PlanOp::SetAttribute, {to, plan.constant(suppress_context ? Py_True : Py_False)},
                 interned("__suppress_context__"));
    if (traceback != nullptr) plan.add(PlanOp::SetAttribute, {to, traceback->rebuild(plan)}, interned("__traceback__"));
    rebuild_attributes(plan, to, this);
    return to;
}

std::string ExceptionValue::print() const {
    return type_name(class_) + "(" + joined(arguments, [](const Value* argument) { return argument->print(); }) + ")";
}

}  // namespace stator
