#include "cpython/exception_groups.h"

#include <string>

#include "base/python_error.h"
#include "cpython/opcodes.h"

namespace stator::cpython {

#if PY_VERSION_HEX >= 0x030C0000

Ref<> exception_to_raise_again(PyObject* original, PyObject* results) {
    return checked(PyUnstable_Exc_PrepReraiseStar(original, results));
}

#else

namespace {

/// 3.11 has this only as an instruction: a function that consists of that instruction.
Ref<> make_function() {
    Ref<> scope = checked(PyDict_New());
    Ref<> function =
        checked(PyRun_String("lambda original, results: results", Py_eval_input, scope.get(), scope.get()));
    const int instructions[][2] = {{number_of(RealOp::Resume), 0},
                                   {number_of(RealOp::LoadFast), 0},
                                   {number_of(RealOp::LoadFast), 1},
                                   {number_of(RealOp::PrepReraiseStar), 0},
                                   {number_of(RealOp::ReturnValue), 0}};
    std::string bytes;
    for (const auto& [op, argument] : instructions) {
        bytes += static_cast<char>(op);
        bytes += static_cast<char>(argument);
    }
    Ref<> code = checked(PyObject_GetAttrString(function.get(), "__code__"));
    Ref<> replace = checked(PyObject_GetAttrString(code.get(), "replace"));
    Ref<> units = checked(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    Ref<> named = checked(Py_BuildValue("{s:O,s:i}", "co_code", units.get(), "co_stacksize", 2));
    Ref<> nothing = checked(PyTuple_New(0));
    Ref<> changed = checked(PyObject_Call(replace.get(), nothing.get(), named.get()));
    checked(PyObject_SetAttrString(function.get(), "__code__", changed.get()));
    return function;
}

}  // namespace

Ref<> exception_to_raise_again(PyObject* original, PyObject* results) {
    static PyObject* const function = make_function().release();
    return checked(PyObject_CallFunctionObjArgs(function, original, results, nullptr));
}

#endif

}  // namespace stator::cpython
