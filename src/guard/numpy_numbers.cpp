#include "guard/numpy_numbers.h"

#include <cstring>
#include <string_view>

namespace stator {

namespace {

struct Known {
    std::string_view name;
    NumpyNumber kind;
    std::size_t width;
};

// Complex and extended types are omitted: PyTorch does not use them.
constexpr Known kKnown[] = {
    {"float64", NumpyNumber::Double, 8},     {"float32", NumpyNumber::OtherFloat, 4},
    {"float16", NumpyNumber::OtherFloat, 2}, {"int64", NumpyNumber::Integer, 8},
    {"int32", NumpyNumber::Integer, 4},      {"int16", NumpyNumber::Integer, 2},
    {"int8", NumpyNumber::Integer, 1},       {"uint64", NumpyNumber::Integer, 8},
    {"uint32", NumpyNumber::Integer, 4},     {"uint16", NumpyNumber::Integer, 2},
    {"uint8", NumpyNumber::Integer, 1},      {"bool", NumpyNumber::Bool, 1},
    {"bool_", NumpyNumber::Bool, 1},  // as it was called before numpy 2
};

const Known* known(PyTypeObject* type) {
    // A class created in Python is a heap type, so no user-defined class can match by its name. Every constant of a
    // trace comes here, and the first letter decides for nearly all.
    if (type->tp_name[0] != 'n') return nullptr;
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || std::strncmp(type->tp_name, "numpy.", 6) != 0) return nullptr;
    std::string_view name = type->tp_name + 6;
    for (const Known& one : kKnown)
        if (one.name == name) return &one;
    return nullptr;
}

}  // namespace

NumpyNumber numpy_number(PyTypeObject* type) {
    const Known* found = known(type);
    return found == nullptr ? NumpyNumber::None : found->kind;
}

bool same_numpy_number(Borrowed<> object, Borrowed<> expected) {
    const Known* found = known(Py_TYPE(expected.get()));
    if (found == nullptr || Py_TYPE(object.get()) != Py_TYPE(expected.get())) return false;
    auto number = [](Borrowed<> one) { return reinterpret_cast<const char*>(one.get()) + sizeof(PyObject); };
    return std::memcmp(number(object), number(expected), found->width) == 0;
}

}  // namespace stator
