#include "value/kinds/object.h"

#include <structmember.h>

#include <typeinfo>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "value/builtins/builtin.h"
#include "value/builtins/numpy.h"
#include "value/effect_log.h"
#include "value/higher_order/higher_order.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/made_class.h"
#include "value/kinds/partial.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/function_modes.h"
#include "value/tracer.h"

namespace stator {

void ObjectValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(class_)});
}

Source* instance_dict_source(Tracer& tracer, ObjectValue* object) {
    if (object->outside == nullptr || object->source == nullptr) return nullptr;
    PyObject* dict = cpython::instance_dict(object->outside);
    if (dict == nullptr) return nullptr;
    return tracer.provenance().child(object->source, Access::InstanceDict, nullptr, 0, dict);
}

ObjectValue* as_object(Value* value) {
    switch (value->kind) {
        case Kind::Tuple:
        case Kind::List:
        case Kind::Dict:
        case Kind::Set:
        case Kind::Deque:
        case Kind::Function:
        case Kind::Exception:
        case Kind::Scalar:
        case Kind::TensorObject:
        case Kind::Object:
            return static_cast<ObjectValue*>(value);
        default:
            return nullptr;
    }
}

namespace {

bool is_slot(PyTypeObject* type, Borrowed<> name) {
    PyObject* raw = cpython::lookup_in_mro(type, name, nullptr);
    return raw != nullptr && Py_TYPE(raw) == &PyMemberDescr_Type;
}

/// A slot that accepts any object.
bool is_open_slot(PyTypeObject* type, Borrowed<> name) {
    PyObject* raw = cpython::lookup_in_mro(type, name, nullptr);
    const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(raw)->d_member;
    return (member.type == T_OBJECT || member.type == T_OBJECT_EX) && (member.flags & READONLY) == 0;
}

/// Creates the dict that holds the attributes of an object created in the trace from now on.
DictValue* make_own_dict(Tracer& tracer, ObjectValue* object) {
    auto* dict = tracer.make<DictValue>();
    dict->owner = object;
    std::vector<std::pair<PyObject*, Value*>> in_slots;
    for (auto& attribute : object->attributes) {
        if (is_slot(object->class_, attribute.first))
            in_slots.push_back(attribute);
        else if (attribute.second != nullptr)
            dict->table.insert(tracer, tracer.constant(attribute.first), attribute.second);
    }
    tracer.on_undo([object, before = object->attributes] {
        object->attributes = before;
        object->own_dict = nullptr;
    });
    object->attributes = std::move(in_slots);
    object->own_dict = dict;
    return dict;
}

}  // namespace

Value* instance_dict(Tracer& tracer, Value* value) {
    ObjectValue* object = as_object(value);
    if (object == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "the __dict__ of a " + type_name(value->type()) + " is read");
    if (object->own_dict != nullptr) return object->own_dict;
    if (Source* source = instance_dict_source(tracer, object); source != nullptr)
        return tracer.outside(source, source->object);
    if (object->source != nullptr || object->class_->tp_dictoffset == 0)
        tracer.break_graph(BreakKind::UnknownObject, "the __dict__ of a " + type_name(value->type()) + " is read");
    return make_own_dict(tracer, object);
}

Value* ObjectValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    for (auto& [key, value] : attributes)
        if (key == name.get()) return value;
    if (own_dict != nullptr) return own_dict->find(tracer, name);
    Source* dict = instance_dict_source(tracer, this);
    if (dict == nullptr) return nullptr;
    if (DictValue* changed = changed_dict(tracer, dict->object)) return changed->find(tracer, name);
    PyObject* held = PyDict_GetItemWithError(dict->object, name);
    bool is_new = false;
    Source* place = tracer.provenance().child(dict, Access::DictItem, name, 0, held, &is_new);
    if (is_new) tracer.guard({held != nullptr ? GuardKind::Present : GuardKind::Absent, place});
    return held == nullptr ? nullptr : tracer.outside(place, held);
}

namespace {

/// Whether instances can have the attribute: they have a dict, or a slot of that name.
bool can_hold(PyTypeObject* type, Borrowed<> name) {
    return type->tp_dictoffset != 0 || is_slot(type, name);
}

/// Sets a slot of an outside object, or deletes it if `value` is null.
void change_slot(Tracer& tracer, ObjectValue* object, Borrowed<> name, Value* value) {
    if (!is_open_slot(object->class_, name))
        tracer.break_graph(BreakKind::OutsideMutation, "attribute '" + std::string(utf8(name)) + "' of " +
                                                           type_name(object->class_) +
                                                           ", which is stored by C code, is set");
    set_undoably(tracer, object->attributes, object->attributes);
    std::erase_if(object->attributes, [&](auto& attribute) { return attribute.first == name.get(); });
    object->attributes.emplace_back(tracer.keep(Ref<>::share(name.get())), value);
    tracer.effects().log({PlanOp::SetAttribute, {object, value}, name});
}

/// Whether a slot of an outside object is set.
bool slot_is_filled(Tracer& tracer, ObjectValue* object, Borrowed<> name) {
    for (auto& [key, value] : object->attributes)
        if (key == name.get()) return value != nullptr;
    PyObject* raw = cpython::lookup_in_mro(object->class_, name, nullptr);
    Ref<> held =
        Ref<>::steal(Py_TYPE(raw)->tp_descr_get(raw, object->outside, reinterpret_cast<PyObject*>(object->class_)));
    if (!held) PyErr_Clear();
    Source* place = tracer.provenance().child(object->source, Access::Member, name, 0, held.get());
    tracer.guard({held ? GuardKind::Present : GuardKind::Absent, place});
    return static_cast<bool>(held);
}

}  // namespace

DictValue* attributes_to_change(Tracer& tracer, Value* object) {
    PyObject* real = object->object();
    PyObject* dict = real == nullptr ? nullptr : cpython::instance_dict(real).get();
    if (dict == nullptr) return nullptr;
    Source* place = tracer.provenance().child(object->source, Access::InstanceDict, nullptr, 0, dict);
    auto* value = static_cast<DictValue*>(tracer.outside(place, dict));
    tracer.realize(value);
    return value;
}

void ObjectValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (source != nullptr) {
        expect_setter(tracer, class_, PyObject_GenericSetAttr);
        if (is_slot(class_, name)) return change_slot(tracer, this, name, value);
        DictValue* held = attributes_to_change(tracer, this);
        if (held == nullptr) refuse_attribute(tracer, this, name, value == nullptr);
        held->put(tracer, tracer.constant(name), value);
        tracer.effects().log({PlanOp::SetAttribute, {this, value}, name});
        return;
    }
    if (kind == Kind::Object) tracer.effects().note_change_of_made(this);
    for (std::size_t i = 0; i < attributes.size(); ++i) {
        if (attributes[i].first != name.get()) continue;
        tracer.on_undo([this, i, before = attributes[i].second] { attributes[i].second = before; });
        attributes[i].second = value;
        return;
    }
    if (!can_hold(class_, name)) refuse_attribute(tracer, this, name, value == nullptr);
    if (own_dict != nullptr && !is_slot(class_, name)) return own_dict->insert(tracer, tracer.constant(name), value);
    attributes.emplace_back(tracer.keep(Ref<>::share(name.get())), value);
    tracer.on_undo([this] { attributes.pop_back(); });
}

bool ObjectValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    if (source != nullptr) {
        expect_setter(tracer, class_, PyObject_GenericSetAttr);
        if (is_slot(class_, name)) {
            if (!slot_is_filled(tracer, this, name)) return false;
            change_slot(tracer, this, name, nullptr);
            return true;
        }
        DictValue* held = attributes_to_change(tracer, this);
        if (held == nullptr || held->take(tracer, tracer.constant(name)) == nullptr) return false;
        tracer.effects().log({PlanOp::SetAttribute, {this, nullptr}, name});
        return true;
    }
    for (std::size_t i = 0; i < attributes.size(); ++i) {
        if (attributes[i].first != name.get() || attributes[i].second == nullptr) continue;
        tracer.on_undo([this, i, before = attributes[i]] { attributes.insert(attributes.begin() + i, before); });
        attributes.erase(attributes.begin() + i);
        return true;
    }
    return own_dict != nullptr && own_dict->remove(tracer, tracer.constant(name)) != nullptr;
}

namespace {

/// `error.__cause__ = other`, and the same of `__context__`, of an exception from outside.
void link_exception(Tracer& tracer, ObjectValue* exception, Borrowed<> name, Value* value) {
    const bool is_cause = name.get() == interned("__cause__");
    if (value->object() != Py_None &&
        PyType_IsSubtype(value->type(), reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) == 0)
        tracer.raise(PyExc_TypeError, std::string("exception ") + (is_cause ? "cause" : "context") +
                                          " must be None or derive from BaseException");
    set_undoably(tracer, exception->attributes, exception->attributes);
    auto put = [&](PyObject* key, Value* held) {
        std::erase_if(exception->attributes, [&](auto& attribute) { return attribute.first == key; });
        exception->attributes.emplace_back(key, held);
    };
    put(tracer.keep(Ref<>::share(name.get())), value);
    if (is_cause) put(interned("__suppress_context__"), tracer.boolean(true));
    tracer.effects().log({PlanOp::SetAttribute, {exception, value}, name});
}

}  // namespace

namespace {

/// `object.__class__ = type` of an object that the trace has made. Whether the classes are alike is asked of Python,
/// with an empty object. False if that can't be answered so.
bool change_class(Tracer& tracer, ObjectValue* object, Value* value) {
    const bool is_made = object->outside == nullptr && object->source == nullptr;
    if (value == nullptr || typeid(*object) != typeid(ObjectValue) || !is_made) return false;
    tracer.realize(value);
    auto* type = cast<ClassValue>(value);
    if (type == nullptr || Py_TYPE(type->held) != &PyType_Type || MadeClass::find(type->held) != nullptr) return false;
    for (PyTypeObject* one : {type->held, object->class_}) {
        const bool is_plain = PyType_HasFeature(one, Py_TPFLAGS_HEAPTYPE) && one->tp_base != nullptr &&
                              one->tp_finalize == nullptr && one->tp_del == nullptr;
        if (!is_plain || PyType_HasFeature(one, Py_TPFLAGS_IS_ABSTRACT) || MadeClass::find(one) != nullptr)
            return false;
    }
    Ref<> nothing = checked(PyTuple_New(0));
    Ref<> empty = Ref<>::steal(PyBaseObject_Type.tp_new(object->class_, nothing.get(), nullptr));
    if (!empty) {
        PyErr_Clear();
        return false;
    }
    if (PyObject_GenericSetAttr(empty.get(), interned("__class__"), type->object()) < 0) tracer.raise_from_python();
    tracer.keep(Ref<>::share(type->object()));
    set_undoably(tracer, object->class_, type->held);
    return true;
}

}  // namespace

bool ObjectValue::set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (name.get() == interned("__class__")) return change_class(tracer, this, value);
    const bool links = name.get() == interned("__cause__") || name.get() == interned("__context__");
    if (links && value != nullptr && source != nullptr &&
        PyType_IsSubtype(class_, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0) {
        tracer.realize(value);
        link_exception(tracer, this, name, value);
        return true;
    }
    if (name.get() != interned("__dict__") || class_->tp_dictoffset == 0) return false;
    tracer.effects().expect_made_in_trace(this);
    tracer.realize(value);
    auto* dict = cast<DictValue>(value);
    if (dict == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "__dict__ is set to an object that is not a dict");
    if (dict->owner != nullptr && dict->owner != this)
        tracer.break_graph(BreakKind::UnknownObject, "two objects share one __dict__");
    if (own_dict == dict) return true;
    make_own_dict(tracer, this);
    tracer.on_undo([this, before = own_dict] { own_dict = before; });
    own_dict->owner = nullptr;
    own_dict = dict;
    return true;
}

namespace {

/// Whether `torch.compile` created the module; `torch.compiler.disable` uses the same class.
bool is_compiled_by_torch(const ObjectValue* module) {
    if (module->outside == nullptr || std::string_view(module->class_->tp_name) != "OptimizedModule") return false;
    // That of `stator.install()` calls what Stator compiled, which is inlined.
    if (cpython::lookup_in_mro(module->class_, interned("_stator_wrapper"), nullptr) != nullptr) return false;
    PyObject* attributes = cpython::instance_dict(module->outside);
    PyObject* context = attributes == nullptr ? nullptr : PyDict_GetItemString(attributes, "dynamo_ctx");
    return context != nullptr && std::string_view(Py_TYPE(context)->tp_name) == "OptimizeContext";
}

/// The class of the wrapped model.
std::string name_of_model(const ObjectValue* module) {
    PyObject* attributes = cpython::instance_dict(module->outside);
    PyObject* children = attributes == nullptr ? nullptr : PyDict_GetItemString(attributes, "_modules");
    PyObject* model =
        children != nullptr && PyDict_Check(children) ? PyDict_GetItemString(children, "_orig_mod") : nullptr;
    return model == nullptr ? "a module" : type_name(Py_TYPE(model));
}

}  // namespace

Outcome ObjectValue::call(Tracer& tracer, const Arguments& arguments) {
    PyObject* raw = nullptr;
    if (is_compiled_by_torch(this) && tracer.keeps_compiled_by_torch())
        tracer.break_graph(BreakKind::CompiledByTorch,
                           "module " + name_of_model(this) + " is compiled by torch.compile");
    bool may_be_allowed = outside != nullptr && !PyType_IsSubtype(class_, torch_room::known().module_class);
    if (may_be_allowed && torch_room::role_of(outside) == torch_room::Role::InGraph) {
        tracer.guard({GuardKind::Identity, source, outside});
        if (modes_see_operators(tracer))
            if (auto answer = call_under_modes(tracer, this, arguments)) return *answer;
        return tracer.recorder().emit_function(outside, arguments);
    }
    if (may_be_allowed && is_higher_order_operation(class_)) {
        tracer.guard({GuardKind::Identity, source, outside});
        if (std::optional<Outcome> called = call_higher_order(tracer, outside, arguments)) return *called;
    }
    if (class_ == &PyInstanceMethod_Type && outside != nullptr) {  // a method created by pybind11, taken from its class
        tracer.guard({GuardKind::Identity, source, outside});
        return operations::call(tracer, tracer.constant(PyInstanceMethod_GET_FUNCTION(outside)), arguments);
    }
    Value* method = class_attribute(tracer, class_, interned("__call__"), &raw);
    if (raw == nullptr) return Value::call(tracer, arguments);
    // A callable compiled by Stator is inlined: the original is called.
    for (const char* part : {"_stator_callable", "_stator_original"}) {
        PyObject* slot = cpython::lookup_in_mro(class_, interned(part), nullptr);
        if (slot == nullptr || Py_TYPE(slot) != &PyMemberDescr_Type) continue;
        Outcome inner = get_attribute(tracer, interned(part));
        STATOR_CHECK(!inner.is_pending(), "reading a slot must not be pending");
        return operations::call(tracer, inner.value(), arguments);
    }
    if (PyFunction_Check(raw)) return operations::call(tracer, method, arguments.after(this));
    if (Py_TYPE(raw) == &PyWrapperDescr_Type && Handlers::instance().find(raw) != nullptr)
        return Handlers::instance().find(raw)(tracer, arguments.after(this));
    if (Py_TYPE(raw) == &PyWrapperDescr_Type)
        tracer.break_graph(BreakKind::UnknownFunction, "an object of the C class " + type_name(class_) + " is called");
    Outcome bound = bind_attribute(tracer, method, raw, this, class_, interned("__call__"));
    if (bound.is_pending())
        tracer.break_graph(BreakKind::UnknownObject, "__call__ of " + type_name(class_) + " is a descriptor");
    return operations::call(tracer, bound.value(), arguments);
}

bool ObjectValue::truth(Tracer& tracer) {
    bool from_c = (class_->tp_as_number != nullptr && class_->tp_as_number->nb_bool != nullptr) ||
                  (class_->tp_as_mapping != nullptr && class_->tp_as_mapping->mp_length != nullptr) ||
                  (class_->tp_as_sequence != nullptr && class_->tp_as_sequence->sq_length != nullptr);
    if (from_c)
        tracer.break_graph(BreakKind::UnknownObject,
                           "the truth value of an object of class " + type_name(class_) + " is computed by C code");
    return true;
}

namespace {

/// Whether `object` itself defines a special method, and no class overrides it.
bool is_from_object(PyTypeObject* type, const char* name) {
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(type, interned(name), &owner);
    return owner == &PyBaseObject_Type;
}

}  // namespace

Outcome ObjectValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (outside != nullptr && is_numpy_dtype(class_)) return compare_numpy_dtypes(tracer, op, this, other);
    if (!is_from_object(class_, method_name(op)))
        tracer.break_graph(BreakKind::UnknownObject, "objects of " + type_name(class_) + " are compared by C code");
    return nullptr;
}

Py_hash_t ObjectValue::hash(Tracer& tracer) {
    PyObject* raw = cpython::lookup_in_mro(class_, interned("__hash__"), nullptr);
    if (raw == Py_None || raw == nullptr) return Value::hash(tracer);
    if (known_hash) return *known_hash;
    if (!is_from_object(class_, "__hash__"))
        tracer.break_graph(BreakKind::UnknownObject,
                           "objects of " + type_name(class_) + " have a user-defined __hash__");
    tracer.guard_distinct(this);
    // An outside function has one value for each place where it was found.
    const void* identity = kind == Kind::Function && outside != nullptr ? static_cast<void*>(outside) : this;
    return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(identity) >> 4);
}

graph::Argument ObjectValue::as_argument(Tracer& tracer) {
    return Value::as_argument(tracer);
}

int ObjectValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    if (is_partial_class(class_)) return rebuild_partial(plan, this);
    if (const MadeClass* made = MadeClass::find(class_)) made->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    add_new_object(plan, to, class_, {});
    rebuild_attributes(plan, to, this);
    return to;
}

std::string ObjectValue::print() const {
    return type_name(class_) + " object";
}

}  // namespace stator
