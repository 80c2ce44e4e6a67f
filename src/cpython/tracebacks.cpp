#include "cpython/tracebacks.h"

#include <frameobject.h>

#include "base/python_error.h"
#include "cpython/frame.h"
#include "cpython/frame_layout.h"

namespace stator::cpython {

Ref<> make_frame_object(PyCodeObject* code, PyObject* globals, Offset offset) {
    PyFrameObject* frame = PyFrame_New(PyThreadState_Get(), code, globals, nullptr);
    Ref<> owned = checked(reinterpret_cast<PyObject*>(frame));
    // Reading `f_locals` expects the cells of free variables, which the first instruction of the code puts there.
    const int slots = slot_count(frame->f_frame);
    for (int slot = slots - code->co_nfreevars; slot < slots; ++slot)
        set_slot(frame->f_frame, slot, checked(PyCell_New(nullptr)));
    layout::set_executing(frame->f_frame, layout::first_unit(frame->f_frame) + offset.unit());
    return owned;
}

int line_at(PyCodeObject* code, Offset offset) {
    return PyCode_Addr2Line(code, offset.value);
}

Ref<> make_traceback(PyFrameObject* frame, Offset offset, Borrowed<> next) {
    Ref<PyCodeObject> code = Ref<PyCodeObject>::steal(PyFrame_GetCode(frame));
    return checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                         next == nullptr ? Py_None : next.get(), frame, offset.value,
                                         line_at(code.get(), offset)));
}

}  // namespace stator::cpython
