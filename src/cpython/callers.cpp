#include "cpython/callers.h"

#include "cpython/frame_layout.h"

namespace stator::cpython {

namespace {

/// Some frames only mark where C code called the interpreter, and run no code.
const Frame* past_marks(const Frame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
    while (frame != nullptr && frame->owner == FRAME_OWNED_BY_CSTACK) frame = frame->previous;
#endif
    return frame;
}

}  // namespace

const Frame* running_frame() {
    return past_marks(layout::current(PyThreadState_Get()));
}

const Frame* caller_of(const Frame* frame) {
    return past_marks(frame->previous);
}

PyObject* function_name(const Frame* frame) {
    return layout::code(frame)->co_name;
}

Ref<> enclosed_variable(const Frame* frame, Borrowed<> name) {
    Ref<> names = Ref<>::steal(PyCode_GetFreevars(layout::code(frame)));
    PyObject* function = layout::function(frame);
    PyObject* cells = PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
    if (names && cells != nullptr)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()) && i < PyTuple_GET_SIZE(cells); ++i)
            if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), i), name.get()) == 0)
                return Ref<>::steal(PyCell_Get(PyTuple_GET_ITEM(cells, i)));
    PyErr_Clear();
    return nullptr;
}

}  // namespace stator::cpython
