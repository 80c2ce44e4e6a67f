#include "value/kinds/made_descriptor.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/builtins/library.h"
#include "value/kinds/function.h"
#include "value/kinds/made_class.h"
#include "value/kinds/rebuilding.h"
#include "value/tracer.h"

namespace stator {

int MadeDescriptor::rebuild(PlanBuilder& plan) {
    return rebuild_by_call(plan, this, reinterpret_cast<PyObject*>(class_), made_of);
}

std::string MadeDescriptor::print() const {
    return type_name(class_) + " object";
}

namespace {

/// The code of all functions that stand in for others. Python itself calls one only to see whether it raises.
PyObject* code_of_stand_ins() {
    static PyObject* const code = [] {
        Ref<> globals = checked(PyDict_New());
        Ref<> made = checked(
            PyRun_String("lambda *arguments, **keywords: NotImplemented", Py_eval_input, globals.get(), globals.get()));
        return Py_NewRef(PyFunction_GET_CODE(made.get()));
    }();
    return code;
}

PyObject* stand_in_for_function(Tracer& tracer, FunctionValue* function) {
    Ref<> made = checked(PyFunction_New(code_of_stand_ins(), function->globals));
    checked(PyObject_SetAttr(made.get(), interned("__name__"), function->code->co_name));
    PyObject* held = tracer.keep(std::move(made));
    tracer.make<StandIn>(held, function);
    return held;
}

}  // namespace

PyObject* stand_in_for(Tracer& tracer, Value* value) {
    if (auto* function = cast<FunctionValue>(value)) return stand_in_for_function(tracer, function);
    if (auto* descriptor = dynamic_cast<MadeDescriptor*>(value)) return descriptor->held;
    const bool is_itself = value->kind == Kind::Constant || value->kind == Kind::Class || value->kind == Kind::Builtin;
    if (is_itself) return value->object();
    for (const char* name : {"__get__", "__set_name__"})
        if (cpython::lookup_in_mro(value->type(), interned(name), nullptr) != nullptr) return nullptr;
    return Py_None;
}

PyObject* descriptor_like(Tracer& tracer, Value* value) {
    return value->kind == Kind::Function ? stand_in_for(tracer, value) : Py_None;
}

namespace {

/// `property(...)`, `classmethod(...)`, `staticmethod(...)` of functions. They read the text of the functions, so
/// those are the same for the stand-ins.
template <PyTypeObject* type>
Outcome make_descriptor(Tracer& tracer, const Arguments& arguments) {
    Ref<> positional = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
    Ref<> keywords = checked(PyDict_New());
    auto part = [&](Value* value) {
        tracer.realize(value);
        const bool is_function = value->kind == Kind::Function || value->kind == Kind::Constant;
        PyObject* raw = is_function ? stand_in_for(tracer, value) : nullptr;
        if (raw == nullptr)
            tracer.break_graph(BreakKind::UnknownFunction,
                               type_name(type) + " is called with a " + type_name(value->type()));
        return raw;
    };
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(part(arguments.positional[i])));
    for (const Keyword& keyword : arguments.keywords)
        checked(PyDict_SetItem(keywords.get(), keyword.name, part(keyword.value)));
    Ref<> made = Ref<>::steal(PyObject_Call(reinterpret_cast<PyObject*>(type), positional.get(), keywords.get()));
    if (!made) tracer.raise_from_python();
    return tracer.make<MadeDescriptor>(type, tracer.keep(std::move(made)), arguments);
}

/// `property.setter` and its like: a new property with one function replaced.
template <std::size_t kPart>
Outcome replace_part(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kNames[] = {"fget", "fset", "fdel"};
    auto bound = bind_builtin(tracer, kNames[kPart], arguments, {"self", "function"}, 2, 2);
    auto* property = dynamic_cast<MadeDescriptor*>(bound[0]);
    if (property == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "a property that existed before the call is copied");
    Arguments parts;
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
        Value* given = property->made_of.keyword(kNames[i]);
        if (given == nullptr && i < property->made_of.positional.size()) given = property->made_of.positional[i];
        parts.positional.push_back(i == kPart ? bound[1] : given == nullptr ? tracer.none() : given);
    }
    return make_descriptor<&PyProperty_Type>(tracer, parts);
}

}  // namespace

void register_made_descriptors(Handlers& handlers) {
    handlers.add(reinterpret_cast<PyObject*>(&PyProperty_Type), make_descriptor<&PyProperty_Type>);
    handlers.add(reinterpret_cast<PyObject*>(&PyClassMethod_Type), make_descriptor<&PyClassMethod_Type>);
    handlers.add(reinterpret_cast<PyObject*>(&PyStaticMethod_Type), make_descriptor<&PyStaticMethod_Type>);
    handlers.add_method(&PyProperty_Type, "getter", replace_part<0>);
    handlers.add_method(&PyProperty_Type, "setter", replace_part<1>);
    handlers.add_method(&PyProperty_Type, "deleter", replace_part<2>);
}

}  // namespace stator
