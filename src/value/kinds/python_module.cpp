#include "value/kinds/python_module.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

void PythonModuleValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Identity, source, held});
}

Value* PythonModuleValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    PyObject* dict = PyModule_GetDict(held);
    if (DictValue* changed = changed_dict(tracer, dict)) return changed->find(tracer, name);
    Source* holder =
        tracer.provenance().child(tracer.provenance().pinned(held), Access::InstanceDict, nullptr, 0, dict);
    PyObject* found = PyDict_GetItemWithError(dict, name);
    bool is_new = false;
    Source* place = tracer.provenance().child(holder, Access::DictItem, name, 0, found, &is_new);
    if (is_new) tracer.guard({found != nullptr ? GuardKind::Present : GuardKind::Absent, place});
    return found == nullptr ? nullptr : tracer.outside(place, found);
}

namespace {

DictValue* globals_to_change(Tracer& tracer, PyObject* module) {
    PyObject* dict = PyModule_GetDict(module);
    auto* value = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
    tracer.realize(value);
    return value;
}

/// Whether a module is `torch.ops` or one of its namespaces.
bool is_namespace_of_operators(PyTypeObject* type) {
    if (type == &PyModule_Type) return false;
    static PyTypeObject* const all = find_imported_class("torch._ops", "_Ops");
    static PyTypeObject* const one = find_imported_class("torch._ops", "_OpNamespace");
    return type == all || type == one;
}

/// `torch.ops.library.operator` looks an operator up in the dispatcher when it is first read, and keeps it as an
/// attribute. The look-up has no other effect, so that it can be made while tracing.
void look_up_operator(Tracer& tracer, PyObject* module, Borrowed<> name) {
    PyObject* dict = PyModule_GetDict(module);
    if (PyDict_Contains(dict, name) != 0 || changed_dict(tracer, dict) != nullptr) return;
    if (utf8(name).starts_with("_") || !Ref<>::steal(PyObject_GetAttr(module, name))) PyErr_Clear();
}

}  // namespace

void PythonModuleValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    globals_to_change(tracer, held)->insert(tracer, tracer.constant(name), value);
}

bool PythonModuleValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    return globals_to_change(tracer, held)->remove(tracer, tracer.constant(name)) != nullptr;
}

Outcome PythonModuleValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("__class__")) return tracer.constant(reinterpret_cast<PyObject*>(type()));
    if (name.get() == interned("__dict__")) {
        PyObject* dict = PyModule_GetDict(held);
        return tracer.outside(
            tracer.provenance().child(tracer.provenance().pinned(held), Access::InstanceDict, nullptr, 0, dict), dict);
    }
    if (is_namespace_of_operators(type())) look_up_operator(tracer, held, name);
    // Some modules are instances of a subclass of the module class (torch.backends.*), with properties and methods.
    bool has_own_class = type() != &PyModule_Type;
    PyObject* raw = nullptr;
    Value* attribute = has_own_class ? class_attribute(tracer, type(), name, &raw) : nullptr;
    if (raw != nullptr && Py_TYPE(raw)->tp_descr_set != nullptr) {
        if (Py_TYPE(raw) == &PyGetSetDescr_Type || Py_TYPE(raw) == &PyMemberDescr_Type)
            tracer.break_graph(BreakKind::UnknownObject,
                               "attribute '" + std::string(utf8(name)) + "' of " + print() + " is read by C code");
        return bind_attribute(tracer, attribute, raw, this, type(), name);
    }
    if (Value* own = own_attribute(tracer, name); own != nullptr) return own;
    if (!has_own_class) attribute = class_attribute(tracer, type(), name, &raw);  // `module.__getattribute__`
    if (raw != nullptr) return bind_attribute(tracer, attribute, raw, this, type(), name);
    Value* own_fallback = own_attribute(tracer, interned("__getattr__"));
    Value* class_fallback = has_own_class ? class_attribute(tracer, type(), interned("__getattr__"), &raw) : nullptr;
    if (class_fallback != nullptr && (own_fallback != nullptr || !PyFunction_Check(raw)))
        tracer.break_graph(BreakKind::CustomAttribute, "attributes of " + print() + " are found by C code");
    if (class_fallback != nullptr)
        return operations::call(tracer, class_fallback,
                                Arguments::of(static_cast<Value*>(this), tracer.constant(name)));
    if (own_fallback != nullptr) return operations::call(tracer, own_fallback, Arguments::of(tracer.constant(name)));
    const char* module_name = PyModule_GetName(held);
    tracer.raise(PyExc_AttributeError, "module '" + std::string(module_name == nullptr ? "?" : module_name) +
                                           "' has no attribute '" + std::string(utf8(name)) + "'");
}

int PythonModuleValue::rebuild(PlanBuilder& plan) {
    return rebuild_identical(plan, this, held);
}

std::string PythonModuleValue::print() const {
    const char* module_name = PyModule_GetName(held);
    return "module " + std::string(module_name == nullptr ? "?" : module_name);
}

}  // namespace stator
