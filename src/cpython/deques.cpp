#include "cpython/deques.h"

namespace stator::cpython {

namespace {

// The C struct is private to its module; a test compares what is read here with what Python gives.
struct Block {
    static constexpr Py_ssize_t kLength = 64;
    Block* left;
    PyObject* items[kLength];
    Block* right;
};
struct Layout {
    PyObject_VAR_HEAD Block *leftmost, *rightmost;
    Py_ssize_t left_index;  // of the first item in the leftmost block
};

}  // namespace

bool is_deque(PyObject* object) {
    static auto* const type = [] {
        PyObject* module = PyImport_ImportModule("_collections");
        return reinterpret_cast<PyTypeObject*>(module == nullptr ? nullptr : PyObject_GetAttrString(module, "deque"));
    }();
    return type != nullptr && PyObject_TypeCheck(object, type);
}

Py_ssize_t deque_length(PyObject* deque) {
    return Py_SIZE(deque);
}

Borrowed<> deque_item(PyObject* deque, Py_ssize_t index) {
    if (index < 0 || index >= Py_SIZE(deque)) return nullptr;
    auto* parts = reinterpret_cast<const Layout*>(deque);
    index += parts->left_index;
    const Block* block = parts->leftmost;
    for (; index >= Block::kLength; index -= Block::kLength) block = block->right;
    return block->items[index];
}

}  // namespace stator::cpython
