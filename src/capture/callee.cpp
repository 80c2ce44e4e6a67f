#include "capture/callee.h"

#include "base/python_error.h"
#include "base/text.h"
#include "bytecode/code.h"
#include "cpython/code_object.h"
#include "torch/known.h"

namespace stator {

namespace {

/// Calls stator/naming.py. Throws PythonError.
Callee ask_for_callee(PyFunctionObject* function, PyObject* first) {
    Ref<> naming = checked(PyImport_ImportModule("stator.naming"));
    Ref<> answer = checked(PyObject_CallMethod(naming.get(), "callee", "OO", reinterpret_cast<PyObject*>(function),
                                               first == nullptr ? Py_None : first));
    const char *name = nullptr, *file = nullptr;
    int line = 0;
    if (PyArg_ParseTuple(answer.get(), "ssi", &name, &file, &line) == 0) throw PythonError();
    return {name, file, line};
}

bool is_call_of_module(PyCodeObject* code) {
    const torch_room::Known& known = torch_room::known();
    return reinterpret_cast<PyObject*>(code) == PyFunction_GET_CODE(known.module_call) ||
           reinterpret_cast<PyObject*>(code) == PyFunction_GET_CODE(known.module_call_impl);
}

int line_of(PyCodeObject* code, bytecode::Index at) {
    if (at.value == 0) return code->co_firstlineno;
    // Cleanup instructions have no line: the previous one is used.
    const bytecode::Code& decoded = bytecode::decode(code);
    while (at.value > 0 && decoded[at].line <= 0) --at.value;
    return decoded[at].line > 0 ? decoded[at].line : code->co_firstlineno;
}

}  // namespace

Callee callee_of(PyCodeObject* code, int line) {
    return {std::string(utf8(code->co_qualname)), std::string(utf8(code->co_filename)), line};
}

Callee callee_of(cpython::Frame* frame, bytecode::Index at) {
    PyCodeObject* code = cpython::code_of(frame);
    Callee plain = callee_of(code, line_of(code, at));
    if (at.value != 0 && !is_call_of_module(code)) return plain;
    ErrorAside aside;
    try {
        PyObject* first = code->co_argcount == 0 ? nullptr : cpython::slots(frame)[0];
        if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
        return ask_for_callee(cpython::function_of(frame), first);
    } catch (const PythonError&) {
        PyErr_Clear();
        return plain;
    }
}

}  // namespace stator
