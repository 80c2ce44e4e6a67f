/// What the tests of the `cpython` and `bytecode` rooms drive from Python. They do to real frames what the `run` room
/// does, on orders from a test instead of a trace.
#include "testing/bind_frames.h"

#include <vector>

#include "cpython/code_object.h"
#include "cpython/generators.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "cpython/tracing.h"

namespace stator {

namespace {

using cpython::Frame;
using cpython::Offset;

/// What a test wants done with the frame, and what was observed of it.
struct Order {
    enum class Kind { kPass, kEnter, kRaise, kStep, kReturn } kind = Kind::kPass;
    PyObject* slots = nullptr;  ///< {name: value}, or a list of all slots as they are, cells included
    PyObject* stack = nullptr;  ///< [value, ...], the top last
    PyObject* step = nullptr;   ///< called while the frame is linked
    PyObject* value = nullptr;
    PyObject* handled = nullptr;  ///< the exception that is being handled where the frame is entered
    Offset offset, next_offset;
    bool was_taken = false;
};

/// Puts the order's slots and stack into the frame. A cell or free variable whose new value is not itself a cell keeps
/// its cell, with the value in it.
void fill(Frame* frame, const Order& order) {
    cpython::enter_body(frame);
    PyCodeObject* code = cpython::code_of(frame);
    for (int slot = 0; slot < cpython::slot_count(frame); ++slot) {
        if (PyList_Check(order.slots)) {
            PyObject* value = PyList_GET_ITEM(order.slots, slot);
            cpython::set_slot(frame, slot, Ref<>::share(value == null_marker() ? nullptr : value));
            continue;
        }
        PyObject* value = PyDict_GetItemWithError(order.slots, cpython::slot_name(code, slot));
        cpython::SlotKind kind = cpython::slot_kind(code, slot);
        if (kind.is_cell || kind.is_free) {
            if (value != nullptr) checked(PyCell_Set(cpython::slots(frame)[slot], value));
        } else {
            cpython::set_slot(frame, slot, Ref<>::share(value));
        }
    }
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(order.stack); ++i) {
        PyObject* value = PyList_GET_ITEM(order.stack, i);
        values.push_back(value == null_marker() ? nullptr : Py_NewRef(value));
    }
    cpython::set_stack(frame, values);
}

PyObject* step(PyThreadState* thread, Frame* frame, const Order& order) {
    Ref<> result;
    {
        cpython::LinkedFrame link(thread, frame, order.offset);
        result = Ref<>::steal(PyObject_CallNoArgs(order.step));
    }
    if (!result) return cpython::run_raising(thread, frame, order.offset);
    cpython::push(frame, std::move(result));
    cpython::resume_at(frame, order.next_offset);
    return cpython::run(thread, frame);
}

PyObject* carry_out(PyThreadState* thread, Frame* frame, void* context) {
    auto& order = *static_cast<Order*>(context);
    order.was_taken = true;
    switch (order.kind) {
        case Order::Kind::kPass:
            return cpython::run_untouched(thread, frame);
        case Order::Kind::kEnter:
            fill(frame, order);
            if (order.handled != nullptr) PyErr_SetHandledException(order.handled);
            cpython::resume_at(frame, order.offset);
            return cpython::run(thread, frame);
        case Order::Kind::kRaise:
            fill(frame, order);
            if (order.handled != nullptr) PyErr_SetHandledException(order.handled);
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(order.value)), order.value);
            return cpython::run_raising(thread, frame, order.offset);
        case Order::Kind::kStep:
            fill(frame, order);
            return step(thread, frame, order);
        case Order::Kind::kReturn:
            if (order.step != nullptr) {
                cpython::enter_body(frame);
                cpython::LinkedFrame link(thread, frame, cpython::body_start(cpython::code_of(frame)));
                Py_XDECREF(PyObject_CallNoArgs(order.step));
            }
            return cpython::return_at_once(thread, frame, Ref<>::share(order.value));
    }
    return nullptr;
}

PyCodeObject* code_behind(PyObject* callable) {
    if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(callable)) return cpython::code_of(reinterpret_cast<PyFunctionObject*>(callable));
    PyErr_SetString(PyExc_TypeError, "a Python function is expected");
    throw PythonError();
}

bool last_was_taken = false;

/// The order's own result, or null with an exception.
PyObject* call(Order& order, PyCodeObject* code, PyObject* callable, PyObject* arguments) {
    return at_boundary([&]() -> PyObject* {
        std::vector<PyObject*> values{nullptr};
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) values.push_back(PyTuple_GET_ITEM(arguments, i));
        std::size_t count = static_cast<std::size_t>(PyTuple_GET_SIZE(arguments)) | PY_VECTORCALL_ARGUMENTS_OFFSET;
        PyObject* result = cpython::call_with_hook(code != nullptr ? code : code_behind(callable), carry_out, &order,
                                                   callable, values.data() + 1, count, nullptr);
        last_was_taken = order.was_taken;
        return result;
    });
}

/// (callable, arguments[, code]) -> result
PyObject* pass(PyObject*, PyObject* given) {
    Order order;
    PyObject *callable = nullptr, *arguments = nullptr, *code = nullptr;
    if (!PyArg_ParseTuple(given, "OO!|O!", &callable, &PyTuple_Type, &arguments, &PyCode_Type, &code)) return nullptr;
    return call(order, reinterpret_cast<PyCodeObject*>(code), callable, arguments);
}

/// (callable, arguments, offset, slots, stack) -> result
PyObject* enter(PyObject*, PyObject* given) {
    Order order{.kind = Order::Kind::kEnter};
    PyObject *callable = nullptr, *arguments = nullptr;
    if (!PyArg_ParseTuple(given, "OO!iO!O!", &callable, &PyTuple_Type, &arguments, &order.offset.value, &PyDict_Type,
                          &order.slots, &PyList_Type, &order.stack))
        return nullptr;
    return call(order, nullptr, callable, arguments);
}

/// (callable, arguments, offset, next_offset, slots, stack, step) -> result
PyObject* step_once(PyObject*, PyObject* given) {
    Order order{.kind = Order::Kind::kStep};
    PyObject *callable = nullptr, *arguments = nullptr;
    if (!PyArg_ParseTuple(given, "OO!iiO!O!O", &callable, &PyTuple_Type, &arguments, &order.offset.value,
                          &order.next_offset.value, &PyDict_Type, &order.slots, &PyList_Type, &order.stack,
                          &order.step))
        return nullptr;
    return call(order, nullptr, callable, arguments);
}

/// (callable, arguments, value[, step or None[, code]]) -> value
PyObject* return_value(PyObject*, PyObject* given) {
    Order order{.kind = Order::Kind::kReturn};
    PyObject *callable = nullptr, *arguments = nullptr, *code = nullptr;
    if (!PyArg_ParseTuple(given, "OO!O|OO!", &callable, &PyTuple_Type, &arguments, &order.value, &order.step,
                          &PyCode_Type, &code))
        return nullptr;
    if (order.step == Py_None) order.step = nullptr;
    return call(order, reinterpret_cast<PyCodeObject*>(code), callable, arguments);
}

/// (function, offset, slots, stack, handled exception or None[, exception]) -> result. The frame is created for this
/// and entered at that instruction, or behaves as if that instruction had raised the exception.
PyObject* enter_primed(PyObject*, PyObject* given) {
    Order order;
    PyObject* function = nullptr;
    if (!PyArg_ParseTuple(given, "O!iOO!O|O", &PyFunction_Type, &function, &order.offset.value, &order.slots,
                          &PyList_Type, &order.stack, &order.handled, &order.value))
        return nullptr;
    order.kind = order.value == nullptr ? Order::Kind::kEnter : Order::Kind::kRaise;
    PyObject* result = cpython::call_primed(reinterpret_cast<PyFunctionObject*>(function), carry_out, &order);
    last_was_taken = order.was_taken;
    return result;
}

/// (function, offset of the yield or -1 if it did not start, slots, stack, handled exception or None) -> generator.
/// With the function alone: one that has ended. A generator in place of the function gets that state itself.
PyObject* generator(PyObject*, PyObject* given) {
    PyObject *of = nullptr, *slots = nullptr, *stack = nullptr, *handled = Py_None;
    cpython::GeneratorState state;
    if (!PyArg_ParseTuple(given, "O|iO!O!O", &of, &state.yielded.value, &PyList_Type, &slots, &PyList_Type, &stack,
                          &handled))
        return nullptr;
    return at_boundary([&]() -> PyObject* {
        Ref<> made =
            PyFunction_Check(of) ? cpython::make_generator(reinterpret_cast<PyFunctionObject*>(of)) : Ref<>::share(of);
        if (slots == nullptr) {
            cpython::finish_generator(made.get());
            return made.release();
        }
        auto values_of = [](PyObject* list) {
            std::vector<PyObject*> values;
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
                PyObject* value = PyList_GET_ITEM(list, i);
                values.push_back(value == null_marker() ? nullptr : value);
            }
            return values;
        };
        std::vector<PyObject*> slot_values = values_of(slots), stack_values = values_of(stack);
        state.slots = slot_values;
        state.stack = stack_values;
        if (handled != Py_None) state.handled = handled;
        cpython::fill_generator(made.get(), state);
        return made.release();
    });
}

/// The state of a generator as guards read it; None if they can't.
PyObject* generator_state(PyObject*, PyObject* generator) {
    return at_boundary([&]() -> PyObject* {
        Ref<> state = cpython::generator_state(generator);
        return state ? state.release() : Py_NewRef(Py_None);
    });
}

/// (frame object, depth) -> (slots, stack) of a frame; the marker for NULL. Only a suspended frame knows the depth of
/// its stack: then -1 is sufficient.
PyObject* snapshot(PyObject*, PyObject* given) {
    PyObject* object = nullptr;
    int depth = 0;
    if (!PyArg_ParseTuple(given, "O!i", &PyFrame_Type, &object, &depth)) return nullptr;
    return at_boundary([&]() -> PyObject* {
        Frame* frame = cpython::frame_of(reinterpret_cast<PyFrameObject*>(object));
        auto list_of = [](PyObject** values, int count) {
            Ref<> list = checked(PyList_New(count));
            for (int i = 0; i < count; ++i)
                PyList_SET_ITEM(list.get(), i, Py_NewRef(values[i] == nullptr ? null_marker() : values[i]));
            return list;
        };
        PyObject** slots = cpython::slots(frame);
        int count = cpython::slot_count(frame);
        if (depth < 0) depth = static_cast<int>(cpython::stack(frame).size());
        return Py_BuildValue("(NN)", list_of(slots, count).release(), list_of(slots + count, depth).release());
    });
}

/// Whether the handler got the frame of the last call above.
PyObject* was_taken(PyObject*, PyObject*) {
    return PyBool_FromLong(last_was_taken);
}

/// (callable, value, repeat): times `repeat` calls from C that return at once.
PyObject* return_repeatedly(PyObject*, PyObject* given) {
    Order order{.kind = Order::Kind::kReturn};
    PyObject* callable = nullptr;
    int repeat = 0;
    if (!PyArg_ParseTuple(given, "OOi", &callable, &order.value, &repeat)) return nullptr;
    return at_boundary([&]() -> PyObject* {
        PyCodeObject* code = code_behind(callable);
        for (int i = 0; i < repeat; ++i)
            checked(cpython::call_with_hook(code, carry_out, &order, callable, nullptr, 0, nullptr));
        Py_RETURN_NONE;
    });
}

/// (callable, repeat): the same without a hook.
PyObject* call_repeatedly(PyObject*, PyObject* given) {
    PyObject* callable = nullptr;
    int repeat = 0;
    if (!PyArg_ParseTuple(given, "Oi", &callable, &repeat)) return nullptr;
    return at_boundary([&]() -> PyObject* {
        for (int i = 0; i < repeat; ++i) checked(PyObject_Vectorcall(callable, nullptr, 0, nullptr));
        Py_RETURN_NONE;
    });
}

// --- another tool with an evaluation hook

long frames_of_other_tool = 0;
_PyFrameEvalFunction hook_below_other_tool = nullptr;

PyObject* other_tool(PyThreadState* thread, Frame* frame, int throwing) {
    ++frames_of_other_tool;
    return hook_below_other_tool(thread, frame, throwing);
}

PyObject* other_tool_on(PyObject*, PyObject*) {
    PyInterpreterState* interpreter = PyInterpreterState_Get();
    hook_below_other_tool = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, other_tool);
    Py_RETURN_NONE;
}

PyObject* other_tool_off(PyObject*, PyObject*) {
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook_below_other_tool);
    Py_RETURN_NONE;
}

PyObject* other_tool_count(PyObject*, PyObject*) {
    return PyLong_FromLong(frames_of_other_tool);
}

/// Installs the hook at this address, 0 for CPython's own evaluation, and returns the address of the one before.
PyObject* exchange_hook(PyObject*, PyObject* address) {
    auto* wanted = reinterpret_cast<_PyFrameEvalFunction>(PyLong_AsVoidPtr(address));
    if (PyErr_Occurred() != nullptr) return nullptr;
    PyInterpreterState* interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction before = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    _PyInterpreterState_SetEvalFrameFunc(interpreter, wanted == nullptr ? _PyEval_EvalFrameDefault : wanted);
    return PyLong_FromVoidPtr(reinterpret_cast<void*>(before));
}

/// "none", "other" or "ours".
PyObject* hook_in_place(PyObject*, PyObject*) {
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    return PyUnicode_FromString(current == _PyEval_EvalFrameDefault ? "none"
                                : current == other_tool             ? "other"
                                                                    : "ours");
}

PyObject* is_being_traced(PyObject*, PyObject*) {
    return PyBool_FromLong(cpython::is_being_traced(PyThreadState_Get()));
}

PyMethodDef kFunctions[] = {
    {"_frames_pass", pass, METH_VARARGS, nullptr},
    {"_frames_enter", enter, METH_VARARGS, nullptr},
    {"_frames_enter_primed", enter_primed, METH_VARARGS, nullptr},
    {"_frames_generator", generator, METH_VARARGS, nullptr},
    {"_frames_generator_state", generator_state, METH_O, nullptr},
    {"_frames_snapshot", snapshot, METH_VARARGS, nullptr},
    {"_frames_step", step_once, METH_VARARGS, nullptr},
    {"_frames_return", return_value, METH_VARARGS, nullptr},
    {"_frames_was_taken", was_taken, METH_NOARGS, nullptr},
    {"_frames_return_repeatedly", return_repeatedly, METH_VARARGS, nullptr},
    {"_frames_call_repeatedly", call_repeatedly, METH_VARARGS, nullptr},
    {"_frames_other_tool_on", other_tool_on, METH_NOARGS, nullptr},
    {"_frames_other_tool_off", other_tool_off, METH_NOARGS, nullptr},
    {"_frames_other_tool_count", other_tool_count, METH_NOARGS, nullptr},
    {"_frames_hook_in_place", hook_in_place, METH_NOARGS, nullptr},
    {"_frames_exchange_hook", exchange_hook, METH_O, nullptr},
    {"_frames_is_being_traced", is_being_traced, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* null_marker() {
    static PyObject* const marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
    return marker;
}

bool bind_frames(PyObject* module) {
    return null_marker() != nullptr && PyModule_AddObjectRef(module, "_frames_NULL", null_marker()) == 0 &&
           PyModule_AddFunctions(module, kFunctions) == 0 && bind_frames_bytecode(module) &&
           bind_frames_objects(module);
}

}  // namespace stator
