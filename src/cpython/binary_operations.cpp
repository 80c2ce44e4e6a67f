#include "cpython/binary_operations.h"

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/imported.h"

namespace stator::cpython {

namespace {

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);
PyObject* power(PyObject* left, PyObject* right) {
    return PyNumber_Power(left, right, Py_None);
}
PyObject* power_in_place(PyObject* left, PyObject* right) {
    return PyNumber_InPlacePower(left, right, Py_None);
}
constexpr std::array<BinaryFunction, 26> kBinary = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};
/// Of the first half; the names of the second half begin with an `i`, and have no underscore.
constexpr std::array<std::string_view, kFirstInPlace> kNames = {
    "add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor"};
static_assert(kBinary.size() == 2 * kNames.size());

std::unordered_map<PyObject*, binaryfunc> functions_of_operator() {
    std::unordered_map<PyObject*, binaryfunc> functions;
    auto add = [&](const std::string& name, binaryfunc function) {
        functions.emplace(imported("_operator", name.c_str()), function);
    };
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        std::string name(kNames[i]);
        add(name, kBinary[i]);
        if (name.back() == '_') name.pop_back();
        add("i" + name, kBinary[kFirstInPlace + i]);
    }
    add("getitem", PyObject_GetItem);
    return functions;
}

}  // namespace

binaryfunc function_behind(PyObject* operator_function) {
    if (!PyCFunction_CheckExact(operator_function)) return nullptr;
    static const auto* const functions = new std::unordered_map(functions_of_operator());
    auto found = functions->find(operator_function);
    return found == functions->end() ? nullptr : found->second;
}

PyObject* binary_operation(std::size_t number, PyObject* left, PyObject* right) {
    return kBinary.at(number)(left, right);
}

}  // namespace stator::cpython
