#include "capture/settings.h"

#include <cstdlib>
#include <map>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/ref.h"
#include "base/text.h"

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

/// A setting, read without running Python code: PyTorch keeps what a program has set in a context variable. The value
/// of one that was not set does not change.
class Setting {
  public:
    Setting(PyObject* settings, const char* name) : settings_(settings), name_(interned(name)) {
        Ref<> entries = Ref<>::steal(PyObject_GetAttrString(settings, "_config"));
        Ref<> entry = entries ? Ref<>::steal(PyObject_GetItem(entries.get(), name_)) : Ref<>();
        Ref<> variable = entry ? Ref<>::steal(PyObject_GetAttrString(entry.get(), "user_override")) : Ref<>();
        PyErr_Clear();
        if (variable && PyContextVar_CheckExact(variable.get())) variable_ = variable.release();
    }

    /// Empty if there is no such setting.
    Ref<> read() {
        static PyObject* const unset = find_imported("torch.utils._config_module", "_UNSET_SENTINEL").release();
        PyObject* set = nullptr;
        if (variable_ != nullptr && unset != nullptr && PyContextVar_Get(variable_, nullptr, &set) == 0) {
            Ref<> value = Ref<>::steal(set);
            if (value.get() != unset) return value;
            if (default_ != nullptr) return Ref<>::share(default_);
        }
        Ref<> value = Ref<>::steal(PyObject_GetAttr(settings_, name_));
        PyErr_Clear();
        if (set != nullptr && set == unset && value) default_ = Ref<>(value).release();
        return value;
    }

  private:
    PyObject *settings_, *name_;
    PyObject* variable_ = nullptr;
    PyObject* default_ = nullptr;
};

}  // namespace

PyObject* module_of_settings(const char* name) {
    return PyDict_GetItemWithError(PyImport_GetModuleDict(), interned(name));
}

Ref<> setting_of(PyObject* settings, const char* name) {
    static auto* const known = new std::map<std::pair<PyObject*, std::string_view>, Setting>();
    auto found = known->find({settings, name});
    if (found == known->end()) found = known->emplace(std::pair(settings, name), Setting(settings, name)).first;
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
