#include "cpython/coroutines.h"

#include "base/check.h"
#include "base/python_error.h"
#include "cpython/objects.h"

namespace stator::cpython {

namespace {

bool is_coroutine(PyObject* object) {
    return PyCoro_CheckExact(object) ||
           (PyGen_CheckExact(object) && (generator_code(object)->co_flags & CO_ITERABLE_COROUTINE) != 0);
}

/// `await` of an object that some other operation gave. Throws PythonError with a TypeError if it can't be awaited.
Ref<> awaited_or_error(PyObject* object) {
    if (is_coroutine(object)) return Ref<>::share(object);
    PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
    if (methods == nullptr || methods->am_await == nullptr) {
        PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(object)->tp_name);
        throw PythonError();
    }
    Ref<> iterator = checked(methods->am_await(object));
    if (is_coroutine(iterator.get())) {
        PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
        throw PythonError();
    }
    if (PyIter_Check(iterator.get()) == 0) {
        PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'",
                     Py_TYPE(iterator.get())->tp_name);
        throw PythonError();
    }
    return iterator;
}

/// Replaces the current exception by a TypeError that it is the cause of.
[[noreturn]] void raise_type_error_from(const char* format, PyTypeObject* type) {
    TakenError error = TakenError::take();
    Ref<> cause = Ref<>::share(error.exception().get());
    PyErr_Format(PyExc_TypeError, format, type->tp_name);
    TakenError raised = TakenError::take();
    PyException_SetCause(raised.exception().get(), Py_NewRef(cause.get()));
    PyException_SetContext(raised.exception().get(), Py_NewRef(cause.get()));
    std::move(raised).restore();
    throw PythonError();
}

}  // namespace

bool is_awaiting(PyObject* coroutine) {
    Ref<> waits_for = checked(PyObject_GetAttrString(coroutine, "cr_await"));
    return waits_for.get() != Py_None;
}

Ref<> awaited(PyObject* object) {
    PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
    if (!is_coroutine(object) && (methods == nullptr || methods->am_await == nullptr)) return {};
    if (PyCoro_CheckExact(object) && is_awaiting(object)) return {};
    return awaited_or_error(object);
}

Ref<> asynchronous_iterator(PyObject* object) {
    PyAsyncMethods* methods = Py_TYPE(object)->tp_as_async;
    if (methods == nullptr || methods->am_aiter == nullptr) return {};
    Ref<> iterator = checked(methods->am_aiter(object));
    PyAsyncMethods* of_iterator = Py_TYPE(iterator.get())->tp_as_async;
    if (of_iterator != nullptr && of_iterator->am_anext != nullptr) return iterator;
    PyErr_Format(PyExc_TypeError,
                 "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 Py_TYPE(iterator.get())->tp_name);
    throw PythonError();
}

Ref<> awaited_next(PyObject* iterator) {
    PyAsyncMethods* methods = Py_TYPE(iterator)->tp_as_async;
    if (methods == nullptr || methods->am_anext == nullptr) return {};
    Ref<> next = checked(methods->am_anext(iterator));
    if (PyAsyncGen_CheckExact(iterator)) return next;
    try {
        return awaited_or_error(next.get());
    } catch (const PythonError&) {
        raise_type_error_from("'async for' received an invalid object from __anext__: %.100s", Py_TYPE(next.get()));
    }
}

namespace {

/// The layout of `async_generator_asend`, which no header of CPython has.
struct StepLayout {
    PyObject_HEAD PyAsyncGenObject* generator;
    PyObject* sent;
    int state;
};
constexpr int kIterating = 1;

PyObject* make_step(PyObject*, PyObject* arguments) {
    return PyObject_CallMethod(PyTuple_GET_ITEM(arguments, 0), "asend", "O", PyTuple_GET_ITEM(arguments, 1));
}

PyObject* make_started_step(PyObject* self, PyObject* arguments) {
    PyObject* step = make_step(self, arguments);
    if (step == nullptr) return nullptr;
    STATOR_CHECK(Py_IS_TYPE(step, &_PyAsyncGenASend_Type) && Py_TYPE(step)->tp_basicsize == sizeof(StepLayout),
                 "asend() returns something else");
    reinterpret_cast<StepLayout*>(step)->state = kIterating;
    reinterpret_cast<PyAsyncGenObject*>(PyTuple_GET_ITEM(arguments, 0))->ag_running_async = 1;
    return step;
}

PyObject* function_of(PyMethodDef& definition) {
    return checked(PyCFunction_New(&definition, nullptr)).release();
}

}  // namespace

PyObject* step_function() {
    static PyMethodDef definition{"step", make_step, METH_VARARGS, nullptr};
    static PyObject* const function = function_of(definition);
    return function;
}

PyObject* started_step_function() {
    static PyMethodDef definition{"started_step", make_started_step, METH_VARARGS, nullptr};
    static PyObject* const function = function_of(definition);
    return function;
}

PyTypeObject* asynchronous_throw_class() {
    static PyTypeObject* const type = [] {
        Ref<> names = checked(PyDict_New());
        checked(PyRun_String("async def generator():\n    yield\nmade = generator().aclose()\nmade.close()\n",
                             Py_file_input, names.get(), names.get()));
        return reinterpret_cast<PyTypeObject*>(
            Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(PyDict_GetItemString(names.get(), "made")))));
    }();
    return type;
}

}  // namespace stator::cpython
