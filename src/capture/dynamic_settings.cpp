#include "capture/dynamic_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator {

namespace {

/// A module of settings of PyTorch; null if nothing has imported it.
PyObject* module_of_settings(const char* name) {
    return PyDict_GetItemWithError(PyImport_GetModuleDict(), interned(name));
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

Ref<> value_of(PyObject* settings, const char* name) {
    static auto* const known = new std::map<std::pair<PyObject*, std::string_view>, Setting>();
    auto found = known->find({settings, name});
    if (found == known->end()) found = known->emplace(std::pair(settings, name), Setting(settings, name)).first;
    return found->second.read();
}

bool is_on(PyObject* settings, const char* name, bool otherwise) {
    Ref<> value = value_of(settings, name);
    const int truth = value ? PyObject_IsTrue(value.get()) : -1;
    PyErr_Clear();
    return truth < 0 ? otherwise : truth == 1;
}

/// The parts of a list with commas, without spaces.
std::vector<std::string> listed(PyObject* settings, const char* name) {
    std::vector<std::string> parts;
    Ref<> value = value_of(settings, name);
    if (!value || !PyUnicode_Check(value.get())) return parts;
    std::string text(utf8(value.get()));
    std::erase(text, ' ');
    for (std::size_t start = 0; start < text.size();) {
        const std::size_t end = std::min(text.find(',', start), text.size());
        if (end > start) parts.push_back(text.substr(start, end - start));
        start = end + 1;
    }
    return parts;
}

std::optional<std::int64_t> as_number(std::string_view text) {
    std::int64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

/// `L['x']`, or `L['x']:0` for one dimension.
DynamicPolicy::NamedSource named_source(std::string name) {
    DynamicPolicy::NamedSource named;
    if (std::size_t colon = name.rfind(':'); colon != std::string::npos && colon > 0)
        if (auto dimension = as_number(std::string_view(name).substr(colon + 1)); dimension && *dimension >= 0) {
            named.dimension = static_cast<int>(*dimension);
            name.resize(colon);
        }
    static PyObject* const compile = imported("re", "compile");
    named.pattern = Ref<>::steal(PyObject_CallFunction(compile, "s", name.c_str()));
    PyErr_Clear();  // not a regular expression: then it is a name
    named.name = std::move(name);
    return named;
}

void read_lists(DynamicPolicy& policy) {
    PyObject* settings = module_of_settings("torch.compiler.config");
    if (settings == nullptr) return;
    for (std::string& name : listed(settings, "dynamic_sources")) policy.named.push_back(named_source(std::move(name)));
    // Unbacked sizes are symbols like others here.
    for (std::string& name : listed(settings, "unbacked_sources"))
        policy.named.push_back(named_source(std::move(name)));
    for (const std::string& value : listed(settings, "dynamic_values"))
        if (auto number = as_number(value)) policy.values.push_back(*number);
}

void read_dynamo_config(DynamicPolicy& policy) {
    PyObject* settings = module_of_settings("torch._dynamo.config");
    if (settings == nullptr) {
        const char* automatic = std::getenv("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES");
        policy.is_automatic = automatic == nullptr || std::string_view(automatic) == "1";
        return;
    }
    policy.is_automatic = is_on(settings, "automatic_dynamic_shapes", true);
    policy.is_static_by_default = is_on(settings, "assume_static_by_default", true);
    policy.specializes_ints = is_on(settings, "specialize_int", false);
    policy.specializes_floats = is_on(settings, "specialize_float", false);
    policy.has_static_parameters = is_on(settings, "force_parameter_static_shapes", true);
    policy.has_static_module_properties = is_on(settings, "force_nn_module_property_static_shapes", true);
    policy.has_dynamic_ints_of_modules = is_on(settings, "allow_unspec_int_on_nn_module", false);
    policy.may_specialize_marked_sizes = is_on(settings, "allow_ignore_mark_dynamic", false);
}

}  // namespace

DynamicPolicy read_dynamic_policy(DynamicShapes dynamic) {
    ErrorAside aside;
    DynamicPolicy policy;
    read_lists(policy);
    read_dynamo_config(policy);
    if (dynamic == DynamicShapes::Always) policy.is_static_by_default = false;
    if (dynamic == DynamicShapes::Never) {
        policy.is_automatic = false;
        policy.is_static_by_default = true;
    }
    return policy;
}

}  // namespace stator
