#include "value/kinds/made_class.h"

#include <array>
#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/kinds/class.h"
#include "value/kinds/dict.h"
#include "value/kinds/made_descriptor.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// By class. Each is there as long as its trace.
std::unordered_map<PyTypeObject*, const MadeClass*>& all() {
    static auto* const classes = new std::unordered_map<PyTypeObject*, const MadeClass*>();
    return *classes;
}

std::unordered_map<PyObject*, Value*>& stand_ins() {
    static auto* const objects = new std::unordered_map<PyObject*, Value*>();
    return *objects;
}

/// Whether it is a `dataclasses.Field` that the trace has made.
bool is_field(const Value* value) {
    static PyTypeObject* const field = imported_class("dataclasses", "Field");
    return value->type() == field && value->object() == nullptr;
}

/// The same field as an object, kept alive by the trace; null if not all of it is constant.
PyObject* real_field(Tracer& tracer, Value* value) {
    static PyObject* const make = imported("dataclasses", "field");
    static PyObject* const no_metadata = imported("dataclasses", "_EMPTY_METADATA");
    Value* metadata = value->own_attribute(tracer, interned("metadata"));
    if (metadata == nullptr || metadata->object() != no_metadata) return nullptr;
    Ref<> options = checked(PyDict_New());
    for (const char* name : {"default", "default_factory", "init", "repr", "hash", "compare", "kw_only"}) {
        Value* part = value->own_attribute(tracer, interned(name));
        Ref<> constant = part == nullptr ? Ref<>() : part->as_constant(tracer);
        if (!constant && part != nullptr && part->object() != nullptr && part->kind == Kind::Object)
            constant = Ref<>::share(part->object());  // MISSING
        if (!constant) return nullptr;
        checked(PyDict_SetItemString(options.get(), name, constant.get()));
    }
    Ref<> nothing = checked(PyTuple_New(0));
    return tracer.keep(checked(PyObject_Call(make, nothing.get(), options.get())));
}

}  // namespace

MadeClass::MadeClass(PyTypeObject* model, Value* value, PyObject* factory, Arguments arguments)
    : model_(model), value_(value), factory_(factory), arguments_(std::move(arguments)) {
    all().emplace(model, this);
}

MadeClass::MadeClass(PyTypeObject* model, Value* value, ClassParts parts)
    : model_(model), value_(value), parts_(std::move(parts)) {
    all().emplace(model, this);
}

MadeClass::~MadeClass() {
    all().erase(model_);
}

const MadeClass* MadeClass::find(PyTypeObject* model) {
    if (all().empty()) return nullptr;
    auto found = all().find(model);
    return found == all().end() ? nullptr : found->second;
}

Value* MadeClass::own_attribute(Tracer& tracer, Borrowed<> name, PyObject** raw) const {
    Value* value = parts_.names == nullptr ? nullptr : parts_.names->find(tracer, name);
    if (value == nullptr) return nullptr;
    *raw = PyDict_GetItemWithError(cpython::class_dict(model_), name);
    return *raw == nullptr ? nullptr : value;
}

Value* MadeClass::attribute(Tracer& tracer, PyTypeObject* type, Borrowed<> name, PyObject** raw) {
    if (all().empty() || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return nullptr;
    PyTypeObject* owner = nullptr;
    if (cpython::lookup_in_mro(type, name, &owner) == nullptr) return nullptr;
    const MadeClass* made = find(owner);
    return made == nullptr ? nullptr : made->own_attribute(tracer, name, raw);
}

void MadeClass::refuse(Tracer& tracer, const std::string& use) const {
    tracer.break_graph(BreakKind::UnknownObject,
                       "class " + type_name(model_) + ", which was created in the captured region, " + use);
}

void MadeClass::expect_own_part(Tracer& tracer, Borrowed<> name) const {
    const std::string_view text = utf8(name);
    const bool is_text = text == "__name__" || text == "__qualname__" || text == "__module__" || text == "__doc__";
    // (The fields of a dataclass are those of the model: they never change.)
    const bool is_harmless =
        text == "__class__" || text == "__match_args__" || text == "__new__" || text.starts_with("__dataclass_");
    PyObject* raw = cpython::lookup_in_mro(model_, name, nullptr);
    const bool is_method = raw != nullptr && (PyFunction_Check(raw) || Py_TYPE(raw) == &PyWrapperDescr_Type ||
                                              Py_TYPE(raw) == &PyMethodDescr_Type);
    if (text == "_field_defaults" || (text.starts_with("__") && !is_text && !is_harmless && !is_method))
        refuse(tracer, "is asked for its attribute '" + std::string(text) + "'");
}

void MadeClass::set_attribute(Tracer& tracer, Borrowed<> name, Value* value) const {
    // Special methods are in slots of the class.
    if (parts_.names == nullptr || utf8(name).starts_with("__")) refuse(tracer, "is changed");
    Ref<> before = Ref<>::share(PyDict_GetItemWithError(cpython::class_dict(model_), name));
    PyObject* raw = value == nullptr ? nullptr : stand_in_for(tracer, value);
    if (value != nullptr && raw == nullptr) refuse(tracer, "gets a descriptor");
    // (Another class of the MRO may have it.)
    if (value == nullptr && !before) raise_no_attribute(tracer, value_, name);
    auto* model = reinterpret_cast<PyObject*>(model_);
    PyObject* kept_name = tracer.keep(Ref<>::share(name.get()));
    PyObject* kept = before ? tracer.keep(std::move(before)) : nullptr;
    tracer.on_undo([model, kept_name, kept] {
        if (PyType_Type.tp_setattro(model, kept_name, kept) < 0) PyErr_Clear();
    });
    checked(PyType_Type.tp_setattro(model, name, raw));
    if (value == nullptr)
        parts_.names->remove(tracer, tracer.constant(name));
    else
        parts_.names->insert(tracer, tracer.constant(name), value);
}

void MadeClass::take_names_from_model(Tracer& tracer) const {
    PyObject* now = cpython::class_dict(model_);
    for (Table::Entry* entry : parts_.names->table.entries()) {
        PyObject* name = entry->key->object();
        PyObject* left = PyDict_GetItemWithError(now, name);
        const bool was_in_model = utf8(name) != "__qualname__" && utf8(name) != "__classcell__";
        if (left == nullptr && was_in_model)
            parts_.names->remove(tracer, entry->key);
        else if (left != nullptr && is_field(entry->value))
            parts_.names->insert(tracer, entry->key, tracer.constant(left));
    }
}

void MadeClass::decorate(Tracer& tracer, PyObject* function, std::vector<PyObject*> arguments, Borrowed<> read) const {
    if (parts_.names == nullptr || decoration_.function != nullptr || parts_.names->table.all().size() != parts_.count)
        refuse(tracer, "is decorated after it was changed");
    Decoration decoration{function, std::move(arguments)};
    for (const Table::Entry* entry : parts_.names->table.entries()) {
        decoration.before.emplace_back(entry->key->object(), entry->value);
        if (PyDict_Contains(read, entry->key->object()) == 0 && !is_field(entry->value)) continue;
        PyObject* real = nullptr;
        if (is_field(entry->value))
            real = real_field(tracer, entry->value);
        else if (entry->value->kind == Kind::Constant || entry->value->kind == Kind::Class)
            real = entry->value->object();
        if (real == nullptr) refuse(tracer, "has a default that is not a constant");
        checked(PyType_Type.tp_setattro(reinterpret_cast<PyObject*>(model_), entry->key->object(), real));
    }
    auto* model = reinterpret_cast<PyObject*>(model_);
    checked(PyObject_SetAttr(model, interned("__annotations__"), read));
    Ref<> all = checked(PyTuple_New(static_cast<Py_ssize_t>(decoration.arguments.size()) + 1));
    PyTuple_SET_ITEM(all.get(), 0, Py_NewRef(model));
    for (std::size_t i = 0; i < decoration.arguments.size(); ++i)
        PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i) + 1, Py_NewRef(decoration.arguments[i]));
    Ref<> made = Ref<>::steal(PyObject_Call(function, all.get(), nullptr));
    if (!made) tracer.raise_from_python();
    if (made.get() != model) refuse(tracer, "is replaced by a decorator");
    take_names_from_model(tracer);
    const Table::Entries& names = parts_.names->table.all();
    for (std::size_t i = 0; i < names.size(); ++i) decoration.after.push_back(names[i].value);
    set_undoably(tracer, decoration_, std::move(decoration));
}

// --- in the plan ----------------------------------------------------------------------------------------------------

namespace {

/// What the class is made with. The rest is assigned once it exists, because it may lead to the class.
bool is_given(PyObject* name, const Value* value) {
    return value->kind == Kind::Constant || utf8(name) == "__slots__";
}

/// The value of a name, as `type` would store it.
int rebuild_named(PlanBuilder& plan, PyObject* name, Value* named) {
    const int value = named->rebuild(plan);
    const bool is_static = utf8(name) == "__new__" && named->kind == Kind::Function;
    if (!is_static) return value;
    return plan.add(PlanOp::Call, {value}, reinterpret_cast<PyObject*>(&PyStaticMethod_Type));
}

}  // namespace

int MadeClass::rebuild_body(PlanBuilder& plan, const std::vector<std::pair<PyObject*, Value*>>& names) const {
    std::vector<std::int32_t> bases, pairs;
    for (Value* base : parts_.bases) bases.push_back(base->rebuild(plan));
    if (int known = plan.known(value_); known >= 0) return known;
    // The names of the body are in the order of the body, and type() reads which there are.
    for (const auto& [name, value] : names) {
        pairs.push_back(plan.constant(name));
        pairs.push_back(is_given(name, value) ? value->rebuild(plan) : plan.constant(Py_None));
    }
    const int given = plan.add(PlanOp::Dict, std::move(pairs)), all_bases = plan.add(PlanOp::Tuple, std::move(bases));
    const int to = plan.reserve(value_);
    plan.add_to(to, PlanOp::Call, {plan.constant(parts_.name), all_bases, given},
                reinterpret_cast<PyObject*>(&PyType_Type));
    for (const auto& [name, value] : names)
        if (!is_given(name, value)) plan.add(PlanOp::SetAttribute, {to, rebuild_named(plan, name, value)}, name);
    return to;
}

int MadeClass::rebuild_statement(PlanBuilder& plan) const {
    if (int known = plan.known(value_); known >= 0) return known;
    const Table::Entries& all = parts_.names->table.all();
    const bool is_decorated = decoration_.function != nullptr;
    std::vector<std::pair<PyObject*, Value*>> body = decoration_.before;
    for (std::size_t i = 0; i < parts_.count && !is_decorated; ++i)
        if (all[i].live) body.emplace_back(all[i].key->object(), all[i].value);
    const int to = rebuild_body(plan, body);
    if (is_decorated) {
        std::vector<std::int32_t> arguments(1, to);
        for (PyObject* argument : decoration_.arguments) arguments.push_back(plan.constant(argument));
        plan.add(PlanOp::Call, std::move(arguments), decoration_.function);
    }
    // What the program has assigned since.
    const std::size_t first = is_decorated ? 0 : parts_.count;
    for (std::size_t i = first; i < all.size(); ++i) {
        const bool is_left = i < decoration_.after.size() && decoration_.after[i] == all[i].value;
        PyObject* name = all[i].key->object();
        if (all[i].live && !is_left)
            plan.add(PlanOp::SetAttribute, {to, rebuild_named(plan, name, all[i].value)}, name);
    }
    return to;
}

int MadeClass::rebuild(PlanBuilder& plan) const {
    return factory_ == nullptr ? rebuild_statement(plan) : rebuild_by_call(plan, value_, factory_, arguments_);
}

int MadeClass::rebuild_instance(PlanBuilder& plan, const Value* instance, std::vector<std::int32_t> items) const {
    static PyObject* const create = method_of_class(&PyTuple_Type, "__new__");
    const int type = rebuild(plan), contents = plan.add(PlanOp::Tuple, std::move(items));
    const int to = plan.reserve(instance);
    plan.add_to(to, PlanOp::Call, {type, contents}, create);
    return to;
}

void add_new_object(PlanBuilder& plan, int to, PyTypeObject* type, std::vector<std::int32_t> arguments) {
    const MadeClass* made = MadeClass::find(type);
    if (made == nullptr)
        return plan.add_to(to, PlanOp::NewObject, std::move(arguments), reinterpret_cast<PyObject*>(type));
    PyTypeObject* base = type;
    while (PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE)) base = base->tp_base;
    arguments.insert(arguments.begin(), made->rebuild(plan));
    plan.add_to(to, PlanOp::Call, std::move(arguments), Ref<>::steal(method_of_class(base, "__new__")).get());
}

// --- making one -----------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void cannot_make(Tracer& tracer, const ClassParts& parts, const std::string& why) {
    tracer.break_graph(BreakKind::UnknownObject,
                       "class " + std::string(utf8(parts.name)) + " is defined inside the function, and " + why);
}

/// The base classes as objects.
Ref<> real_bases(Tracer& tracer, const ClassParts& parts) {
    Ref<> bases = checked(PyTuple_New(static_cast<Py_ssize_t>(parts.bases.size())));
    for (std::size_t i = 0; i < parts.bases.size(); ++i) {
        tracer.realize(parts.bases[i]);
        const auto* base = cast<ClassValue>(parts.bases[i]);
        if (base == nullptr) cannot_make(tracer, parts, "one of its bases is not a class");
        if (Py_TYPE(base->held) != &PyType_Type)
            cannot_make(tracer, parts, "its metaclass is " + type_name(Py_TYPE(base->held)));
        PyTypeObject* owner = nullptr;
        cpython::lookup_in_mro(base->held, interned("__init_subclass__"), &owner);
        if (owner != &PyBaseObject_Type) cannot_make(tracer, parts, "__init_subclass__ of a base would run");
        guard_mro(tracer, base->held);
        PyTuple_SET_ITEM(bases.get(), static_cast<Py_ssize_t>(i), Py_NewRef(base->object()));
    }
    return bases;
}

/// Instances are plain objects with attributes, or exceptions: what the plan can make. (C code makes classes too that
/// look as if a class statement had, but for how their objects are freed.)
bool has_plain_instances(const PyTypeObject* model) {
    const PyTypeObject* base = model;
    while ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
        if (base->tp_dealloc != model->tp_dealloc || base->tp_base == nullptr) return false;
        base = base->tp_base;
    }
    return base == &PyBaseObject_Type || (base->tp_flags & Py_TPFLAGS_BASE_EXC_SUBCLASS) != 0;
}

bool runs_code_in_type(std::string_view name) {
    return name == "__init_subclass__" || name == "__class_getitem__" || name == "__set_name__" || name == "__del__" ||
           name == "__getattribute__" || name == "__mro_entries__";
}

/// The dict that the model gets: what stands in for the values of the body.
Ref<> names_of_model(Tracer& tracer, const ClassParts& parts) {
    Ref<> names = checked(PyDict_New());
    for (const Table::Entry* entry : parts.names->table.entries()) {
        PyObject* key = entry->key->object();
        if (key == nullptr || !PyUnicode_CheckExact(key)) cannot_make(tracer, parts, "a name in its body is no str");
        tracer.realize(entry->value);
        if (runs_code_in_type(utf8(key))) cannot_make(tracer, parts, "it has " + std::string(utf8(key)));
        // (The `__set_name__` of a field calls that of its default, which is a constant, or the class is refused.)
        PyObject* raw = is_field(entry->value) ? Py_None : stand_in_for(tracer, entry->value);
        if (utf8(key) == "__slots__") {
            Ref<> slots = entry->value->as_constant(tracer);
            raw = slots ? tracer.keep(std::move(slots)) : nullptr;
        }
        if (raw == nullptr) cannot_make(tracer, parts, "its '" + std::string(utf8(key)) + "' is a descriptor");
        checked(PyDict_SetItem(names.get(), key, raw));
    }
    return names;
}

}  // namespace

Value* make_class(Tracer& tracer, ClassParts parts) {
    Ref<> bases = real_bases(tracer, parts), names = names_of_model(tracer, parts);
    Ref<> arguments = checked(PyTuple_Pack(3, parts.name, bases.get(), names.get()));
    Ref<> made = Ref<>::steal(PyObject_Call(reinterpret_cast<PyObject*>(&PyType_Type), arguments.get(), nullptr));
    if (!made) tracer.raise_from_python();
    PyObject* object = tracer.keep(std::move(made));
    auto* model = reinterpret_cast<PyTypeObject*>(object);
    if (!has_plain_instances(model)) cannot_make(tracer, parts, "has a builtin base class other than object");
    Value* value = tracer.constant(object);
    parts.count = parts.names->table.all().size();
    tracer.make<MadeClass>(model, value, std::move(parts));
    return value;
}

// --- stand-ins ------------------------------------------------------------------------------------------------------

StandIn::StandIn(PyObject* held, Value* value) : held_(held) {
    stand_ins().emplace(held, value);
}

StandIn::~StandIn() {
    stand_ins().erase(held_);
}

Value* StandIn::behind(PyObject* held) {
    if (stand_ins().empty()) return nullptr;
    auto found = stand_ins().find(held);
    return found == stand_ins().end() ? nullptr : found->second;
}

}  // namespace stator
