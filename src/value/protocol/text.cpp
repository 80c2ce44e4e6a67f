#include "value/protocol/text.h"

#include <string_view>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/kinds/weak.h"
#include "value/protocol/container_text.h"
#include "value/protocol/operations.h"

namespace stator {

namespace {

[[noreturn]] void break_on(Tracer& tracer, const char* what, Value* value) {
    tracer.break_graph(value->kind == Kind::Tensor ? BreakKind::DataDependent : BreakKind::UnknownObject,
                       std::string(what) + " of an object of class " + type_name(value->type()) + "");
}

Value* text_from(Tracer& tracer, PyObject* new_reference) {
    if (new_reference == nullptr) tracer.raise_from_python();
    return tracer.fresh(Ref<>::steal(new_reference));
}

Task text_by_method(Tracer& tracer, Value* method, Value* value, const char* name) {
    Value* text = co_await operations::call(tracer, method, Arguments::of(value));
    tracer.realize(text);
    if (text->object() == nullptr || !PyUnicode_Check(text->object()))
        tracer.raise(PyExc_TypeError, std::string(name) + " returned non-string (type " + text->type()->tp_name + ")");
    co_return text;
}

/// The text of a number or string inside an instance of a subclass that inherits `method` from the builtin class;
/// otherwise empty.
Ref<> text_of_scalar(Tracer& tracer, Value* value, const char* method, PyObject* (*convert)(PyObject*)) {
    auto* scalar = cast<ScalarValue>(value);
    if (scalar == nullptr) return {};
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(scalar->class_, interned(method), &owner);
    if (owner != scalar_base(scalar->class_)) return {};
    Ref<> text = Ref<>::steal(convert(scalar->plain(tracer)->object()));
    if (!text) tracer.raise_from_python();
    return text;
}

/// The repr of a class or function contains its names, which can be assigned.
void rely_on_name(Tracer& tracer, Value* shown, std::initializer_list<const char*> parts) {
    for (const char* part : parts) {
        Outcome name = shown->get_attribute(tracer, interned(part));
        if (name.is_pending())
            tracer.break_graph(BreakKind::UnknownObject, "a metaclass computes __module__ or __qualname__");
        tracer.realize(name.value());
    }
}

}  // namespace

Outcome repr_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (value->kind == Kind::Class) rely_on_name(tracer, value, {"__module__", "__qualname__"});
    if (Value* method = operations::user_method(tracer, value, "__repr__"))
        return tracer.start(text_by_method(tracer, method, value, "__repr__"));
    if (Ref<> text = text_of_scalar(tracer, value, "__repr__", PyObject_Repr)) return tracer.fresh(std::move(text));
    if (Ref<> known = value->as_constant(tracer)) return text_from(tracer, PyObject_Repr(known.get()));
    if (value->kind == Kind::Function && guard_weakly(tracer, value) != nullptr) {
        rely_on_name(tracer, value, {"__qualname__"});
        return text_from(tracer, PyObject_Repr(value->object()));
    }
    if (value->kind == Kind::Builtin) return text_from(tracer, PyObject_Repr(value->object()));
    if (value->kind == Kind::Exception) return operations::call_method(tracer, value, "__repr__", Arguments::of());
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(value->type(), interned("__repr__"), &owner);
    if (auto text = repr_by(tracer, owner, value)) return *text;
    // `<module.Class object at 0x...>`
    if (owner == &PyBaseObject_Type && value->kind == Kind::Object && guard_weakly(tracer, value) != nullptr) {
        rely_on_name(tracer, tracer.constant(reinterpret_cast<PyObject*>(value->type())),
                     {"__module__", "__qualname__"});
        return text_from(tracer, PyObject_Repr(value->object()));
    }
    break_on(tracer, "repr()", value);
}

Outcome str_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (value->kind == Kind::Constant && PyUnicode_CheckExact(value->object())) return value;
    if (value->kind == Kind::Class) rely_on_name(tracer, value, {"__module__", "__qualname__"});
    if (Value* method = operations::user_method(tracer, value, "__str__"))
        return tracer.start(text_by_method(tracer, method, value, "__str__"));
    if (Ref<> text = text_of_scalar(tracer, value, "__str__", PyObject_Str)) return tracer.fresh(std::move(text));
    if (Ref<> known = value->as_constant(tracer)) return text_from(tracer, PyObject_Str(known.get()));
    if (value->kind == Kind::Exception) return operations::call_method(tracer, value, "__str__", Arguments::of());
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(value->type(), interned("__str__"), &owner);
    if (owner == &PyBaseObject_Type) return repr_of(tracer, value);
    break_on(tracer, "str()", value);
}

namespace {

Task format_by_method(Tracer& tracer, Value* method, Value* value, Value* specification) {
    Value* text = co_await operations::call(tracer, method, Arguments::of(value, specification));
    tracer.realize(text);
    if (!PyType_IsSubtype(text->type(), &PyUnicode_Type))
        tracer.raise(PyExc_TypeError, std::string("__format__ must return a str, not ") + text->type()->tp_name);
    co_return text;
}

}  // namespace

Outcome format_of(Tracer& tracer, Value* value, Value* specification) {
    tracer.realize(value);
    std::string_view how;
    if (specification != nullptr) {
        tracer.realize(specification);
        if (specification->object() == nullptr || !PyUnicode_Check(specification->object()))
            tracer.raise(PyExc_TypeError,
                         std::string("format() argument 2 must be str, not ") + specification->type()->tp_name);
        how = utf8(specification->object());
    }
    if (Value* method = operations::user_method(tracer, value, "__format__"))
        return tracer.start(
            format_by_method(tracer, method, value, specification != nullptr ? specification : tracer.string("")));
    if (how.empty() && value->kind == Kind::Constant && PyUnicode_CheckExact(value->object())) return value;
    if (value->kind == Kind::Constant)
        return text_from(
            tracer, PyObject_Format(value->object(), specification == nullptr ? nullptr : specification->object()));
    if (how.empty()) return str_of(tracer, value);
    if (auto* scalar = cast<ScalarValue>(value))
        return text_from(tracer, PyObject_Format(scalar->plain(tracer)->object(), specification->object()));
    if (Ref<> known = value->as_constant(tracer))
        return text_from(tracer, PyObject_Format(known.get(), specification->object()));
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(value->type(), interned("__format__"), &owner);
    if (owner == &PyBaseObject_Type)
        tracer.raise(PyExc_TypeError,
                     std::string("unsupported format string passed to ") + value->type()->tp_name + ".__format__");
    break_on(tracer, "format()", value);
}

}  // namespace stator
