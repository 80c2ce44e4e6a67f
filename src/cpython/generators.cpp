#include "cpython/generators.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "base/python_error.h"
#include "cpython/code_object.h"
#include "cpython/coroutines.h"
#include "cpython/frame.h"
#include "cpython/frame_layout.h"
#include "cpython/hook.h"
#include "cpython/objects.h"

namespace stator::cpython {

namespace {

/// Coroutines and asynchronous generators have the layout of generators.
PyGenObject* as_generator(PyObject* object) {
    STATOR_CHECK(is_resumable(object) || PyAsyncGen_CheckExact(object), "not a generator");
    return reinterpret_cast<PyGenObject*>(object);
}

Frame* frame_in(PyGenObject* generator) {
    return reinterpret_cast<Frame*>(generator->gi_iframe);
}

/// Whether it did not start or is suspended.
bool is_waiting(const PyGenObject* generator) {
    return generator->gi_frame_state < FRAME_EXECUTING;
}

/// As if the YIELD_VALUE at `offset` had just been executed.
void suspend_after(PyGenObject* generator, Offset offset) {
    Frame* frame = frame_in(generator);
    _Py_CODEUNIT* yield = layout::first_unit(frame) + offset.unit();
#if PY_VERSION_HEX >= 0x030D0000
    layout::set_next(frame, yield + 1);
    // The operand tells whether the yield is part of a `yield from`, which is part of the state.
    int is_delegating = code_units(code_of(frame))[offset.unit()].arg;
    generator->gi_frame_state = static_cast<std::int8_t>(FRAME_SUSPENDED + is_delegating);
#else
    layout::set_executing(frame, yield);
    generator->gi_frame_state = FRAME_SUSPENDED;
#endif
}

/// As the first step of an asynchronous generator does, which tells an event loop that there is something to close.
void register_asynchronous(PyGenObject* generator) {
    PyThreadState* thread = PyThreadState_Get();
    generator->gi_hooks_inited = 1;
    generator->gi_origin_or_finalizer = Py_XNewRef(thread->async_gen_finalizer);
    if (thread->async_gen_firstiter == nullptr) return;
    Ref<> hook = Ref<>::share(thread->async_gen_firstiter);
    checked(PyObject_CallOneArg(hook.get(), reinterpret_cast<PyObject*>(generator)));
}

/// Its frame is left at once, as if a `return` came next.
void end_suspended(PyObject* object) {
    auto leave = [](PyThreadState* thread, Frame* frame, void*) -> PyObject* {
        return return_at_once(thread, frame, Ref<>::share(Py_None));
    };
    PyObject* value = nullptr;
    if (send_with_hook(object, Py_None, /*is_primed=*/true, leave, nullptr, &value) == PYGEN_ERROR) throw PythonError();
    Py_XDECREF(value);
}

}  // namespace

Ref<> make_generator(PyFunctionObject* function) {
    STATOR_CHECK((code_of(function)->co_flags & kSuspendedCode) != 0, "not a generator function");
    Ref<> generator = checked(call_with_placeholders(function));
    as_generator(generator.get());
    return generator;
}

void fill_generator(PyObject* object, const GeneratorState& state) {
    PyGenObject* generator = as_generator(object);
    STATOR_CHECK(is_waiting(generator), "a generator that runs, or that has finished, can't be filled");
    Frame* frame = frame_in(generator);
    STATOR_CHECK(static_cast<int>(state.slots.size()) == slot_count(frame),
                 "the number of slots differs from that of the generator");
    for (std::size_t i = 0; i < state.slots.size(); ++i)
        set_slot(frame, static_cast<int>(i), Ref<>::share(state.slots[i]));
    if (!state.yielded.is_valid()) return;
    if (PyAsyncGen_CheckExact(object)) register_asynchronous(generator);
    std::vector<PyObject*> values;
    for (PyObject* value : state.stack) values.push_back(Py_XNewRef(value));
    set_stack(frame, values);
    Py_XSETREF(generator->gi_exc_state.exc_value, Py_XNewRef(state.handled.get()));
    suspend_after(generator, state.yielded);
}

void finish_generator(PyObject* object) {
    STATOR_CHECK(is_waiting(as_generator(object)), "a generator that runs, or that has finished, can't be ended");
    if (as_generator(object)->gi_frame_state != FRAME_CREATED) return end_suspended(object);
    // Closing a generator that did not start runs none of its code.
    if (!PyAsyncGen_CheckExact(object)) {
        checked(PyObject_CallMethod(object, "close", nullptr));
        return;
    }
    as_generator(object)->gi_hooks_inited = 1;
    Ref<> closing = checked(PyObject_CallMethod(object, "aclose", nullptr));
    PyObject* nothing = nullptr;
    if (PyIter_Send(closing.get(), Py_None, &nothing) == PYGEN_ERROR) throw PythonError();
    Py_XDECREF(nothing);
}

std::optional<GeneratorPlace> place_of_generator(PyObject* object) {
    if (!PyGen_CheckExact(object)) return std::nullopt;
    PyGenObject* generator = as_generator(object);
    if (generator->gi_frame_state > FRAME_EXECUTING) return GeneratorPlace{.has_started = true, .has_finished = true};
    const PyObject* handled = generator->gi_exc_state.exc_value;
    if (!is_waiting(generator) || (handled != nullptr && handled != Py_None)) return std::nullopt;
    Frame* frame = frame_in(generator);
    // The program may have given the function another `__code__` since.
    if (PyFunction_GET_CODE(function_of(frame)) != reinterpret_cast<PyObject*>(code_of(frame))) return std::nullopt;
    return GeneratorPlace{.has_started = generator->gi_frame_state != FRAME_CREATED,
                          .has_finished = false,
                          .next = next_offset(frame),
                          .slots = static_cast<std::size_t>(slot_count(frame)),
                          .stack = stack(frame).size()};
}

Ref<> generator_state(PyObject* object) {
    const std::optional<GeneratorPlace> place = place_of_generator(object);
    if (!place) return nullptr;
    std::string text;
    std::vector<PyObject*> held;
    if (!place->has_finished) {
        Frame* frame = frame_in(as_generator(object));
        text = (place->has_started ? "s" : "c") + std::to_string(place->next.value) + ":";
        held.push_back(reinterpret_cast<PyObject*>(function_of(frame)));
        auto add = [&](PyObject* value) {
            text += value == nullptr ? '0' : '1';
            held.push_back(value == nullptr ? Py_None : value);
        };
        for (std::size_t i = 0; i < place->slots; ++i) add(slots(frame)[i]);
        for (PyObject* value : stack(frame)) add(value);
    }
    Ref<> state = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(held.size()) + 1));
    Ref<> bytes = Ref<>::steal(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    if (!state || !bytes) {
        PyErr_Clear();
        return nullptr;
    }
    PyTuple_SET_ITEM(state.get(), 0, bytes.release());
    for (std::size_t i = 0; i < held.size(); ++i)
        PyTuple_SET_ITEM(state.get(), static_cast<Py_ssize_t>(i) + 1, Py_NewRef(held[i]));
    return state;
}

}  // namespace stator::cpython
