#include "capture/settings.h"

#include <cstdlib>
#include <map>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/python_error.h"
#include "base/ref.h"
#include "base/text.h"
#include "torch/config_setting.h"

namespace stator {

namespace {

/// `stator.settings.values[name]`: one plain dict for the life of the process.
PyObject* value_of(const char* name) {
    static PyObject* values = nullptr;
    if (values == nullptr) {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("stator.settings"));
        if (module) values = PyObject_GetAttrString(module.get(), "values");
    }
    return values != nullptr && PyDict_Check(values) ? PyDict_GetItemString(values, name) : nullptr;
}

/// Another thread may be at it: settings are there when it is done.
bool is_being_imported(PyObject* module) {
    Ref<> spec = Ref<>::steal(PyObject_GetAttr(module, interned("__spec__")));
    Ref<> is_at_it = spec ? Ref<>::steal(PyObject_GetAttr(spec.get(), interned("_initializing"))) : Ref<>();
    PyErr_Clear();
    return is_at_it.get() == Py_True;
}

}  // namespace

PyObject* module_of_settings(const char* name) {
    // Asking whether its import has ended takes longer than all else here, and the answer stays the same.
    static auto* const imported = new std::vector<Ref<>>();
    PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), interned(name));
    if (module == nullptr) return nullptr;
    for (const Ref<>& known : *imported)
        if (known.get() == module) return module;
    if (is_being_imported(module)) return nullptr;
    imported->push_back(Ref<>::share(module));
    return module;
}

Ref<> setting_of(PyObject* settings, const char* name) {
    static auto* const known = new std::map<std::pair<PyObject*, std::string_view>, torch_room::ConfigSetting>();
    auto found = known->find({settings, name});
    if (found == known->end())
        found = known->emplace(std::pair(settings, name), torch_room::ConfigSetting(settings, name)).first;
    return found->second.read();
}

long setting(const char* name, long otherwise) {
    ErrorAside aside;
    PyObject* value = value_of(name);
    long number = value == nullptr ? otherwise : PyLong_AsLong(value);
    PyErr_Clear();
    return number;
}

std::string text_setting(const char* name) {
    ErrorAside aside;
    PyObject* value = value_of(name);
    PyErr_Clear();
    return value != nullptr && PyUnicode_Check(value) ? std::string(utf8(value)) : "";
}

long dynamo_number(const char* name, long otherwise) {
    ErrorAside aside;
    PyObject* config = module_of_settings("torch._dynamo.config");
    if (config == nullptr) return otherwise;
    Ref<> value = setting_of(config, name);
    const long number = value && PyLong_Check(value.get()) ? PyLong_AsLong(value.get()) : otherwise;
    PyErr_Clear();
    return number;
}

long shared_setting(const char* name, long otherwise) {
    const long own = setting(name, otherwise);
    return own != otherwise ? own : dynamo_number(name, otherwise);
}

bool dynamo_switch(const char* name, const char* variable) {
    ErrorAside aside;
    PyObject* config = module_of_settings("torch._dynamo.config");
    if (config == nullptr) {
        const char* value = *variable == '\0' ? nullptr : std::getenv(variable);
        return value != nullptr && std::string_view(value) == "1";
    }
    Ref<> value = setting_of(config, name);
    const bool is_on = value && PyObject_IsTrue(value.get()) == 1;
    PyErr_Clear();
    return is_on;
}

}  // namespace stator
