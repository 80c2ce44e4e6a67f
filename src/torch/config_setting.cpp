#include "torch/config_setting.h"

#include "base/imported.h"
#include "base/names.h"

namespace stator::torch_room {

ConfigSetting::ConfigSetting(PyObject* settings, const char* name) : settings_(settings), name_(interned(name)) {
    Ref<> entries = Ref<>::steal(PyObject_GetAttrString(settings, "_config"));
    Ref<> entry = entries ? Ref<>::steal(PyObject_GetItem(entries.get(), name_)) : Ref<>();
    Ref<> variable = entry ? Ref<>::steal(PyObject_GetAttrString(entry.get(), "user_override")) : Ref<>();
    PyErr_Clear();
    if (variable && PyContextVar_CheckExact(variable.get())) variable_ = variable.release();
}

Ref<> ConfigSetting::read() {
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

}  // namespace stator::torch_room
