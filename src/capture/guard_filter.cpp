#include "capture/guard_filter.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/python_error.h"
#include "source/dynamic_policy.h"
#include "torch/known.h"

namespace stator {

namespace {

/// The name that torch has for a guard like this one.
const char* torch_name(const Guard& guard) {
    switch (guard.kind) {
        case GuardKind::Type:
        case GuardKind::Subclass:
            return "TYPE_MATCH";
        case GuardKind::Identity:
            if (PyType_Check(guard.expected)) return "CLASS_MATCH";
            if (PyModule_Check(guard.expected)) return "MODULE_MATCH";
            return PyCFunction_Check(guard.expected) ? "BUILTIN_MATCH" : "ID_MATCH";
        case GuardKind::Constant:
            return "CONSTANT_MATCH";
        case GuardKind::Function:
            return "CLOSURE_MATCH";
        case GuardKind::Length:
            return "SEQUENCE_LENGTH";
        case GuardKind::Present:
            return "DICT_CONTAINS";
        case GuardKind::HasNoKey:
            return guard.source->access == Access::InstanceDict ? "NOT_PRESENT_IN_GENERIC_DICT" : "DICT_NOT_CONTAINS";
        case GuardKind::Absent:
            return "HASATTR";
        case GuardKind::Keys:
            return "DICT_KEYS_MATCH";
        case GuardKind::Elements:
            return "SET_CONTAINS";
        case GuardKind::Tensor:
        case GuardKind::Autograd:
        case GuardKind::Offset:
            return "TENSOR_MATCH";

        case GuardKind::Same:
        case GuardKind::Different: {
            // An object is known by a weak reference, so that the guard does not keep it alive.
            const bool is_by_reference = guard.source->access == Access::Referent ||
                                         (guard.other != nullptr && guard.other->access == Access::Referent);
            return is_by_reference ? "ID_MATCH" : "DUPLICATE_INPUT";
        }
        case GuardKind::Expression:
            return "SHAPE_ENV";
    }
    return "?";
}

/// The module that an object is part of: itself, or the nearest one above; for an attribute of a class of modules, the
/// class.
PyObject* module_of(const Source& source) {
    PyTypeObject* const module_class = torch_room::known().module_class;
    if (source.object != nullptr && PyObject_TypeCheck(source.object, module_class)) return source.object;
    if (PyObject* above = module_above(source)) return above;
    for (const Source* at = source.parent; at != nullptr; at = at->parent)
        if (at->object != nullptr && PyType_Check(at->object) &&
            PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(at->object), module_class))
            return at->object;
    return nullptr;
}

Ref<> describe(const Guard& guard) {
    const Source& source = *guard.source;
    PyObject* module = module_of(source);
    const std::string name = print(source);
    return checked(Py_BuildValue("(ssOOOO)", torch_name(guard), name.c_str(),
                                 source.object == nullptr ? Py_False : Py_True,
                                 source.object == nullptr ? Py_None : source.object,
                                 name.starts_with("G[") ? Py_True : Py_False, module == nullptr ? Py_None : module));
}

/// Relations are one guard, as in torch.
bool is_condition(const Guard& guard) {
    return guard.kind == GuardKind::Expression;
}

/// One truth value for each described guard, then that of the relations and that of the modes.
std::vector<bool> ask(PyObject* filter, const std::vector<Guard>& guards) {
    Ref<> described = checked(PyList_New(0));
    for (const Guard& guard : guards)
        if (!is_condition(guard)) checked(PyList_Append(described.get(), describe(guard).get()));
    Ref<> filters = checked(PyImport_ImportModule("stator.guard_filters"));
    Ref<> answer = checked(PyObject_CallMethod(filters.get(), "kept", "OO", filter, described.get()));
    Ref<> items = checked(PySequence_Tuple(answer.get()));
    std::vector<bool> kept;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
        kept.push_back(PyTuple_GET_ITEM(items.get(), i) == Py_True);
    return kept;
}

}  // namespace

KeptGuards filter_guards(const CompileOptions& options, const Trace& trace) {
    if (!options.guard_filter) return {};
    const std::vector<bool> kept = ask(options.guard_filter.get(), trace.guards);
    const std::unordered_set<const Source*> inputs(trace.inputs.begin(), trace.inputs.end());
    const std::unordered_set<const Source*> of_plan(trace.fetched.begin(), trace.fetched.end());
    KeptGuards left;
    std::vector<Guard>& guards = left.guards.emplace();
    left.has_conditions = kept[kept.size() - 2];
    left.has_state = kept[kept.size() - 1];
    std::size_t next = 0;
    for (const Guard& guard : trace.guards) {
        if (is_condition(guard) ? left.has_conditions : kept[next++]) {
            guards.push_back(guard);
            continue;
        }
        const bool is_class =
            guard.kind == GuardKind::Type || guard.kind == GuardKind::Function || guard.kind == GuardKind::Length;
        if (is_class && of_plan.contains(guard.source)) guards.push_back(guard);
        if (guard.kind == GuardKind::Tensor && (inputs.contains(guard.source) || of_plan.contains(guard.source)))
            guards.push_back({.kind = GuardKind::Type,
                              .source = guard.source,
                              .expected = reinterpret_cast<PyObject*>(Py_TYPE(guard.expected))});
    }
    return left;
}

}  // namespace stator
