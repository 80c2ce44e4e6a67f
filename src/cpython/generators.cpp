#include "cpython/generators.h"

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

}  // namespace

Ref<> make_generator(PyFunctionObject* function) {
    STATOR_CHECK((code_of(function)->co_flags & kSuspendedCode) != 0, "not a generator function");
    Ref<> generator = checked(call_with_placeholders(function));
    as_generator(generator.get());
    return generator;
}

void fill_generator(PyObject* object, const GeneratorState& state) {
    PyGenObject* generator = as_generator(object);
    STATOR_CHECK(generator->gi_frame_state == FRAME_CREATED, "only a generator that did not start can be filled");
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
    generator->gi_exc_state.exc_value = Py_XNewRef(state.handled.get());
    suspend_after(generator, state.yielded);
}

void finish_generator(PyObject* object) {
    STATOR_CHECK(as_generator(object)->gi_frame_state == FRAME_CREATED, "the generator has already started");
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

}  // namespace stator::cpython
