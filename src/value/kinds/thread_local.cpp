#include "value/kinds/thread_local.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "source/query.h"
#include "value/effect_log.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/tracer.h"

namespace stator {

PyTypeObject* thread_local_class() {
    static PyTypeObject* const type = imported_class("_thread", "_local");
    return type;
}

namespace {

using Attributes = std::vector<std::pair<PyObject*, Value*>>;

/// What the trace knows of an attribute: that it was read or set; null in it if there is none.
const std::pair<PyObject*, Value*>* known(const Attributes& attributes, Borrowed<> name) {
    for (const auto& attribute : attributes)
        if (attribute.first == name.get()) return &attribute;
    return nullptr;
}

void remember(Tracer& tracer, Attributes& attributes, Borrowed<> name, Value* value) {
    Attributes changed = attributes;
    std::erase_if(changed, [&](const auto& attribute) { return attribute.first == name.get(); });
    changed.emplace_back(tracer.keep(Ref<>::share(name)), value);
    set_undoably(tracer, attributes, std::move(changed));
}

}  // namespace

Value* ThreadLocalValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    tracer.realize(this);
    if (const auto* attribute = known(attributes, name)) return attribute->second;
    static PyObject* const attrgetter = imported("operator", "attrgetter");
    tracer.guard({GuardKind::Identity, source, outside});
    Ref<> getter = checked(PyObject_CallOneArg(attrgetter, name.get()));
    Answer answer = ask(tracer.provenance(), getter.get(), outside);
    if (!answer.object) tracer.guard({GuardKind::Absent, answer.source});
    Value* value = answer.object ? tracer.outside(answer.source, answer.object.get()) : nullptr;
    remember(tracer, attributes, name, value);
    return value;
}

Outcome ThreadLocalValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    PyObject* raw = cpython::lookup_in_mro(class_, name, nullptr);
    if (raw != nullptr && name.get() != interned("__class__"))
        tracer.break_graph(BreakKind::UnknownObject,
                           "attribute '" + std::string(utf8(name)) + "' of a threading.local is read");
    if (raw != nullptr) return tracer.constant(reinterpret_cast<PyObject*>(class_));
    if (Value* value = own_attribute(tracer, name)) return value;
    raise_no_attribute(tracer, this, name);
}

void ThreadLocalValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    static PyObject* const setter = PyDict_GetItemString(cpython::class_dict(thread_local_class()), "__setattr__");
    if (cpython::lookup_in_mro(class_, name, nullptr) != nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "attribute '" + std::string(utf8(name)) + "' of a threading.local is set");
    tracer.realize(this);
    tracer.guard({GuardKind::Identity, source, outside});
    tracer.effects().log({PlanOp::Call, {this, tracer.constant(name), value}, setter});
    remember(tracer, attributes, name, value);
}

bool ThreadLocalValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    static PyObject* const deleter = PyDict_GetItemString(cpython::class_dict(thread_local_class()), "__delattr__");
    if (own_attribute(tracer, name) == nullptr) return false;
    tracer.effects().log({PlanOp::Call, {this, tracer.constant(name)}, deleter});
    remember(tracer, attributes, name, nullptr);
    return true;
}

}  // namespace stator
