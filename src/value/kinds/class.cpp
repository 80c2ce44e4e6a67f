#include "value/kinds/class.h"
#include "value/kinds/changing_number.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "value/builtins/arrays.h"
#include "value/builtins/builtin.h"
#include "value/effect_log.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/made_class.h"
#include "value/kinds/made_descriptor.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/attributes.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/tensor/function_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool is_enum_class(PyTypeObject* type) {
    return PyType_IsSubtype(type, torch_room::known().enum_class) != 0;
}

/// A member of an enum class; null if it has none of that name.
PyObject* enum_member(PyTypeObject* type, PyObject* name) {
    if (!is_enum_class(type)) return nullptr;
    PyObject* members = PyDict_GetItemWithError(cpython::class_dict(type), interned("_member_map_"));
    return members == nullptr || !PyDict_Check(members) ? nullptr : PyDict_GetItemWithError(members, name);
}

/// A new, empty instance as the C `__new__` of the class would create it; null if that `__new__` has no model.
Value* new_instance(Tracer& tracer, PyTypeObject* type, newfunc made_by) {
    if (made_by == PyBaseObject_Type.tp_new) return tracer.make<ObjectValue>(type);
    if (made_by == PyDict_Type.tp_new) return tracer.make<DictValue>(type);
    if (made_by == PyList_Type.tp_new) return tracer.make<ListValue>(type);
    if (made_by == PySet_Type.tp_new) return tracer.make<SetValue>(type);
    // (Old programs call `apply` of an instance. What C code keeps in one can't be read.)
    static const newfunc of_autograd = imported_class("torch.autograd.function", "Function")->tp_new;
    if (made_by == of_autograd) return tracer.make<ObjectValue>(type);
    static const newfunc of_namespace = imported_class("types", "SimpleNamespace")->tp_new;
    return made_by == of_namespace ? tracer.make<ObjectValue>(type) : nullptr;
}

/// Raises what `object.__new__` raises: for an abstract class, and for arguments that neither `__new__` nor `__init__`
/// of the class takes.
void expect_plain_creation(Tracer& tracer, PyTypeObject* type, PyObject* raw_init, const Arguments& arguments) {
    if (PyType_HasFeature(type, Py_TPFLAGS_IS_ABSTRACT)) {
        Ref<> failed = Ref<>::steal(PyBaseObject_Type.tp_new(type, checked(PyTuple_New(0)).get(), nullptr));
        if (!failed) tracer.raise_from_python();
    }
    bool takes_any = raw_init != nullptr && Py_TYPE(raw_init) != &PyWrapperDescr_Type;
    if (type->tp_new == PyBaseObject_Type.tp_new && arguments.count() > 0 && !takes_any &&
        type->tp_init == PyBaseObject_Type.tp_init)
        tracer.raise(PyExc_TypeError, std::string(utf8(PyType_GetName(type))) + "() takes no arguments");
}

/// `type.__call__`: `__new__`, then `__init__` if that returned an instance of the class.
Task construct(Tracer& tracer, ClassValue* self, Arguments arguments) {
    PyTypeObject* type = self->held;
    // An instance that is not kept alive would never be created, so its `__del__` would never run.
    if (has_special_method(tracer, type, "__del__"))
        tracer.break_graph(BreakKind::UnknownObject,
                           "an object of class " + type_name(type) + ", which defines __del__, is created");
    PyObject* raw_new = nullptr;
    class_attribute(tracer, type, interned("__new__"), &raw_new);
    PyObject* raw_init = nullptr;
    Value* init = class_attribute(tracer, type, interned("__init__"), &raw_init);
    Value* instance = nullptr;
    if (raw_new != nullptr && Py_TYPE(raw_new) == &PyStaticMethod_Type) {
        Ref<> function = checked(PyObject_GetAttr(raw_new, interned("__func__")));
        Value* made = StandIn::behind(function.get());
        Value* maker = made != nullptr ? made : tracer.constant(function.get());
        instance = co_await operations::call(tracer, maker, arguments.after(self));
    } else if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
        bool has_own_init = raw_init != nullptr && PyFunction_Check(raw_init);
        instance = new_exception(tracer, type, arguments, has_own_init);
    } else if (scalar_base(type) != nullptr) {
        instance = make_scalar(tracer, type, arguments);
        if (instance == nullptr)
            tracer.break_graph(BreakKind::UnknownFunction,
                               "class " + type_name(type) + " is called with arguments that are not constants");
        if (raw_init == nullptr || !PyFunction_Check(raw_init)) co_return instance;
    } else if (Value* made = new_instance(tracer, type, type->tp_new); made != nullptr) {
        expect_plain_creation(tracer, type, raw_init, arguments);
        instance = made;
    } else if (raw_new != nullptr && Handlers::instance().find(raw_new) != nullptr) {
        instance = co_await Handlers::instance().find(raw_new)(tracer, arguments.after(self));
    } else {
        tracer.break_graph(BreakKind::UnknownFunction, "an object of the C class " + type_name(type) + " is created");
    }
    if (!PyType_IsSubtype(instance->type(), type) || raw_init == nullptr) co_return instance;
    if (raw_init != nullptr && !PyFunction_Check(raw_init) && Py_TYPE(raw_init) != &PyWrapperDescr_Type &&
        Py_TYPE(raw_init)->tp_descr_get != nullptr)
        tracer.break_graph(BreakKind::UnknownObject,
                           "the __init__ of class " + type_name(type) + " is a " + type_name(Py_TYPE(raw_init)));
    if (instance->type() != type) {
        // The `__init__` of the class of the new object is called, which may be a subclass.
        type = instance->type();
        init = class_attribute(tracer, type, interned("__init__"), &raw_init);
        if (raw_init == nullptr) co_return instance;
    }
    if (type->tp_init == PyBaseObject_Type.tp_init) co_return instance;
    if (Py_TYPE(raw_init) == &PyWrapperDescr_Type && instance->kind == Kind::Exception) co_return instance;
    if (Py_TYPE(raw_init) == &PyWrapperDescr_Type && Handlers::instance().find(raw_init) == nullptr) {
        if (instance->kind == Kind::Tuple || instance->kind == Kind::Constant) co_return instance;
        tracer.break_graph(BreakKind::UnknownFunction, "an object of " + type_name(type) + " is initialized by C code");
    }
    Value* answer = co_await Continued{operations::call(tracer, init, arguments.after(instance)),
                                       {Continuation::Kind::Initialise, instance}};
    tracer.realize(answer);
    if (answer->object() != Py_None)
        tracer.raise(PyExc_TypeError,
                     "__init__() should return None, not '" + std::string(answer->type()->tp_name) + "'");
    co_return instance;
}

}  // namespace

Outcome construct_instance(Tracer& tracer, ClassValue* type, const Arguments& arguments) {
    return tracer.start(construct(tracer, type, arguments));
}

void ClassValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Identity, source, object()});
}

Ref<> ClassValue::as_constant(Tracer& tracer) {
    if (MadeClass::find(held) != nullptr) return {};
    tracer.realize(this);
    return Ref<>::share(object());
}

namespace {

/// `__name__`, `__mro__`, `__bases__`, ...: these can be assigned, unless the class is written in C.
Value* type_attribute(Tracer& tracer, ClassValue* self, Borrowed<> name) {
    Ref<> answer = Ref<>::steal(PyObject_GetAttr(self->object(), name));
    if (!answer) tracer.raise_from_python();
    if (PyType_HasFeature(self->held, Py_TPFLAGS_IMMUTABLETYPE)) return tracer.constant(answer.get());
    Ref<> again = checked(PyObject_GetAttr(self->object(), name));
    if (answer.get() != again.get() && !is_safe_to_compare(answer.get()))
        tracer.break_graph(BreakKind::UnknownObject, "attribute '" + std::string(utf8(name)) + "' of class " +
                                                         type_name(self->held) + " is a new object at each read");
    PyObject* kept = tracer.keep(std::move(answer));
    Source* holder = tracer.provenance().pinned(self->object());
    return tracer.outside(tracer.provenance().child(holder, Access::Member, name, 0, kept), kept);
}

}  // namespace

Outcome ClassValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (const MadeClass* made = MadeClass::find(held)) made->expect_own_part(tracer, name);
    if (PyObject* member = enum_member(held, name); member != nullptr) return tracer.constant(member);
    PyTypeObject* meta = Py_TYPE(held);
    if (meta->tp_getattro != PyType_Type.tp_getattro && has_special_method(tracer, meta, "__getattribute__") &&
        PyFunction_Check(cpython::lookup_in_mro(meta, interned("__getattribute__"), nullptr)))
        tracer.break_graph(BreakKind::CustomAttribute, "metaclass " + type_name(meta) + " defines __getattribute__");
    PyObject* of_meta = nullptr;
    Value* meta_attribute = class_attribute(tracer, meta, name, &of_meta);
    if (of_meta != nullptr && Py_TYPE(of_meta)->tp_descr_set != nullptr && Py_TYPE(of_meta)->tp_descr_get != nullptr) {
        if (Py_TYPE(of_meta) != &PyGetSetDescr_Type && Py_TYPE(of_meta) != &PyMemberDescr_Type)
            return bind_attribute(tracer, meta_attribute, of_meta, this, meta, name);
        if (name.get() == interned("__dict__")) {
            PyObject* dict = cpython::class_dict(held);
            auto* of_class = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
            return tracer.make<DictViewValue>(of_class, DictViewValue::What::Proxy);
        }
        return type_attribute(tracer, this, name);
    }
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(tracer, held, name, &raw);
    if (raw != nullptr) return bind_attribute(tracer, attribute, raw, nullptr, held, name);
    if (of_meta != nullptr) return bind_attribute(tracer, meta_attribute, of_meta, this, meta, name);
    PyObject* raw_fallback = nullptr;
    Value* fallback = class_attribute(tracer, meta, interned("__getattr__"), &raw_fallback);
    if (raw_fallback != nullptr && PyFunction_Check(raw_fallback) && !is_enum_class(held))
        return operations::call(tracer, fallback, Arguments::of(this, tracer.constant(name)));
    // On 3.11, the `__getattr__` of EnumMeta has searched the members, and its error message is only the name.
    if (raw_fallback != nullptr) tracer.raise(PyExc_AttributeError, std::string(utf8(name)));
    raise_no_attribute(tracer, this, name);
}

namespace {

/// The `__dict__` of a class, for an assignment to this name. Breaks the graph unless the assignment changes a plain
/// attribute or a method: descriptors of other kinds and type slots are cached elsewhere too.
DictValue* class_dict_to_change(Tracer& tracer, ClassValue* self, Borrowed<> name, Value* value) {
    expect_setter(tracer, Py_TYPE(self->held), PyType_Type.tp_setattro);
    PyObject* before = nullptr;
    class_attribute(tracer, self->held, name, &before);
    auto is_descriptor = [](PyTypeObject* type) {
        return type->tp_descr_get != nullptr || type->tp_descr_set != nullptr;
    };
    bool is_plain = !utf8(name).starts_with("__") && (self->held->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) == 0 &&
                    (before == nullptr || PyFunction_Check(before) || !is_descriptor(Py_TYPE(before)));
    if (value != nullptr) {
        if (!symbolic::is(value)) tracer.realize(value);
        is_plain = is_plain && (value->kind == Kind::Function || !is_descriptor(value->type()));
    }
    if (!is_plain)
        tracer.break_graph(BreakKind::OutsideMutation,
                           "attribute '" + std::string(utf8(name)) + "' of class " + type_name(self->held) + " is set");
    PyObject* dict = cpython::class_dict(self->held);
    auto* of_class = static_cast<DictValue*>(tracer.outside(tracer.provenance().pinned(dict), dict));
    tracer.realize(of_class);
    return of_class;
}

}  // namespace

void ClassValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (const MadeClass* made = MadeClass::find(held)) return made->set_attribute(tracer, name, value);
    DictValue* dict = class_dict_to_change(tracer, this, name, value);
    dict->put(tracer, tracer.constant(name), value);
    tracer.effects().log({PlanOp::SetAttribute, {this, value}, name});
}

bool ClassValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    if (const MadeClass* made = MadeClass::find(held)) {
        made->set_attribute(tracer, name, nullptr);
        return true;
    }
    DictValue* dict = class_dict_to_change(tracer, this, name, nullptr);
    if (dict->take(tracer, tracer.constant(name)) == nullptr) return false;
    tracer.effects().log({PlanOp::SetAttribute, {this, nullptr}, name});
    return true;
}

namespace {

/// The result class of an operation with several results: a structseq, created by C code.
bool is_return_type(PyTypeObject* type) {
    if (!PyType_IsSubtype(type, &PyTuple_Type)) return false;
    return std::string_view(type->tp_name).starts_with("torch.return_types.");
}

Task make_return_type(Tracer& tracer, PyTypeObject* type, Value* items) {
    auto* list = static_cast<SequenceValue*>(co_await operations::collect(tracer, items));
    Ref<> fields = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "n_sequence_fields"));
    std::vector<Value*> all = list->all(tracer);
    if (PyLong_AsSize_t(fields.get()) != all.size())
        tracer.break_graph(BreakKind::UnknownFunction,
                           "a " + type_name(type) + " is created with a different number of items");
    co_return stator::make_tuple(tracer, std::move(all), type);
}

/// `Color(Color.RED)` is that member. No special method of the class is called for it, unlike for another value.
bool is_call_with_own_member(PyTypeObject* type, const Arguments& arguments) {
    static PyTypeObject* const meta = Py_TYPE(reinterpret_cast<PyObject*>(torch_room::known().enum_class));
    return Py_TYPE(reinterpret_cast<PyObject*>(type)) == meta && arguments.count() == 1 && arguments.keywords.empty() &&
           arguments.positional[0]->kind == Kind::Constant && arguments.positional[0]->type() == type;
}

}  // namespace

Outcome ClassValue::call(Tracer& tracer, const Arguments& arguments) {
    refuse_forbidden(tracer, object(), held->tp_dict);
    // The one class of PyTorch that hands its calls to modes.
    if (held == torch_room::known().device_class && modes_see_operators(tracer))
        if (auto answer = call_under_modes(tracer, this, arguments)) return *answer;
    if (is_return_type(held) && arguments.count() == 1 && arguments.keywords.empty())
        return tracer.start(make_return_type(tracer, held, arguments.positional[0]));
    if (is_array_function(object()) && has_array(arguments))
        if (Value* answer = call_array_function(tracer, object(), arguments)) return answer;
    if (Handler handler = Handlers::instance().find(object()); handler != nullptr) {
        if (needs_settling(tracer, object(), arguments)) return call_settled(tracer, handler, arguments);
        return handler(tracer, arguments);
    }
    PyTypeObject* meta = Py_TYPE(held);
    if (is_enum_class(held) || Handlers::instance().is_pure(object())) {
        if (is_call_with_own_member(held, arguments)) return arguments.positional[0];
        if (Value* folded = fold(tracer, object(), arguments); folded != nullptr) return folded;
        tracer.break_graph(BreakKind::UnknownFunction,
                           "class " + type_name(held) + " is called with arguments that are not constants");
    }
    if (meta != &PyType_Type) {
        PyObject* raw = nullptr;
        Value* method = class_attribute(tracer, meta, interned("__call__"), &raw);
        if (raw != nullptr && PyFunction_Check(raw)) return operations::call(tracer, method, arguments.after(this));
        // A class is not bound: `TypedDict` has `__call__ = dict`.
        if (raw != nullptr && PyType_CheckExact(raw)) return operations::call(tracer, method, arguments);
        if (raw != nullptr && Py_TYPE(raw) != &PyWrapperDescr_Type)
            tracer.break_graph(BreakKind::UnknownObject,
                               "the __call__ of metaclass " + type_name(meta) + " is a " + type_name(Py_TYPE(raw)));
    }
    return construct_instance(tracer, this, arguments);
}

namespace {

/// Objects of annotations: `T`, `list[int]`, `int | None`.
bool is_of_typing(PyTypeObject* type) {
    const std::string name = type_name(type);
    return name.starts_with("typing.") || name == "types.GenericAlias" || name == "types.UnionType";
}

/// The subscript of a generic class; empty if it is not a constant, even if objects of annotations count as such.
Ref<> subscript_of(Tracer& tracer, Value* key) {
    if (Ref<> constant = key->as_constant(tracer)) return constant;
    if (key->kind == Kind::Object && key->source != nullptr && is_of_typing(key->type())) {
        tracer.realize(key);
        tracer.guard({GuardKind::Identity, key->source, key->object()});
        return Ref<>::share(key->object());
    }
    SequenceValue* sequence = as_sequence(key);
    if (sequence == nullptr || (sequence->class_ != &PyTuple_Type && sequence->class_ != &PyList_Type)) return {};
    Ref<> items = checked(PyList_New(0));
    for (Value* part : sequence->all(tracer)) {
        Ref<> item = subscript_of(tracer, part);
        if (!item) return {};
        checked(PyList_Append(items.get(), item.get()));
    }
    return sequence->kind == Kind::List ? std::move(items) : checked(PyList_AsTuple(items.get()));
}

}  // namespace

Outcome ClassValue::get_item(Tracer& tracer, Value* key) {
    if (const MadeClass* made = MadeClass::find(held)) made->refuse(tracer, "is subscripted");
    Ref<> constant = subscript_of(tracer, key);
    if (!constant)
        tracer.break_graph(BreakKind::UnknownObject,
                           "class " + type_name(held) + " is subscripted with a value that is not a constant");
    Ref<> answer = Ref<>::steal(PyObject_GetItem(object(), constant.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.constant(answer.get());
}

Outcome ClassValue::iterate(Tracer& tracer) {
    if (!is_enum_class(held)) return Value::iterate(tracer);
    Ref<> members = checked(PySequence_List(object()));
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members.get()); ++i)
        items.push_back(tracer.constant(PyList_GET_ITEM(members.get(), i)));
    return tracer.make<ItemsIterator>(&PyListIter_Type, std::move(items));
}

Outcome ClassValue::contains(Tracer& tracer, Value* item) {
    Ref<> constant = item->as_constant(tracer);
    if (!is_enum_class(held) || !constant) return Value::contains(tracer, item);
    int found = PySequence_Contains(object(), constant.get());
    if (found < 0) tracer.raise_from_python();
    return tracer.boolean(found == 1);
}

std::ptrdiff_t ClassValue::length(Tracer& tracer) {
    return is_enum_class(held) ? PyObject_Size(object()) : -1;
}

bool ClassValue::truth(Tracer& tracer) {
    int answer = PyObject_IsTrue(object());
    if (answer < 0) tracer.raise_from_python();
    return answer == 1;
}

Value* ClassValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    if (const MadeClass* made = MadeClass::find(held)) made->refuse(tracer, "is an operand of |");
    Ref<> operand = op == BinaryOperator::Or ? other->as_constant(tracer) : Ref<>();
    if (!operand) return nullptr;
    Ref<> answer =
        Ref<>::steal(reflected ? PyNumber_Or(operand.get(), object()) : PyNumber_Or(object(), operand.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.constant(answer.get());
}

Outcome ClassValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (op != Comparison::Equal && op != Comparison::NotEqual) return nullptr;
    bool same = other->object() == object();
    return tracer.boolean(same == (op == Comparison::Equal));
}

Py_hash_t ClassValue::hash(Tracer& tracer) {
    if (const MadeClass* made = MadeClass::find(held)) made->refuse(tracer, "is hashed");
    return PyObject_Hash(object());
}

graph::Argument ClassValue::as_argument(Tracer& tracer) {
    if (const MadeClass* made = MadeClass::find(held)) made->refuse(tracer, "is an argument of an operation");
    return graph::Argument::of_constant(object());
}

int ClassValue::rebuild(PlanBuilder& plan) {
    if (const MadeClass* made = MadeClass::find(held)) return made->rebuild(plan);
    return rebuild_identical(plan, this, object());
}

std::string ClassValue::print() const {
    return "class " + type_name(held);
}

// --- super
// -------------------------------------------------------------------------------------------------------------

Outcome SuperValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    auto* self_class = cast<ClassValue>(self);
    PyTypeObject* type =
        self_class != nullptr && PyType_IsSubtype(self_class->held, start) ? self_class->held : self->type();
    guard_mro(tracer, type);
    bool through_instance = type == self->type() && !(self_class != nullptr && type == self_class->held);
    PyObject* order = type->tp_mro;
    Py_ssize_t count = PyTuple_GET_SIZE(order), i = 0;
    while (i < count && PyTuple_GET_ITEM(order, i) != reinterpret_cast<PyObject*>(start)) ++i;
    for (++i; i < count; ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
        PyObject* dict = cpython::class_dict(base);
        if (const MadeClass* made = MadeClass::find(base)) {
            PyObject* in_model = nullptr;
            if (Value* own = made->own_attribute(tracer, name, &in_model))
                return bind_attribute(tracer, own, in_model, through_instance ? self : nullptr, type, name);
        }
        if (DictValue* changed = changed_dict(tracer, dict))
            if (auto known = changed->overlaid(tracer, tracer.constant(name))) {
                if (*known == nullptr) continue;
                return bind_attribute(tracer, *known, descriptor_like(tracer, *known),
                                      through_instance ? self : nullptr, type, name);
            }
        PyObject* raw = PyDict_GetItemWithError(dict, name);
        bool is_new = false;
        Source* place =
            tracer.provenance().child(tracer.provenance().pinned(dict), Access::DictItem, name, 0, raw, &is_new);
        if (raw == nullptr) {
            if (is_new) tracer.guard({GuardKind::Absent, place});
            continue;
        }
        Value* attribute = tracer.outside(place, raw);
        if (is_new) tracer.guard({GuardKind::Identity, place, raw});
        tracer.realize(attribute);
        return bind_attribute(tracer, attribute, raw, through_instance ? self : nullptr, type, name);
    }
    tracer.raise(PyExc_AttributeError, "'super' object has no attribute '" + std::string(utf8(name)) + "'");
}

int SuperValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    int of = self->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    const MadeClass* made = MadeClass::find(start);
    const int from = made != nullptr ? made->rebuild(plan) : plan.constant(reinterpret_cast<PyObject*>(start));
    if (int known = plan.known(this); known >= 0) return known;
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {from, of}, reinterpret_cast<PyObject*>(&PySuper_Type));
    return to;
}

std::string SuperValue::print() const {
    return "super(" + type_name(start) + ", " + self->print() + ")";
}

}  // namespace stator
