/// Plans as Python objects, for tests and measurements. One object is the builder until `finish`, then the plan.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "base/boundary.h"
#include "base/check.h"
#include "base/text.h"
#include "effect/plan.h"
#include "effect/plan_registers.h"

namespace stator {

namespace {

constexpr std::string_view kOpNames[] = {
#define PLAN_OP(name) #name,
#include "effect/plan_ops.def"
#undef PLAN_OP
};

PlanOp op_named(PyObject* name) {
    auto* found = std::ranges::find(kOpNames, utf8(name));
    STATOR_CHECK(found != std::end(kOpNames), "unknown operation " + short_repr(name));
    return static_cast<PlanOp>(found - kOpNames);
}

struct Work {
    Arena arena;
    Provenance provenance{arena};
    std::optional<PlanBuilder> builder{std::in_place};
    Plan plan;

    PlanBuilder& building() {
        STATOR_CHECK(builder, "the plan is finished");
        return *builder;
    }
};

struct PlanObject {
    PyObject_HEAD Work* work;
};

Work& work_of(PyObject* self) {
    return *reinterpret_cast<PlanObject*>(self)->work;
}

PyObject* plan_new(PyTypeObject* type, PyObject*, PyObject*) {
    return at_boundary([&] {
        auto work = std::make_unique<Work>();
        PyObject* self = checked(type->tp_alloc(type, 0)).release();
        reinterpret_cast<PlanObject*>(self)->work = work.release();
        return self;
    });
}

void plan_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<PlanObject*>(self)->work;
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* plan_constant(PyObject* self, PyObject* object) {
    return at_boundary([&] { return PyLong_FromLong(work_of(self).building().constant(object)); });
}

PyObject* plan_output(PyObject* self, PyObject* node) {
    return at_boundary([&] { return PyLong_FromLong(work_of(self).building().output(node)); });
}

PyObject* plan_fetch(PyObject* self, PyObject* slot) {
    return at_boundary([&] {
        Source* source = work_of(self).provenance.slot(static_cast<int>(PyLong_AsLong(slot)), nullptr, nullptr);
        return PyLong_FromLong(work_of(self).building().fetch(source));
    });
}

PyObject* plan_known(PyObject* self, PyObject* value) {
    return at_boundary([&] { return PyLong_FromLong(work_of(self).building().known(value)); });
}

PyObject* plan_reserve(PyObject* self, PyObject* value) {
    return at_boundary([&] { return PyLong_FromLong(work_of(self).building().reserve(value)); });
}

/// add(operation, registers, object or NotImplemented, register to fill or -1 for a new one, number) -> register filled
PyObject* plan_add(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        PyObject *name, *list, *object = Py_NotImplemented;
        int to = -1, number = 0;
        if (!PyArg_ParseTuple(args, "OO!|Oii", &name, &PyList_Type, &list, &object, &to, &number)) throw PythonError();
        std::vector<std::int32_t> from;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
            from.push_back(static_cast<std::int32_t>(PyLong_AsLong(PyList_GET_ITEM(list, i))));
        Borrowed<> given = object == Py_NotImplemented ? nullptr : object;
        if (to < 0)
            to = work_of(self).building().add(op_named(name), from, given, number);
        else
            work_of(self).building().add_to(to, op_named(name), from, given, number);
        return PyLong_FromLong(to);
    });
}

PyObject* plan_finish(PyObject* self, PyObject*) {
    return at_boundary([&] {
        Work& work = work_of(self);
        work.plan = std::move(work.building()).finish();
        work.builder.reset();
        Py_RETURN_NONE;
    });
}

PyObject* plan_print(PyObject* self, PyObject*) {
    return at_boundary([&] { return PyUnicode_FromString(print(work_of(self).plan).c_str()); });
}

PyObject* plan_held(PyObject* self, PyObject*) {
    return at_boundary([&] {
        Ref<> list = checked(PyList_New(0));
        visit(work_of(self).plan, [&](PyObject* object) { checked(PyList_Append(list.get(), object)); });
        return list.release();
    });
}

struct Inputs {
    explicit Inputs(PyObject* args) {
        if (!PyArg_ParseTuple(args, "O!O!|n", &PyTuple_Type, &outputs, &PyTuple_Type, &fetched, &repeat))
            throw PythonError();
    }
    static std::span<PyObject* const> items(PyObject* tuple) {
        return {&PyTuple_GET_ITEM(tuple, 0), static_cast<std::size_t>(PyTuple_GET_SIZE(tuple))};
    }
    Ref<> run(const Plan& plan) const {
        PlanRegisters registers;
        return stator::run(plan, items(outputs), items(fetched), registers);
    }

    PyObject *outputs, *fetched;
    Py_ssize_t repeat = 1;
};

/// run(outputs, fetched) -> the result of the plan; NotImplemented if it does not return.
PyObject* plan_run(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Ref<> result = Inputs(args).run(work_of(self).plan);
        return result ? result.release() : Py_NewRef(Py_NotImplemented);
    });
}

PyObject* plan_nanoseconds(PyObject* self, PyObject* args) {
    return at_boundary([&] {
        Inputs inputs(args);
        auto start = std::chrono::steady_clock::now();
        for (Py_ssize_t i = 0; i < inputs.repeat; ++i) inputs.run(work_of(self).plan);
        std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
        return PyFloat_FromDouble(elapsed.count() / static_cast<double>(inputs.repeat));
    });
}

PyMethodDef kMethods[] = {
    {"constant", plan_constant, METH_O, "constant(object) -> register"},
    {"output", plan_output, METH_O, "output(node) -> register"},
    {"fetch", plan_fetch, METH_O, "fetch(slot) -> register"},
    {"known", plan_known, METH_O, "known(value) -> register or -1"},
    {"reserve", plan_reserve, METH_O, "reserve(value) -> register"},
    {"add", plan_add, METH_VARARGS, "add(operation, registers, object=NotImplemented, to=-1) -> register"},
    {"finish", plan_finish, METH_NOARGS, "makes the plan"},
    {"print", plan_print, METH_NOARGS, "the plan, one step a line"},
    {"held", plan_held, METH_NOARGS, "every reference that the plan owns"},
    {"run", plan_run, METH_VARARGS, "run(outputs, fetched) -> result"},
    {"nanoseconds", plan_nanoseconds, METH_VARARGS, "nanoseconds(outputs, fetched, repeat) of a run"},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(plan_new)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(plan_dealloc)},
                        {Py_tp_methods, kMethods},
                        {0, nullptr}};
PyType_Spec kSpec = {"stator._testing.Plan", sizeof(PlanObject), 0, Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

bool bind_plan(PyObject* module) {
    Ref<> type = Ref<>::steal(PyType_FromSpec(&kSpec));
    return type && PyModule_AddObjectRef(module, "Plan", type.get()) == 0;
}

}  // namespace stator
