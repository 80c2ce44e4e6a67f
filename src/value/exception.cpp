#include "value/exception.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/attributes.h"
#include "value/class.h"
#include "value/sequence.h"
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
    return exception;
}

namespace {

struct TracebackValue final : Value {
    TracebackValue() : Value(Kind::Context) {}
    PyTypeObject* type() const override { return &PyTraceBack_Type; }
    Outcome get_attribute(Tracer& tracer, Borrowed<>) override {
        tracer.break_graph(BreakKind::UnknownObject, "the traceback of an exception is read");
    }
    std::string print() const override { return "traceback"; }
};

}  // namespace

Value* traceback_of(Tracer& tracer, Value*) {
    return tracer.make<TracebackValue>();
}

Outcome ExceptionValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("args")) return make_tuple(tracer, arguments);
    if (name.get() == interned("__cause__")) return cause == nullptr ? tracer.none() : cause;
    if (name.get() == interned("__context__")) return context == nullptr ? tracer.none() : context;
    if (name.get() == interned("__suppress_context__")) return tracer.boolean(suppress_context);
    if (name.get() == interned("__traceback__")) return traceback_of(tracer, this);
    if (name.get() == interned("value") && PyType_IsSubtype(class_, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)))
        return arguments.empty() ? tracer.none() : arguments[0];
    if (real != nullptr && own_attribute(tracer, name) == nullptr) {
        Ref<> answer = Ref<>::steal(PyObject_GetAttr(real, name));
        if (answer && !PyCallable_Check(answer.get())) return tracer.fresh(std::move(answer));
        PyErr_Clear();
    }
    return ObjectValue::get_attribute(tracer, name);
}

int ExceptionValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return ObjectValue::rebuild(plan);
    if (real != nullptr && attributes.empty()) return plan.constant(real);
    int to = plan.reserve(this);
    std::vector<std::int32_t> parts;
    for (Value* argument : arguments) parts.push_back(argument->rebuild(plan));
    plan.add_to(to, PlanOp::NewObject, std::move(parts), reinterpret_cast<PyObject*>(class_));
    for (auto& [name, value] : attributes)
        if (value != nullptr) plan.add(PlanOp::SetAttribute, {to, value->rebuild(plan)}, name);
    return to;
}

std::string ExceptionValue::print() const {
    return type_name(class_) + "(" + joined(arguments, [](const Value* argument) { return argument->print(); }) + ")";
}

}  // namespace stator
