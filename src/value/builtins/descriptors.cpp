/// `descriptor.__get__(instance, owner)`, called by the program itself.
#include "base/names.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/builtins/registry.h"
#include "value/kinds/class.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, PyObject* descriptor) {
    tracer.break_graph(BreakKind::UnknownFunction,
                       "__get__ of a " + type_name(Py_TYPE(descriptor)) + " is called with unusual arguments");
}

bool has_owner(PyObject* descriptor) {
    PyTypeObject* type = Py_TYPE(descriptor);
    return type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type || type == &PyMethodDescr_Type ||
           type == &PyWrapperDescr_Type;
}

/// For messages, and for attributes that the kind of a value computes by their name.
PyObject* name_of(PyObject* descriptor) {
    return has_owner(descriptor) ? reinterpret_cast<PyDescrObject*>(descriptor)->d_name : interned("__get__");
}

/// The attribute of an instance that the descriptor would be found for by its name.
bool is_found_by_name(PyObject* descriptor, const Value* instance) {
    return cpython::lookup_in_mro(instance->type(), name_of(descriptor), nullptr) == descriptor;
}

Outcome get_through(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__get__", arguments, {"self", "instance", "owner"}, 2, 3);
    Value *descriptor = bound[0], *instance = bound[1], *owner = bound[2];
    tracer.realize(descriptor);
    tracer.realize(instance);
    PyObject* raw = descriptor->object();
    if (raw == nullptr) tracer.break_graph(BreakKind::UnknownObject, "__get__ of a new descriptor is called");
    if (descriptor->source != nullptr) tracer.guard({GuardKind::Identity, descriptor->source, raw});
    if (owner != nullptr) tracer.realize(owner);
    auto* type = owner == nullptr ? nullptr : cast<ClassValue>(owner);
    PyObject* const name = name_of(raw);
    if (instance->object() == Py_None) {
        if (type == nullptr || type->held == Py_TYPE(Py_None)) refuse(tracer, raw);
        return bind_attribute(tracer, descriptor, raw, nullptr, type->held, name);
    }
    if (has_owner(raw)) {
        if (!PyType_IsSubtype(instance->type(), PyDescr_TYPE(raw))) refuse(tracer, raw);
        const bool is_field = Py_IS_TYPE(raw, &PyGetSetDescr_Type) || Py_IS_TYPE(raw, &PyMemberDescr_Type);
        const bool is_computed_by_kind = instance->kind != Kind::Object;
        if (is_field && is_computed_by_kind) {
            if (!is_found_by_name(raw, instance)) refuse(tracer, raw);
            return operations::get_attribute(tracer, instance, name);
        }
    }
    return bind_attribute(tracer, descriptor, raw, instance, type == nullptr ? instance->type() : type->held, name);
}

/// `property.__set__(instance, value)` and `property.__delete__(instance)`, called by the program itself.
Task change_property(Tracer& tracer, Value* property, const char* function, Arguments arguments) {
    Value* changes = co_await operations::get_attribute(tracer, property, interned(function));
    tracer.realize(changes);
    if (changes->object() == Py_None)
        tracer.break_graph(BreakKind::UnknownFunction, "a property is changed that has no such function");
    co_await operations::call(tracer, changes, arguments);
    co_return tracer.none();
}

Outcome property_set(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__set__", arguments, {"self", "instance", "value"}, 3, 3);
    return tracer.start(change_property(tracer, bound[0], "fset", Arguments::of(bound[1], bound[2])));
}

Outcome property_delete(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "__delete__", arguments, {"self", "instance"}, 2, 2);
    return tracer.start(change_property(tracer, bound[0], "fdel", Arguments::of(bound[1])));
}

}  // namespace

void register_descriptors(Handlers& handlers) {
    for (PyTypeObject* type : {&PyGetSetDescr_Type, &PyMemberDescr_Type, &PyMethodDescr_Type, &PyWrapperDescr_Type,
                               &PyProperty_Type, &PyClassMethod_Type, &PyStaticMethod_Type})
        handlers.add_method(type, "__get__", get_through);
    handlers.add_method(&PyProperty_Type, "__set__", property_set);
    handlers.add_method(&PyProperty_Type, "__delete__", property_delete);
}

}  // namespace stator
