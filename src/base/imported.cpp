#include "base/imported.h"

#include <algorithm>
#include <string>

#include "base/python_error.h"

namespace stator {

namespace {

/// Empty with the error indicator set if it is not there.
Ref<> look_up(const char* module, std::string_view name) {
    Ref<> found = Ref<>::steal(PyImport_ImportModule(module));
    for (std::size_t begin = 0; found && begin <= name.size();) {
        std::size_t end = std::min(name.find('.', begin), name.size());
        std::string part(name.substr(begin, end - begin));
        found = Ref<>::steal(PyObject_GetAttrString(found.get(), part.c_str()));
        begin = end + 1;
    }
    return found;
}

}  // namespace

PyObject* imported(const char* module, std::string_view name) {
    Ref<> found = look_up(module, name);
    if (!found) throw PythonError();
    return found.release();
}

PyTypeObject* imported_class(const char* module, const char* name) {
    return reinterpret_cast<PyTypeObject*>(imported(module, name));
}

Ref<> find_imported(const char* module, std::string_view name) {
    Ref<> found = look_up(module, name);
    if (!found) PyErr_Clear();
    return found;
}

PyTypeObject* find_imported_class(const char* module, const char* name) {
    return reinterpret_cast<PyTypeObject*>(find_imported(module, name).release());
}

}  // namespace stator
