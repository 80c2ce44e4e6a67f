#include "base/text.h"

#include "base/python_error.h"

namespace stator {

namespace {

constexpr std::size_t kLongestRepr = 120;

bool prints_safely(PyObject* object) {
    if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
    if (PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object)) return true;
    if (PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object)) return true;
    if (!PyTuple_CheckExact(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (!prints_safely(PyTuple_GET_ITEM(object, i))) return false;
    return true;
}

}  // namespace

std::string_view utf8(Borrowed<> string) {
    Py_ssize_t size = 0;
    const char* data =
        string != nullptr && PyUnicode_Check(string.get()) ? PyUnicode_AsUTF8AndSize(string, &size) : nullptr;
    if (data == nullptr) {
        PyErr_Clear();
        return "?";
    }
    return {data, static_cast<std::size_t>(size)};
}

std::string short_repr(Borrowed<> object) {
    if (object == nullptr) return "<null>";
    if (!prints_safely(object)) {
        if (PyType_Check(object.get())) return type_name(reinterpret_cast<PyTypeObject*>(object.get()));
        return "<" + type_name(Py_TYPE(object.get())) + ">";
    }
    ErrorAside aside;
    Ref<> text = Ref<>::steal(PyObject_Repr(object));
    if (!text) {
        PyErr_Clear();
        return "<unprintable>";
    }
    std::string result(utf8(text.get()));
    if (result.size() > kLongestRepr) result = result.substr(0, kLongestRepr - 3) + "...";
    return result;
}

std::string type_name(Borrowed<PyTypeObject> type) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type->tp_name;
    auto* heap = reinterpret_cast<PyHeapTypeObject*>(type.get());
    std::string name(utf8(heap->ht_qualname));
    PyObject* module = type->tp_dict == nullptr ? nullptr : PyDict_GetItemString(type->tp_dict, "__module__");
    if (module != nullptr && PyUnicode_Check(module) && utf8(module) != "builtins")
        return std::string(utf8(module)) + "." + name;
    return name;
}

}  // namespace stator
