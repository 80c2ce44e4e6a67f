// The two exits of a frame that CPython's interpreter does not offer: raising at an instruction, and returning a value
// from anywhere.
#include <algorithm>
#include <vector>

#include "base/python_error.h"
#include "cpython/code_object.h"
#include "cpython/frame.h"
#include "cpython/frame_layout.h"
#include "cpython/opcodes.h"
#include "cpython/tracing.h"

namespace stator::cpython {

namespace {

/// Readers of the traceback may look at the variables, which have to be in their cells.
void make_cells(Frame* frame) {
    if (is_at_start(frame)) enter_body(frame);
}

PyObject* raise_here(PyThreadState* thread, Frame* frame) {
    return _PyEval_EvalFrameDefault(thread, frame, 1);
}

}  // namespace

void add_to_traceback(PyThreadState* thread, Frame* frame, Offset offset) {
    LinkedFrame link(thread, frame, offset);
    if (PyFrameObject* object = PyEval_GetFrame()) PyTraceBack_Here(object);
}

PyObject* leave_raising(PyThreadState* thread, Frame* frame, Offset offset) {
    // The interpreter adds a line, which is removed again.
    TakenError error = TakenError::take();
    Ref<> exception = Ref<>::share(error.exception().get());
    Ref<> traceback = Ref<>::steal(PyException_GetTraceback(exception.get()));
    std::move(error).restore();
    PyObject* result = run_raising(thread, frame, offset);
    TakenError left = TakenError::take();
    if (left.exception().get() == exception.get())
        PyException_SetTraceback(exception.get(), traceback ? traceback.get() : Py_None);
    std::move(left).restore();
    return result;
}

namespace {

const HandlerRange* find_handler(const std::vector<HandlerRange>& handlers, Offset offset) {
    for (const HandlerRange& handler : handlers)
        if (handler.start <= offset && offset < handler.end) return &handler;
    return nullptr;
}

/// As the interpreter does for an exception that has a handler in this frame.
PyObject* run_handler(PyThreadState* thread, Frame* frame, Offset offset, const HandlerRange& handler) {
    add_to_traceback(thread, frame, offset);
    std::vector<PyObject*> values;
    TakenError error = TakenError::take();
    for (PyObject* value : stack(frame).first(handler.depth)) values.push_back(Py_XNewRef(value));
    if (handler.push_lasti) values.push_back(PyLong_FromLong(offset.unit()));
    values.push_back(Py_NewRef(error.exception()));
    set_stack(frame, values);
    resume_at(frame, handler.target);
    return run(thread, frame);
}

#if PY_VERSION_HEX < 0x030D0000

PyObject* raise_at(PyThreadState* thread, Frame* frame, Offset offset) {
    layout::set_executing(frame, layout::first_unit(frame) + offset.unit());
    return raise_here(thread, frame);
}

#else

/// When it is resumed to raise, 3.13 takes the line from the instruction pointer but the handler from the unit before
/// it, which is meant for generators that are suspended after their YIELD_VALUE.
PyObject* raise_at(PyThreadState* thread, Frame* frame, Offset offset) {
    _Py_CODEUNIT* unit = layout::first_unit(frame) + offset.unit();
    std::vector<HandlerRange> handlers = exception_table(code_of(frame));
    const HandlerRange* handler = find_handler(handlers, offset);
    if (find_handler(handlers, Offset{offset.value - 1}) == handler) {
        layout::set_next(frame, unit);
        return raise_here(thread, frame);
    }
    if (handler != nullptr) return run_handler(thread, frame, offset, *handler);
    // The instruction has no handler but the one before it has. A frame that has not started has none either, and adds
    // nothing to the traceback that was just written.
    add_to_traceback(thread, frame, offset);
    layout::set_next(frame, layout::first_unit(frame) - 1);
    return raise_here(thread, frame);
}

#endif

/// When it is resumed to raise, the interpreter reports a call first. The call was already reported.
PyObject* raise_watched(PyThreadState* thread, Frame* frame, Offset offset) {
    std::vector<HandlerRange> handlers = exception_table(code_of(frame));
    if (const HandlerRange* handler = find_handler(handlers, offset))
        return run_handler(thread, frame, offset, *handler);
    try {
        report_unwind(thread, frame, offset);
    } catch (const PythonError&) {  // a tool raised another exception
    }
    Unwatched unwatched(thread);
    return raise_at(thread, frame, offset);
}

}  // namespace

PyObject* run_raising(PyThreadState* thread, Frame* frame, Offset offset) {
    make_cells(frame);
    if (is_being_traced(thread)) [[unlikely]]
        return raise_watched(thread, frame, offset);
    return raise_at(thread, frame, offset);
}

namespace {

Offset find_return_value(PyCodeObject* code) {
    std::span<const CodeUnit> units = code_units(code);
    for (std::size_t i = 0; i < units.size(); i += 1 + cache_units(units[i].opcode))
        if (real_op(units[i].opcode) == RealOp::ReturnValue) return Offset::of_unit(static_cast<int>(i));
    return kNoOffset;
}

_Py_CODEUNIT* return_value_of_our_own() {
    static _Py_CODEUNIT* unit = [] {
        static CodeUnit units[2] = {};
        units[0] = units[1] = {static_cast<std::uint8_t>(number_of(RealOp::ReturnValue)), 0};
        return reinterpret_cast<_Py_CODEUNIT*>(units + 1);
    }();
    return unit;
}

/// A function that ends only in constants or exceptions has no RETURN_VALUE to jump to. The interpreter can execute one
/// in other code; but a frame object that outlives the frame must not point there.
PyObject* return_from_elsewhere(PyThreadState* thread, Frame* frame) {
    Ref<PyFrameObject> object = Ref<PyFrameObject>::share(frame->frame_obj);
    _Py_CODEUNIT* body = layout::first_unit(frame) + code_of(frame)->_co_firsttraceable;
    layout::set_next(frame, return_value_of_our_own());
    PyObject* result = run(thread, frame);
    if (object && object.get()->f_frame != nullptr) layout::set_executing(object.get()->f_frame, body);
    return result;
}

}  // namespace

namespace {

PyObject* return_from(PyThreadState* thread, Frame* frame, Ref<> value, Offset return_value) {
    PyObject* owned[] = {value.release()};
    set_stack(frame, owned);
    if (!return_value.is_valid()) [[unlikely]]
        return return_from_elsewhere(thread, frame);
    resume_at(frame, return_value);
    return run(thread, frame);
}

/// The interpreter would report the line of some `return`, which need not be the one that the program reached.
PyObject* return_watched(PyThreadState* thread, Frame* frame, Ref<> value, Offset return_value) {
    Offset at = return_value.is_valid() ? return_value : body_start(code_of(frame));
    try {
        report_return(thread, frame, at, value.get());
    } catch (const PythonError&) {
        Unwatched unwatched(thread);
        return raise_at(thread, frame, at);
    }
    Unwatched unwatched(thread);
    return return_from(thread, frame, std::move(value), return_value);
}

}  // namespace

PyObject* return_at_once(PyThreadState* thread, Frame* frame, Ref<> value) {
    CodeExtra& extra = extra_of(code_of(frame));
    if (!extra.return_value_is_known) [[unlikely]] {
        extra.return_value = find_return_value(code_of(frame));
        extra.return_value_is_known = true;
    }
    // A frame object that outlives the frame, in a traceback, may be asked for its variables.
    if (frame->frame_obj != nullptr) [[unlikely]]
        make_cells(frame);
    if (is_being_traced(thread)) [[unlikely]]
        return return_watched(thread, frame, std::move(value), extra.return_value);
    return return_from(thread, frame, std::move(value), extra.return_value);
}

}  // namespace stator::cpython
