#include "source/dynamic_policy.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"

namespace stator {

namespace {

bool is_module(PyObject* object) {
    return object != nullptr && PyObject_TypeCheck(object, torch_room::known().module_class);
}

bool matches(const DynamicPolicy::NamedSource& named, const std::string& text) {
    if (named.name == text) return true;
    if (!named.pattern) return false;
    Ref<> found = Ref<>::steal(PyObject_CallMethod(named.pattern.get(), "match", "s", text.c_str()));
    if (!found) PyErr_Clear();
    return found && found.get() != Py_None;
}

bool any_matches(const std::vector<DynamicPolicy::NamedSource>& all, const Source& source, int dimension) {
    if (all.empty()) return false;
    // As messages print it, and as it is without labels of arguments.
    const std::string texts[] = {print(source), path(source)};
    return std::ranges::any_of(all, [&](const DynamicPolicy::NamedSource& one) {
        if (one.dimension >= 0 && dimension >= 0 && one.dimension != dimension) return false;
        return matches(one, texts[0]) || matches(one, texts[1]);
    });
}

}  // namespace

const char* print(SymbolOrigin origin) {
    switch (origin) {
        case SymbolOrigin::Changed:
            return "changed between calls";
        case SymbolOrigin::Assigned:
            return "assigned before a graph break";
        case SymbolOrigin::Marked:
            return "marked with mark_dynamic";
        case SymbolOrigin::MaybeMarked:
            return "marked with maybe_mark_dynamic";
        case SymbolOrigin::Unbacked:
            return "marked with mark_unbacked, or named by torch.compiler.config.unbacked_sources";
        case SymbolOrigin::Named:
            return "named by torch.compiler.config.dynamic_sources";
        case SymbolOrigin::Listed:
            return "listed in torch.compiler.config.dynamic_values";
        case SymbolOrigin::Default:
            break;
    }
    return "dynamic=True";
}

bool DynamicPolicy::names(const Source& source, int dimension) const {
    return any_matches(named, source, dimension);
}

bool DynamicPolicy::names_unbacked(const Source& source, int dimension) const {
    return any_matches(unbacked, source, dimension);
}

bool DynamicPolicy::has_value(std::int64_t number) const {
    return std::ranges::find(values, number) != values.end();
}

PyObject* module_above(const Source& source) {
    for (const Source* above = source.parent; above != nullptr; above = above->parent)
        if (is_module(above->object)) return above->object;
    return nullptr;
}

bool is_static_module(PyObject* module) {
    PyTypeObject* type = Py_TYPE(module);
    PyObject* mark = cpython::lookup_in_mro(type, interned("_dynamo_marked_static"));
    if (mark != nullptr && mark == Py_True) return true;
    PyObject* home = cpython::lookup_in_mro(type, interned("__module__"));
    if (home == nullptr || !PyUnicode_Check(home)) return false;
    std::string_view name = utf8(home);
    return (name.starts_with("torch.nn.modules") && !name.starts_with("torch.nn.modules.container")) ||
           name.starts_with("torch.ao.");
}

bool is_parameter_or_buffer(const Source& source) {
    if (source.access != Access::DictItem || source.parent->access != Access::DictItem) return false;
    const Source& holder = *source.parent;
    bool has_name = holder.key == interned("_parameters") || holder.key == interned("_buffers");
    return has_name && holder.parent->access == Access::InstanceDict && is_module(holder.parent->parent->object);
}

bool is_of_arguments(const Source& source) {
    const Source* at = &source;
    for (; at->parent != nullptr; at = at->parent)
        if (at->access == Access::Globals || at->access == Access::Builtins || at->access == Access::Default ||
            at->access == Access::KeywordDefault || at->access == Access::ClassAttribute ||
            is_module(at->parent->object))
            return false;
    return at->access == Access::Slot || at->access == Access::Function;
}

}  // namespace stator
