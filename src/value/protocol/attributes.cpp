#include "value/protocol/attributes.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/builtins/builtin.h"
#include "value/effect_log.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/made_class.h"
#include "value/kinds/made_descriptor.h"
#include "value/kinds/object.h"
#include "value/protocol/operations.h"
#include "value/protocol/refusal.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/torch_function.h"

namespace stator {

namespace {

bool is_c_callable_descriptor(PyObject* raw) {
    PyTypeObject* type = Py_TYPE(raw);
    return type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type;
}

/// The object inside a classmethod, staticmethod or property. These wrappers are immutable, so it is pinned with them.
Value* wrapped_by(Tracer& tracer, PyObject* raw, const char* part) {
    Ref<> inner = checked(PyObject_GetAttr(raw, interned(part)));
    if (Value* made = StandIn::behind(inner.get())) return made;
    return tracer.outside(tracer.provenance().pinned(inner.get()), inner.get());
}

Value* class_value(Tracer& tracer, PyTypeObject* type) {
    return tracer.constant(reinterpret_cast<PyObject*>(type));
}

[[noreturn]] void raise_missing(Tracer& tracer, Value* self, Borrowed<> name, const std::string& text) {
    ExceptionValue* exception =
        make_exception(tracer, reinterpret_cast<PyTypeObject*>(PyExc_AttributeError), {tracer.string(text)});
    exception->attributes = {{interned("name"), tracer.constant(name)}, {interned("obj"), self}};
    throw Raised{exception};
}

[[noreturn]] void raise_empty(Tracer& tracer, Value* self, Borrowed<> name) {
    Ref<> class_name = cpython::name_for_empty_slot_message(self->type());
    raise_missing(tracer, self, name,
                  "'" + std::string(utf8(class_name)) + "' object has no attribute '" + std::string(utf8(name)) + "'");
}

/// Bounds, defaults and values of type parameters and aliases, from 3.12 on: user code that is evaluated on first
/// access.
bool is_evaluated_late(PyObject* descriptor) {
    if (Py_TYPE(descriptor) != &PyGetSetDescr_Type) return false;
    std::string_view owner = PyDescr_TYPE(descriptor)->tp_name;
    return owner == "typing.TypeVar" || owner == "typing.ParamSpec" || owner == "typing.TypeVarTuple" ||
           owner == "typing.TypeAliasType";
}

/// Whether the program can't tell what two reads of an attribute gave. The `ctx` of a `torch.autograd.Function` makes a
/// tuple of its saved tensors at each read, and anew those tensors that `forward` returned.
bool is_one_object(PyObject* owner, PyObject* first, PyObject* second) {
    if (first == second || is_safe_to_compare(first)) return true;
    static PyTypeObject* const contexts = imported_class("torch._C", "_FunctionBase");
    if (PyType_IsSubtype(Py_TYPE(owner), contexts) == 0 || !PyTuple_CheckExact(first) || !PyTuple_CheckExact(second) ||
        PyTuple_GET_SIZE(first) != PyTuple_GET_SIZE(second))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(first); ++i) {
        PyObject *one = PyTuple_GET_ITEM(first, i), *other = PyTuple_GET_ITEM(second, i);
        const bool are_tensors =
            Py_TYPE(one) == torch_room::known().tensor_class && Py_TYPE(other) == torch_room::known().tensor_class;
        if (!are_tensors && !is_one_object(owner, one, other)) return false;
    }
    return true;
}

/// A field of an instance that C code stores: a slot, or a getter written in C.
Value* read_member(Tracer& tracer, PyObject* raw, Value* self, Borrowed<> name) {
    PyObject* real = self->object();
    if (real == nullptr || self->source == nullptr) {
        if (Value* own = self->own_attribute(tracer, name); own != nullptr) return own;
        bool is_slot = Py_TYPE(raw) == &PyMemberDescr_Type &&
                       PyType_HasFeature(reinterpret_cast<PyDescrObject*>(raw)->d_type, Py_TPFLAGS_HEAPTYPE);
        if (is_slot) raise_empty(tracer, self, name);
        tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of a new " +
                                                         type_name(self->type()) + " is read by C code");
    }
    const ObjectValue* object = as_object(self);
    if (object != nullptr && PyType_IsSubtype(self->type(), Py_TYPE(real)))
        for (auto& [key, value] : object->attributes) {
            if (key != name.get()) continue;
            if (value == nullptr) raise_empty(tracer, self, name);
            return value;
        }
    if (is_evaluated_late(raw))
        tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of a " +
                                                         type_name(self->type()) +
                                                         " is evaluated lazily when it is read");
    Ref<> first = Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, real, reinterpret_cast<PyObject*>(Py_TYPE(real))));
    if (!first) {
        bool is_missing = PyErr_ExceptionMatches(PyExc_AttributeError) != 0;
        PyErr_Clear();
        if (!is_missing)
            tracer.break_graph(BreakKind::UnknownObject, "reading attribute '" + std::string(utf8(name)) + "' of " +
                                                             type_name(self->type()) + " fails");
        tracer.guard({GuardKind::Absent, tracer.provenance().child(self->source, Access::Member, name, 0, nullptr)});
        raise_empty(tracer, self, name);
    }
    Ref<> second = checked(Py_TYPE(raw)->tp_descr_get(raw, real, reinterpret_cast<PyObject*>(Py_TYPE(real))));
    if (!is_one_object(real, first.get(), second.get()))
        tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of " +
                                                         type_name(self->type()) + " is a new object at each read");
    Source* source = tracer.provenance().child(self->source, Access::Member, name, 0, first.get());
    return tracer.outside(source, first.get());
}

Outcome read_descriptor(Tracer& tracer, PyObject* raw, Value* self, Borrowed<> name) {
    if (name.get() == interned("__class__")) return class_value(tracer, self->type());
    if (name.get() == interned("__dict__")) return instance_dict(tracer, self);
    const bool is_slot = Py_TYPE(raw) == &PyMemberDescr_Type;
    if (auto* tensor = is_slot ? nullptr : cast<TensorObjectValue>(self))
        return attribute_of_tensor_object(tracer, tensor, name);
    return read_member(tracer, raw, self, name);
}

Value* find_in_module(Tracer& tracer, Value* self, const char* dict_name, Borrowed<> name) {
    auto* dict = cast<DictValue>(self->own_attribute(tracer, interned(dict_name)));
    if (dict == nullptr) return nullptr;
    tracer.realize(dict);
    return dict->find(tracer, name);
}

/// `torch.nn.Module.__getattr__` without tracing it: parameters, buffers and submodules.
Value* module_attribute(Tracer& tracer, Value* self, Borrowed<> name) {
    for (const char* dict_name : {"_parameters", "_buffers", "_modules"})
        if (Value* found = find_in_module(tracer, self, dict_name, name); found != nullptr) {
            // Reading a parameter makes it an input right away: torch._dynamo has the same order.
            tracer.realize(found);
            return found;
        }
    tracer.raise(PyExc_AttributeError, "'" + std::string(utf8(PyType_GetName(self->type()))) +
                                           "' object has no attribute '" + std::string(utf8(name)) + "'");
}

/// The name of a class without its module, as in CPython's messages.
std::string type_short_name(PyTypeObject* type) {
    return type->tp_name;  // for a static class, `tp_name` includes the module
}

}  // namespace

namespace {

PyObject* class_dict_at(PyTypeObject* type, Py_ssize_t position) {
    return cpython::class_dict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, position)));
}

/// Whether the trace has changed attributes of a class in the MRO.
bool has_changed_class(Tracer& tracer, PyTypeObject* type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
        if (changed_dict(tracer, class_dict_at(type, i)) != nullptr) return true;
    return false;
}

/// Looks a name up along an MRO among the class attributes that the trace has changed; false if none is found.
bool changed_class_attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, Value** value, PyObject** found) {
    if (!has_changed_class(tracer, type)) return false;
    bool met_change = false;
    *value = nullptr;
    *found = nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        PyObject* dict = class_dict_at(type, i);
        if (DictValue* changed = changed_dict(tracer, dict)) {
            if (auto known = changed->overlaid(tracer, tracer.constant(name))) {
                met_change = true;
                if (*known == nullptr) continue;
                *value = *known;
                *found = descriptor_like(tracer, *known);
                return true;
            }
        }
        PyObject* raw = PyDict_GetItemWithError(dict, name);
        if (raw == nullptr) continue;
        if (!met_change) return false;
        Source* place = tracer.provenance().child(tracer.provenance().pinned(dict), Access::DictItem, name, 0, raw);
        tracer.guard({GuardKind::Identity, place, raw});
        *value = tracer.outside(place, raw);
        *found = raw;
        tracer.realize(*value);
        return true;
    }
    return met_change;
}

/// Whether it numbers the handles of hooks: what registers a hook increments it in every call.
bool numbers_handles(PyTypeObject* type, Borrowed<> name) {
    static PyTypeObject* const handle = imported_class("torch.utils.hooks", "RemovableHandle");
    return type == handle && name.get() == interned("next_id");
}

}  // namespace

Value* class_attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, PyObject** found) {
    PyObject* of_made = nullptr;
    if (Value* value = MadeClass::attribute(tracer, type, name, &of_made)) {
        if (found != nullptr) *found = of_made;
        tracer.realize(value);
        return value;
    }
    if (!tracer.effects().empty()) {
        Value* value = nullptr;
        PyObject* now = nullptr;
        if (changed_class_attribute(tracer, type, name, &value, &now)) {
            if (found != nullptr) *found = now;
            return value;
        }
    }
    PyObject* raw = cpython::lookup_in_mro(type, name, nullptr);
    if (found != nullptr) *found = raw;
    Source* holder = tracer.provenance().pinned(reinterpret_cast<PyObject*>(type));
    bool is_new = false;
    Source* source = tracer.provenance().child(holder, Access::ClassAttribute, name, 0, raw, &is_new);
    if (raw == nullptr) {
        if (is_new) tracer.guard({GuardKind::Absent, source});
        return nullptr;
    }
    if (is_new) source->varies = numbers_handles(type, name);
    Value* value = tracer.outside(source, raw);
    // The kind of attribute decides how it is bound, so it is guarded even if its value is not.
    if (is_new && Py_TYPE(raw)->tp_descr_get != nullptr && !PyFunction_Check(raw))
        tracer.guard({GuardKind::Identity, source, raw});
    if (symbolic::is(value))
        symbolic::realize_class(tracer, value);
    else
        tracer.realize(value);
    return value;
}

void guard_mro(Tracer& tracer, PyTypeObject* type) {
    if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return;
    Source* holder = tracer.provenance().pinned(reinterpret_cast<PyObject*>(type));
    Source* mro = tracer.provenance().child(holder, Access::Member, interned("__mro__"), 0, type->tp_mro);
    tracer.guard({GuardKind::Identity, mro, type->tp_mro});
}

bool is_subtype(Tracer& tracer, PyTypeObject* type, PyTypeObject* of) {
    if (type != of) guard_mro(tracer, type);
    return PyType_IsSubtype(type, of) != 0;
}

bool has_special_method(Tracer& tracer, PyTypeObject* type, const char* name) {
    if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
        return cpython::lookup_in_mro(type, interned(name), nullptr) != nullptr;
    PyObject* found = nullptr;
    class_attribute(tracer, type, interned(name), &found);
    return found != nullptr;
}

namespace {

/// Whether a class attribute is a descriptor, and whether it takes precedence over the instance dict. Both depend on
/// its class, which is guarded.
bool is_descriptor(Tracer& tracer, PyObject* raw) {
    return has_special_method(tracer, Py_TYPE(raw), "__get__");
}

bool is_data_descriptor(Tracer& tracer, PyObject* raw) {
    PyTypeObject* type = Py_TYPE(raw);
    if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE)) return type->tp_descr_set != nullptr;
    bool is_set = has_special_method(tracer, type, "__set__"),
         is_deleted = has_special_method(tracer, type, "__delete__");
    return is_set || is_deleted;
}

/// Whether a classmethod binds the descriptor that it wraps (`@classmethod @property`), as Python 3.9 to 3.12 do.
bool classmethods_chain() {
    static const bool answer = [] {
        Ref<> wrapped = checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyProperty_Type),
                                                    reinterpret_cast<PyObject*>(&PyType_Type)));
        Ref<> method = checked(PyClassMethod_New(wrapped.get()));
        auto* type = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
        Ref<> bound = checked(PyClassMethod_Type.tp_descr_get(method.get(), nullptr, type));
        return bound.get() == reinterpret_cast<PyObject*>(&PyType_Type);
    }();
    return answer;
}

/// Whether instances are compiled functions, which a class binds as it binds functions.
bool is_compiled_by_stator(PyTypeObject* type) {
    PyObject* slot = cpython::lookup_in_mro(type, interned("_stator_callable"), nullptr);
    return slot != nullptr && Py_TYPE(slot) == &PyMemberDescr_Type;
}

}  // namespace

Outcome bind_attribute(Tracer& tracer, Value* attribute, PyObject* raw, Value* self, PyTypeObject* type,
                       Borrowed<> name) {
    if (PyFunction_Check(raw) || is_c_callable_descriptor(raw)) {
        if (self == nullptr) return attribute;
        return tracer.make<MethodValue>(attribute, self);
    }
    PyTypeObject* kind = Py_TYPE(raw);
    if (!is_descriptor(tracer, raw)) return attribute;
    static PyObject* const cached = imported("functools", "_lru_cache_wrapper");
    if (reinterpret_cast<PyObject*>(kind) == cached || is_compiled_by_stator(kind)) {
        if (self == nullptr) return attribute;
        return tracer.make<MethodValue>(attribute, self);
    }
    if (kind == &PyInstanceMethod_Type) {  // methods created by pybind11
        if (self == nullptr) return attribute;
        return tracer.make<MethodValue>(tracer.constant(PyInstanceMethod_GET_FUNCTION(raw)), self);
    }
    // `abc` has subclasses of both.
    if (PyObject_TypeCheck(raw, &PyClassMethod_Type) && kind->tp_descr_get == PyClassMethod_Type.tp_descr_get) {
        Value* function = wrapped_by(tracer, raw, "__func__");
        const bool wraps_descriptor = function->kind != Kind::Function && function->kind != Kind::Builtin &&
                                      is_descriptor(tracer, function->object());
        if (wraps_descriptor && classmethods_chain())
            return bind_attribute(tracer, function, function->object(), class_value(tracer, type), type, name);
        return tracer.make<MethodValue>(function, class_value(tracer, type));
    }
    if (kind == &PyClassMethodDescr_Type) return tracer.make<MethodValue>(attribute, class_value(tracer, type));
    if (PyObject_TypeCheck(raw, &PyStaticMethod_Type) && kind->tp_descr_get == PyStaticMethod_Type.tp_descr_get)
        return wrapped_by(tracer, raw, "__func__");
    if (PyObject_TypeCheck(raw, &PyProperty_Type) && kind->tp_descr_get == PyProperty_Type.tp_descr_get) {
        if (self == nullptr) return attribute;
        Value* getter = wrapped_by(tracer, raw, "fget");
        if (getter->object() == Py_None)
            // The message depends on the name that the property stores.
            tracer.break_graph(BreakKind::UnknownObject, "property '" + std::string(utf8(name)) + "' has no getter");
        return operations::call(tracer, getter, Arguments::of(self));
    }
    if (kind == &PyGetSetDescr_Type || kind == &PyMemberDescr_Type)
        return self == nullptr ? Outcome(attribute) : read_descriptor(tracer, raw, self, name);
    PyObject* getter = cpython::lookup_in_mro(kind, interned("__get__"), nullptr);
    if (getter != nullptr && PyFunction_Check(getter)) {
        Value* function = class_attribute(tracer, kind, interned("__get__"));
        Value* instance = self == nullptr ? tracer.none() : self;
        return operations::call(tracer, function, Arguments::of(attribute, instance, class_value(tracer, type)));
    }
    if (self == nullptr || PyCFunction_Check(raw)) return attribute;
    tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of " +
                                                     type_name(self->type()) + " is a " + type_name(kind) +
                                                     ", a descriptor written in C");
}

void raise_no_attribute(Tracer& tracer, Value* self, Borrowed<> name) {
    std::string missing = "' object has no attribute '" + std::string(utf8(name)) + "'";
    PyTypeObject* type = self->type();
    if (auto* held = cast<ClassValue>(self)) {
        missing = "' has no attribute '" + std::string(utf8(name)) + "'";
        type = held->held;
    }
    std::string text = (self->kind == Kind::Class ? "type object '" : "'") + type_short_name(type) + missing;
    raise_missing(tracer, self, name, text);
}

void refuse_attribute(Tracer& tracer, Value* self, Borrowed<> name, bool is_deleted) {
    // The message depends on the Python version, so it is raised on a stand-in, unless the stand-in would accept the
    // assignment.
    PyObject* raw = cpython::lookup_in_mro(self->type(), name, nullptr);
    bool can_answer = self->type()->tp_dictoffset != 0 || (raw != nullptr && Py_TYPE(raw)->tp_descr_set != nullptr);
    Ref<> substitute = can_answer ? Ref<>() : stand_in(tracer, self);
    if (!substitute || PyObject_GenericSetAttr(substitute.get(), name, is_deleted ? nullptr : Py_None) == 0)
        tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of " +
                                                         type_name(self->type()) + " can't be set or deleted");
    TakenError error = TakenError::take();
    Ref<> text = checked(PyObject_Str(error.exception()));
    Ref<> named = checked(PyObject_GetAttrString(error.exception(), "name"));
    if (named.get() == Py_None) tracer.raise(PyExc_AttributeError, std::string(utf8(text)));
    raise_missing(tracer, self, name, std::string(utf8(text)));
}

namespace {

/// The instance attribute, unless a data descriptor of the class takes precedence: then null. `attribute` and `raw`
/// receive the class attribute.
Value* own_before_class(Tracer& tracer, Value* self, Borrowed<> name, Value** attribute, PyObject** raw) {
    *attribute = class_attribute(tracer, self->type(), name, raw);
    // A descriptor with `__set__` but without `__get__` leaves reading to the instance dict.
    if (*raw != nullptr && is_data_descriptor(tracer, *raw) && is_descriptor(tracer, *raw)) return nullptr;
    return self->own_attribute(tracer, name);
}

}  // namespace

Outcome plain_get_attribute(Tracer& tracer, Value* self, Borrowed<> name) {
    Value* attribute = nullptr;
    PyObject* raw = nullptr;
    if (Value* own = own_before_class(tracer, self, name, &attribute, &raw); own != nullptr) return own;
    if (raw != nullptr) return bind_attribute(tracer, attribute, raw, self, self->type(), name);
    return nullptr;
}

namespace {

/// Calls a user-defined `__getattribute__`, and if that raises AttributeError, `__getattr__`.
Task attribute_or_fallback(Tracer& tracer, Value* getter, Value* fallback, Value* self, PyObject* name) {
    bool is_missing = false;
    try {
        co_return co_await operations::call(tracer, getter, Arguments::of(self, tracer.constant(name)));
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_AttributeError)) throw;
        is_missing = true;
    }
    STATOR_CHECK(is_missing, "the result must not be pending");
    co_return co_await forwarded(operations::call(tracer, fallback, Arguments::of(self, tracer.constant(name))));
}

/// The `__getattr__` of a class; null if it has none.
Value* fallback_of(Tracer& tracer, PyTypeObject* type, PyObject** raw) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return nullptr;
    Value* function = class_attribute(tracer, type, interned("__getattr__"), raw);
    if (*raw != nullptr && !PyFunction_Check(*raw))
        tracer.break_graph(BreakKind::CustomAttribute,
                           "the __getattr__ of class " + type_name(type) + " is not a Python function");
    return *raw == nullptr ? nullptr : function;
}

/// Whether reading through this class attribute may raise AttributeError: a property, a slot, a descriptor written in
/// Python.
bool may_raise_attribute_error(PyObject* raw) {
    PyTypeObject* kind = Py_TYPE(raw);
    if (kind == &PyMemberDescr_Type || PyObject_TypeCheck(raw, &PyProperty_Type)) return true;
    return PyType_HasFeature(kind, Py_TPFLAGS_HEAPTYPE) && kind->tp_descr_get != nullptr;
}

Outcome call_fallback(Tracer& tracer, Value* self, Borrowed<> name) {
    PyObject* raw = nullptr;
    Value* fallback = fallback_of(tracer, self->type(), &raw);
    if (fallback == nullptr) raise_no_attribute(tracer, self, name);
    if (raw == torch_room::known().module_getattr) return module_attribute(tracer, self, name);
    return operations::call(tracer, fallback, Arguments::of(self, tracer.constant(name)));
}

/// Calls a descriptor of the class, and if that raises AttributeError, the class's `__getattr__`.
Task bound_or_fallback(Tracer& tracer, Value* attribute, PyObject* found, Value* self, PyObject* name) {
    bool is_missing = false;
    try {
        co_return co_await bind_attribute(tracer, attribute, found, self, self->type(), name);
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_AttributeError)) throw;
        is_missing = true;
    }
    STATOR_CHECK(is_missing, "the result must not be pending");
    co_return co_await forwarded(call_fallback(tracer, self, name));
}

/// Whether `list[int]` has this attribute itself. It has others from its class.
bool is_of_alias(Borrowed<> name) {
    return name.get() == interned("__args__") || name.get() == interned("__origin__") ||
           name.get() == interned("__parameters__");
}

/// `int | str`, `list[int]`: immutable objects, whose attributes are read while tracing.
Value* attribute_of_frozen(Tracer& tracer, Value* self, Borrowed<> name) {
    if (self->source != nullptr) tracer.guard({GuardKind::Identity, self->source, self->object()});
    Ref<> answer = Ref<>::steal(PyObject_GetAttr(self->object(), name));
    if (!answer) tracer.raise_from_python();
    PyObject* kept = tracer.keep(std::move(answer));
    return tracer.outside(tracer.provenance().pinned(kept), kept);
}

/// Calls the `__getattribute__` of a class that overrides it; null if it is that of `object`.
Outcome through_own_getter(Tracer& tracer, Value* self, Borrowed<> name) {
    PyTypeObject* type = self->type();
    PyObject* raw = nullptr;
    PyTypeObject* owner = nullptr;
    Value* getter = nullptr;
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
        getter = class_attribute(tracer, type, interned("__getattribute__"), &raw);
    if (type->tp_getattro == PyObject_GenericGetAttr) return nullptr;
    cpython::lookup_in_mro(type, interned("__getattribute__"), &owner);
    if (owner == &PyBaseObject_Type || (owner != nullptr && owner->tp_getattro == PyObject_GenericGetAttr))
        return nullptr;
    static PyTypeObject* const union_class = imported_class("types", "UnionType");
    static PyTypeObject* const alias_class = imported_class("types", "GenericAlias");
    if (self->object() != nullptr && (type == union_class || (type == alias_class && is_of_alias(name))))
        return attribute_of_frozen(tracer, self, name);
    // PyTorch reads attributes of modules too, and those reads are not traced one by one.
    bool is_module = PyType_IsSubtype(type, torch_room::known().module_class) != 0;
    if (is_module || self->kind != Kind::Object || raw == nullptr || !PyFunction_Check(raw))
        tracer.break_graph(BreakKind::CustomAttribute, "class " + type_name(type) + " defines __getattribute__");
    Value* fallback = fallback_of(tracer, type, &raw);
    if (fallback == nullptr) return operations::call(tracer, getter, Arguments::of(self, tracer.constant(name)));
    return tracer.start(attribute_or_fallback(tracer, getter, fallback, self, name));
}

}  // namespace

namespace {

/// `torch.ops.library.operator.overload` is looked up when it is first read, and kept as an attribute. The look-up has
/// no other effect, so that it can be made while tracing.
void look_up_overload(Value* packet, Borrowed<> name) {
    static PyTypeObject* const packets = find_imported_class("torch._ops", "OpOverloadPacket");
    if (packet->type() != packets || packet->object() == nullptr || utf8(name).starts_with("_")) return;
    PyObject* dict = cpython::instance_dict(packet->object());
    if (dict == nullptr || PyDict_Contains(dict, name) != 0) return;
    if (!Ref<>::steal(PyObject_GetAttr(packet->object(), name))) PyErr_Clear();
}

}  // namespace

Outcome generic_get_attribute(Tracer& tracer, Value* self, Borrowed<> name) {
    look_up_overload(self, name);
    Outcome answer = through_own_getter(tracer, self, name);
    if (answer.is_pending() || answer.value() != nullptr) return answer;
    Value* attribute = nullptr;
    PyObject* found = nullptr;
    if (Value* own = own_before_class(tracer, self, name, &attribute, &found); own != nullptr) return own;
    if (found == nullptr) return call_fallback(tracer, self, name);
    PyObject* fallback = nullptr;
    if (may_raise_attribute_error(found) && fallback_of(tracer, self->type(), &fallback) != nullptr)
        return tracer.start(bound_or_fallback(tracer, attribute, found, self, name));
    return bind_attribute(tracer, attribute, found, self, self->type(), name);
}

namespace {

Task call_for_nothing(Tracer& tracer, Value* function, Arguments arguments) {
    co_await Continued{operations::call(tracer, function, arguments), {Continuation::Kind::Drop}};
    co_return tracer.none();
}

/// The message depends on the name that the property stores: calling its setter with None raises the same error.
[[noreturn]] void raise_no_setter(Tracer& tracer, PyObject* property, PyTypeObject* type, bool is_set) {
    Py_TYPE(property)->tp_descr_set(property, Py_None, is_set ? Py_None : nullptr);
    TakenError error = TakenError::take();
    STATOR_CHECK(bool(error), "setting a property without a setter did not raise");
    std::string text(utf8(checked(PyObject_Str(error.exception())).get()));
    std::string own = "'" + std::string(utf8(checked(PyType_GetQualName(type)).get())) + "'";
    if (std::size_t at = text.find("'NoneType'"); at != std::string::npos) text.replace(at, 10, own);
    tracer.raise(PyExc_AttributeError, text);
}

/// Calls a data descriptor of the class that handles setting or deleting; null if there is none.
Outcome through_descriptor(Tracer& tracer, Value* self, Borrowed<> name, Value* value) {
    PyTypeObject* type = self->type();
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(tracer, type, name, &raw);
    if (raw == nullptr || !is_data_descriptor(tracer, raw)) return nullptr;
    if ((Py_TYPE(raw) == &PyGetSetDescr_Type || Py_TYPE(raw) == &PyMemberDescr_Type) &&
        self->set_kept_attribute(tracer, name, value))
        return tracer.none();
    if (Py_TYPE(raw) == &PyMemberDescr_Type) return nullptr;  // a slot: stored with the instance attributes
    if (PyObject_TypeCheck(raw, &PyProperty_Type)) {
        Value* function = wrapped_by(tracer, raw, value != nullptr ? "fset" : "fdel");
        if (function->object() == Py_None) raise_no_setter(tracer, raw, type, value != nullptr);
        Arguments arguments = Arguments::of(self);
        if (value != nullptr) arguments.positional.push_back(value);
        return tracer.start(call_for_nothing(tracer, function, std::move(arguments)));
    }
    if (std::string_view(Py_TYPE(raw)->tp_name).ends_with("_tuplegetter"))
        tracer.raise(PyExc_AttributeError, value != nullptr ? "can't set attribute" : "can't delete attribute");
    const char* method = value != nullptr ? "__set__" : "__delete__";
    PyObject* setter = cpython::lookup_in_mro(Py_TYPE(raw), interned(method), nullptr);
    if (setter != nullptr && PyFunction_Check(setter)) {
        Value* function = class_attribute(tracer, Py_TYPE(raw), interned(method));
        Arguments arguments = Arguments::of(attribute, self);
        if (value != nullptr) arguments.positional.push_back(value);
        return tracer.start(call_for_nothing(tracer, function, std::move(arguments)));
    }
    tracer.break_graph(BreakKind::UnknownObject,
                       "attribute '" + std::string(utf8(name)) + "' of " + type_name(type) + " is set by C code");
}

}  // namespace

void expect_setter(Tracer& tracer, PyTypeObject* type, setattrofunc setter) {
    // A `__setattr__` in Python has been traced already, and has called the C function of a base.
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
        PyObject* raw = PyDict_GetItemWithError(cpython::class_dict(base), interned("__setattr__"));
        if (raw == nullptr || Py_TYPE(raw) != &PyWrapperDescr_Type) continue;
        if (base->tp_setattro == setter) return;
        break;
    }
    tracer.break_graph(BreakKind::CustomAttribute, "attributes of class " + type_name(type) + " are set by C code");
}

Outcome generic_set_attribute(Tracer& tracer, Value* self, Borrowed<> name, Value* value) {
    Outcome descriptor = through_descriptor(tracer, self, name, value);
    if (descriptor.is_pending() || descriptor.value() != nullptr) return descriptor;
    self->set_own_attribute(tracer, name, value);
    return tracer.none();
}

Outcome generic_delete_attribute(Tracer& tracer, Value* self, Borrowed<> name) {
    Outcome descriptor = through_descriptor(tracer, self, name, nullptr);
    if (descriptor.is_pending() || descriptor.value() != nullptr) return descriptor;
    if (!self->delete_own_attribute(tracer, name)) {
        // For an empty slot, the message is only its name.
        PyObject* raw = cpython::lookup_in_mro(self->type(), name, nullptr);
        if (raw != nullptr && Py_TYPE(raw) == &PyMemberDescr_Type)
            tracer.raise(PyExc_AttributeError, std::string(utf8(name)));
        if (self->type()->tp_dictoffset == 0) refuse_attribute(tracer, self, name, /*is_deleted=*/true);
        raise_no_attribute(tracer, self, name);
    }
    return tracer.none();
}

}  // namespace stator
