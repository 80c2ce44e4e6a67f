#include "capture/dynamic_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "capture/settings.h"

namespace stator {

namespace {

bool is_on(PyObject* settings, const char* name, bool otherwise) {
    Ref<> value = setting_of(settings, name);
    const int truth = value ? PyObject_IsTrue(value.get()) : -1;
    PyErr_Clear();
    return truth < 0 ? otherwise : truth == 1;
}

/// The parts of a list with commas, without spaces.
std::vector<std::string> listed(PyObject* settings, const char* name) {
    std::vector<std::string> parts;
    Ref<> value = setting_of(settings, name);
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
    // An int is a symbol like others.
    for (std::string& name : listed(settings, "unbacked_sources")) {
        policy.unbacked.push_back(named_source(name));
        policy.named.push_back(named_source(std::move(name)));
    }
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

void read_fx_config(DynamicPolicy& policy) {
    PyObject* settings = module_of_settings("torch.fx.experimental._config");
    if (settings == nullptr) return;
    policy.shares_symbols = is_on(settings, "use_duck_shape", true);
    if (Ref<> limit = setting_of(settings, "symbol_guard_limit_before_specialize"); limit && PyLong_Check(limit.get()))
        policy.most_guards_of_symbol = PyLong_AsLongLong(limit.get());
    PyErr_Clear();
}

}  // namespace

DynamicPolicy read_dynamic_policy(DynamicShapes dynamic) {
    ErrorAside aside;
    DynamicPolicy policy;
    read_lists(policy);
    read_dynamo_config(policy);
    read_fx_config(policy);
    if (dynamic == DynamicShapes::Always) policy.is_static_by_default = false;
    if (dynamic == DynamicShapes::Never) {
        policy.is_automatic = false;
        policy.is_static_by_default = true;
    }
    return policy;
}

}  // namespace stator
