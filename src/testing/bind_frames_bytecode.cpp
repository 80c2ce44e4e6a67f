/// Decoded code objects, for the tests of the `bytecode` room.
#include "bytecode/code.h"
#include "cpython/opcodes.h"
#include "testing/bind_frames.h"

namespace stator {

namespace {

PyCodeObject* as_code(PyObject* object) {
    if (!PyCode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a code object is expected");
        throw PythonError();
    }
    return reinterpret_cast<PyCodeObject*>(object);
}

/// [(op, arg, extra, target, start, offset, next_offset, line, handler, can_resume), ...]
PyObject* decode(PyObject*, PyObject* object) {
    return at_boundary([&]() -> PyObject* {
        const bytecode::Code& code = bytecode::decode(as_code(object));
        Ref<> list = checked(PyList_New(static_cast<Py_ssize_t>(code.instructions().size())));
        Py_ssize_t position = 0;
        for (const bytecode::Instruction& each : code.instructions()) {
            PyObject* row = Py_BuildValue("(siiiiiiiii)", name_of(each.op), each.arg, each.extra, each.target.value,
                                          each.start.value, each.offset.value, each.next_offset.value, each.line,
                                          each.handler, int(each.can_resume));
            PyList_SET_ITEM(list.get(), position++, checked(row).release());
        }
        return list.release();
    });
}

/// [(start, end, target, depth, push_lasti), ...]
PyObject* handlers(PyObject*, PyObject* object) {
    return at_boundary([&]() -> PyObject* {
        const bytecode::Code& code = bytecode::decode(as_code(object));
        Ref<> list = checked(PyList_New(0));
        for (const bytecode::Handler& each : code.handlers()) {
            Ref<> row = checked(Py_BuildValue("(iiiii)", each.start.value, each.end.value, each.target.value,
                                              each.depth, int(each.push_lasti)));
            checked(PyList_Append(list.get(), row.get()));
        }
        return list.release();
    });
}

PyObject* print_code(PyObject*, PyObject* object) {
    return at_boundary([&] { return PyUnicode_FromString(print(bytecode::decode(as_code(object))).c_str()); });
}

/// [(effect if it falls through or None, effect if it jumps or None), ...]
PyObject* stack_effects(PyObject*, PyObject* object) {
    return at_boundary([&]() -> PyObject* {
        Ref<> list = checked(PyList_New(0));
        for (const bytecode::Instruction& each : bytecode::decode(as_code(object)).instructions()) {
            Ref<> row = checked(Py_BuildValue("[OO]", Py_None, Py_None));
            if (falls_through(each.op)) PyList_SetItem(row.get(), 0, PyLong_FromLong(stack_effect(each, false)));
            if (each.target.is_valid()) PyList_SetItem(row.get(), 1, PyLong_FromLong(stack_effect(each, true)));
            checked(PyList_Append(list.get(), row.get()));
        }
        return list.release();
    });
}

/// Decodes without the cache, `repeat` times, for its timing: (code, repeat) -> count of instructions.
PyObject* decode_again(PyObject*, PyObject* arguments) {
    PyObject* object = nullptr;
    int repeat = 0;
    if (!PyArg_ParseTuple(arguments, "Oi", &object, &repeat)) return nullptr;
    return at_boundary([&]() -> PyObject* {
        std::size_t count = 0;
        for (int i = 0; i < repeat; ++i) count += bytecode::Code(as_code(object)).instructions().size();
        return PyLong_FromSize_t(count);
    });
}

PyObject* is_known_opcode(PyObject*, PyObject* number) {
    return PyBool_FromLong(cpython::real_op(static_cast<std::uint8_t>(PyLong_AsLong(number))) !=
                           cpython::RealOp::Unknown);
}

/// {name: (stack effect, operands)}
PyObject* operations(PyObject*, PyObject*) {
    return at_boundary([&]() -> PyObject* {
        Ref<> dict = checked(PyDict_New());
        for (int i = 0; i < bytecode::kOpCount; ++i) {
            auto op = static_cast<bytecode::Op>(i);
            Ref<> row = checked(Py_BuildValue("(ss)", stack_effect_of(op), operands_of(op)));
            checked(PyDict_SetItemString(dict.get(), name_of(op), row.get()));
        }
        return dict.release();
    });
}

PyMethodDef kFunctions[] = {
    {"_frames_decode", decode, METH_O, nullptr},
    {"_frames_handlers", handlers, METH_O, nullptr},
    {"_frames_print", print_code, METH_O, nullptr},
    {"_frames_stack_effects", stack_effects, METH_O, nullptr},
    {"_frames_decode_again", decode_again, METH_VARARGS, nullptr},
    {"_frames_is_known_opcode", is_known_opcode, METH_O, nullptr},
    {"_frames_operations", operations, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_frames_bytecode(PyObject* module) {
    return PyModule_AddFunctions(module, kFunctions) == 0;
}

}  // namespace stator
