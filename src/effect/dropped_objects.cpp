#include "base/short_list.h"
#include "cpython/finalizers.h"
#include "cpython/hashed_items.h"
#include "cpython/objects.h"
#include "effect/plan.h"

namespace stator {

namespace {

/// A slot of the class is read through its descriptor, which runs no user code.
Ref<> attribute_of(PyObject* object, PyObject* name) {
    if (PyType_Check(object)) {
        PyObject* dict = cpython::class_dict(reinterpret_cast<PyTypeObject*>(object));
        return Ref<>::share(PyDict_GetItemWithError(dict, name));
    }
    PyObject* raw = cpython::lookup_in_mro(Py_TYPE(object), name);
    if (raw != nullptr && Py_IS_TYPE(raw, &PyMemberDescr_Type)) {
        Ref<> held =
            Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, object, reinterpret_cast<PyObject*>(Py_TYPE(object))));
        if (!held) PyErr_Clear();
        return held;
    }
    return Ref<>::share(cpython::instance_attribute(object, name).get());
}

Ref<> item_of(PyObject* container, PyObject* key) {
    if (PyDict_Check(container)) return Ref<>::share(cpython::item_without_hashing(container, key));
    Py_ssize_t index = PyList_Check(container) && PyLong_Check(key) ? PyLong_AsSsize_t(key) : -1;
    if (index < 0 || index >= PyList_GET_SIZE(container)) return nullptr;
    return Ref<>::share(PyList_GET_ITEM(container, index));
}

/// What is not freed with an object that the program drops: generators that the plan ends, and what the frames hold
/// that it leaves open.
std::vector<PyObject*> kept_objects(const Plan& plan, std::span<PyObject* const> fetched) {
    std::vector<PyObject*> kept;
    auto keep = [&](std::int32_t number) {
        for (const PlanStep& step : plan.steps)
            if (step.op == PlanOp::Fetch && step.to == number)
                kept.push_back(fetched[static_cast<std::size_t>(step.number)]);
    };
    for (const PlanStep& step : plan.steps)
        if (step.op == PlanOp::EndGenerator) keep(step.from[0]);
    for (const PlanFrame& frame : plan.frames) {
        keep(frame.generator);
        for (const PlanFrame::Slot& slot : frame.slots) keep(slot.from);
        for (const std::int32_t value : frame.stack) keep(value);
    }
    return kept;
}

}  // namespace

Ref<> held_at(const DroppedObject& dropped, PyObject* fetched) {
    switch (dropped.place) {
        case DroppedObject::Place::Itself:
        case DroppedObject::Place::Contents:
            return Ref<>::share(fetched);
        case DroppedObject::Place::Attribute:
            return attribute_of(fetched, dropped.key);
        case DroppedObject::Place::Item:
            return item_of(fetched, dropped.key);
        case DroppedObject::Place::Cell:
            return Ref<>::share(cpython::cell_contents(fetched).get());
    }
    return nullptr;
}

bool frees_dropped_without_code(const Plan& plan, std::span<PyObject* const> fetched) {
    if (plan.dropped.empty()) return true;
    ShortList<PyObject*, 8> freed;
    for (const DroppedObject& dropped : plan.dropped) {
        PyObject* object = fetched[static_cast<std::size_t>(dropped.fetched)];
        Ref<> found;
        if (dropped.place != DroppedObject::Place::Itself && dropped.place != DroppedObject::Place::Contents) {
            found = held_at(dropped, object);
            object = found.get();
        }
        if (object == nullptr || cpython::is_always_freed_without_code(Py_TYPE(object))) continue;
        const Py_ssize_t holders = Py_REFCNT(object) - (found ? 1 : 0);
        // If there are more references than the plan can drop, the object has another owner, and so do its contents.
        bool stays =
            dropped.place != DroppedObject::Place::Contents && holders > static_cast<Py_ssize_t>(plan.dropped.size());
        if (!stays)
            freed.push_back(object);
        else if (cpython::has_finalizer(object))
            return false;
    }
    // Two containers may hold an object that nothing else references.
    return freed.empty() || cpython::are_freed_without_code(freed) ||
           cpython::are_freed_without_code(freed, kept_objects(plan, fetched));
}

}  // namespace stator
