#include "cpython/binary_operations.h"

#include <array>

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

}  // namespace

PyObject* binary_operation(std::size_t number, PyObject* left, PyObject* right) {
    return kBinary.at(number)(left, right);
}

}  // namespace stator::cpython
