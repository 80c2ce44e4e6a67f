#include "value/kinds/random_generator.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "effect/plan.h"
#include "value/effect_log.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/tracer.h"

namespace stator {

PyTypeObject* random_generator_class() {
    static PyTypeObject* const type = imported_class("random", "Random");
    return type;
}

Ref<> state_of_generator(Borrowed<> generator) {
    // Not the method of the instance: attributes of generators are those of the program.
    static PyObject* const method = method_of_class(random_generator_class(), "getstate");
    return checked(PyObject_CallOneArg(method, generator));
}

namespace {

PyObject* set_state_method() {
    static PyObject* const method = method_of_class(random_generator_class(), "setstate");
    return method;
}

}  // namespace

void set_state_of_generator(Borrowed<> generator, Borrowed<> state) {
    PyObject* arguments[] = {generator, state};
    checked(PyObject_Vectorcall(set_state_method(), arguments, 2, nullptr));
}

Ref<> call_on_generator(Borrowed<> method, Borrowed<> generator, Borrowed<> arguments, PyObject* keywords) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments.get());
    Ref<> all = checked(PyTuple_New(count + 1));
    PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(generator.get()));
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(arguments.get(), i)));
    return Ref<>::steal(PyObject_Call(method, all.get(), keywords));
}

RandomGeneratorValue::RandomGeneratorValue() : ObjectValue(random_generator_class()) {}

RandomGeneratorValue* as_random_generator(Value* value) {
    auto* object = cast<ObjectValue>(value);
    return object != nullptr && object->class_ == random_generator_class() ? static_cast<RandomGeneratorValue*>(object)
                                                                           : nullptr;
}

Value* RandomGeneratorValue::draw(Tracer& tracer, Borrowed<> method, Borrowed<> arguments, PyObject* keywords) {
    PyObject* before = tracer.keep(state_of_generator(shadow));
    tracer.on_undo([this, before] { set_state_of_generator(shadow, before); });
    Ref<> drawn = call_on_generator(method, shadow, arguments, keywords);
    if (!drawn) tracer.raise_from_python();
    return tracer.fresh(std::move(drawn));
}

Value* RandomGeneratorValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    // Methods set it.
    if (name.get() == interned("gauss_next"))
        tracer.break_graph(BreakKind::UnknownObject, "attribute gauss_next of a random.Random is read");
    return ObjectValue::own_attribute(tracer, name);
}

namespace {

/// The state of a generator where the trace ends.
struct LastState final : Value {
    explicit LastState(const RandomGeneratorValue* generator) : Value(Kind::Null), generator(generator) {}
    const RandomGeneratorValue* generator;

    PyTypeObject* type() const override { return &PyTuple_Type; }
    int rebuild(PlanBuilder& plan) override { return plan.constant(state_of_generator(generator->shadow).get()); }
    std::string print() const override { return "the state of " + generator->print(); }
};

}  // namespace

void RandomGeneratorValue::set_shadow(Tracer& tracer, Ref<> generator) {
    const bool is_first = shadow == nullptr;
    set_undoably(tracer, shadow, tracer.keep(std::move(generator)));
    if (source == nullptr || !is_first) return;
    tracer.effects().log({PlanOp::Call, {this, tracer.make<LastState>(this)}, set_state_method()});
}

int RandomGeneratorValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return ObjectValue::rebuild(plan);
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {}, reinterpret_cast<PyObject*>(class_));
    plan.add(PlanOp::Call, {to, plan.constant(state_of_generator(shadow).get())}, set_state_method());
    rebuild_attributes(plan, to, this);
    return to;
}

}  // namespace stator
