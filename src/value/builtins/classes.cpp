/// isinstance and issubclass, in Python's order: the class itself, the check of its metaclass, the MRO, and for an
/// instance also its `__class__`.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/tensor/attributes.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

struct Question {
    const char* function;
    const char* check_name;
    bool of_instance;
};
constexpr Question kIsInstance{"isinstance", "__instancecheck__", true};
constexpr Question kIsSubclass{"issubclass", "__subclasscheck__", false};

PyObject* as_object(PyTypeObject* type) {
    return reinterpret_cast<PyObject*>(type);
}

// ---- The class in `__class__` --------------------------------------------------------------------------------------

/// Whether reading `__class__` may return something other than the class.
bool has_own_class_attribute(Tracer& tracer, PyTypeObject* type) {
    if (PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
        return type == &_PyWeakref_ProxyType || type == &_PyWeakref_CallableProxyType;
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(type, interned("__class__"), &owner);
    class_attribute(tracer, type, interned("__class__"));
    PyObject* getter = nullptr;
    class_attribute(tracer, type, interned("__getattribute__"), &getter);
    return owner != &PyBaseObject_Type || (getter != nullptr && PyFunction_Check(getter));
}

/// `subject.__class__` if that is another class than the real one, otherwise null.
Task other_class(Tracer& tracer, Value* subject) {
    if (!has_own_class_attribute(tracer, subject->type())) co_return nullptr;
    Value* other = co_await operations::get_attribute_or(tracer, subject, interned("__class__"), nullptr);
    if (other != nullptr) tracer.realize(other);
    auto* type = other == nullptr ? nullptr : cast<ClassValue>(other);
    co_return type == nullptr || type->held == subject->type() ? nullptr : type;
}

// ---- Checks of `type` -----------------------------------------------------------------------------------------------

/// `type.__instancecheck__` and `type.__subclasscheck__`.
Task check_by_mro(Tracer& tracer, Value* subject, PyTypeObject* of, const Question& question) {
    if (!question.of_instance) co_return tracer.boolean(is_subtype(tracer, cast<ClassValue>(subject)->held, of));
    if (is_subtype(tracer, subject->type(), of)) co_return tracer.boolean(true);
    auto* other = static_cast<ClassValue*>(co_await tracer.start(other_class(tracer, subject)));
    co_return tracer.boolean(other != nullptr && is_subtype(tracer, other->held, of));
}

// ---- Abstract base classes ------------------------------------------------------------------------------------------

/// A method of `abc.ABCMeta` itself.
PyObject* of_abc_meta(const char* name) {
    static PyObject* const meta = imported("abc", "ABCMeta");
    return meta == nullptr ? nullptr
                           : PyDict_GetItemString(cpython::class_dict(reinterpret_cast<PyTypeObject*>(meta)), name);
}

/// Executes the real check: it reads classes only, and the class caches the result until a class is registered.
bool check_abstract_class(Tracer& tracer, PyTypeObject* type, PyTypeObject* of) {
    int answer = PyObject_IsSubclass(as_object(type), as_object(of));
    if (answer < 0) {
        // The error may depend on the caller: protocols inspect the frame.
        PyErr_Clear();
        tracer.break_graph(BreakKind::UnknownObject,
                           "issubclass() of " + type_name(type) + " and " + type_name(of) + " raises an exception");
    }
    tracer.guard({.kind = GuardKind::Subclass,
                  .source = tracer.provenance().pinned(as_object(type)),
                  .expected = as_object(of),
                  .number = answer});
    return answer == 1;
}

/// The check of protocols only adds errors.
bool is_of_typing(PyObject* check) {
    if (check == nullptr || !PyFunction_Check(check)) return false;
    PyObject* module = reinterpret_cast<PyFunctionObject*>(check)->func_module;
    return module != nullptr && PyUnicode_Check(module) && utf8(module) == "typing";
}

/// The methods of `ABCMeta`.
Task check_abstract(Tracer& tracer, Value* subject, PyTypeObject* of, const Question& question) {
    // The result for an instance is that of its class, unless a metaclass overrides `__subclasscheck__`.
    PyObject* of_classes = nullptr;
    class_attribute(tracer, Py_TYPE(of), interned(kIsSubclass.check_name), &of_classes);
    if (of_classes != of_abc_meta(kIsSubclass.check_name) && !is_of_typing(of_classes))
        tracer.break_graph(BreakKind::UnknownObject, "isinstance() or issubclass() with class " + type_name(of) +
                                                         ", whose metaclass defines __subclasscheck__");
    if (!question.of_instance)
        co_return tracer.boolean(check_abstract_class(tracer, cast<ClassValue>(subject)->held, of));
    if (check_abstract_class(tracer, subject->type(), of)) co_return tracer.boolean(true);
    auto* other = static_cast<ClassValue*>(co_await tracer.start(other_class(tracer, subject)));
    co_return tracer.boolean(other != nullptr && check_abstract_class(tracer, other->held, of));
}

// ---- torch.FloatTensor and the like ---------------------------------------------------------------------------------

bool is_legacy_tensor_type(PyTypeObject* type) {
    return Py_TYPE(type) == torch_room::known().legacy_metaclass;
}

/// Not real classes: each is a name for a dtype on a device.
Value* check_legacy(Tracer& tracer, Value* subject, PyTypeObject* of) {
    if (subject->kind == Kind::TensorObject)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "isinstance() of a tensor of class " + type_name(subject->type()) + " with " + of->tp_name);
    auto* tensor = cast<TensorValue>(subject);
    if (tensor == nullptr) return tracer.boolean(false);
    return tracer.boolean(legacy_type_name(tracer, tensor) == of->tp_name);
}

// ---- All checks -----------------------------------------------------------------------------------------------------

Task check_class(Tracer& tracer, Value* subject, Value* classes, const Question& question);

Task check_each(Tracer& tracer, Value* subject, TupleValue* classes, const Question& question) {
    for (std::size_t i = 0; i < classes->items.size(); ++i) {
        Value* answer = co_await tracer.start(check_class(tracer, subject, classes->item(tracer, i), question));
        if (answer->object() == Py_True) co_return answer;
    }
    co_return tracer.boolean(false);
}

/// The second argument is not a class: a union, or an object whose class defines the check.
Task check_other(Tracer& tracer, Value* subject, Value* classes, const Question& question) {
    static PyObject* const union_class = imported("types", "UnionType");
    PyObject* real = classes->object();
    if (real != nullptr && as_object(Py_TYPE(real)) == union_class) {
        Value* alternatives = co_await operations::get_attribute(tracer, classes, interned("__args__"));
        co_return co_await tracer.start(check_class(tracer, subject, alternatives, question));
    }
    if (Value* check = class_attribute(tracer, classes->type(), interned(question.check_name))) {
        Value* result = co_await operations::call(tracer, check, Arguments::of(classes, subject));
        co_return co_await operations::truth(tracer, result);
    }
    // Raises Python's own error.
    if (real != nullptr && PyObject_IsInstance(Py_None, real) < 0) tracer.raise_from_python();
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string(question.function) + "() is called with a " + type_name(classes->type()));
}

Task check_class(Tracer& tracer, Value* subject, Value* classes, const Question& question) {
    symbolic::realize_class(tracer, subject);
    tracer.realize(classes);
    auto* of = cast<ClassValue>(classes);
    if (question.of_instance && of != nullptr && subject->type() == of->held) co_return tracer.boolean(true);
    if (auto* tuple = cast<TupleValue>(classes))
        co_return co_await tracer.start(check_each(tracer, subject, tuple, question));
    if (!question.of_instance && cast<ClassValue>(subject) == nullptr && subject->kind == Kind::Object)
        tracer.break_graph(BreakKind::UnknownObject,
                           "issubclass() of an object that is not a class but may define __bases__");
    if (!question.of_instance && cast<ClassValue>(subject) == nullptr)
        tracer.raise(PyExc_TypeError, "issubclass() arg 1 must be a class");
    if (of == nullptr) co_return co_await tracer.start(check_other(tracer, subject, classes, question));
    if (Py_TYPE(of->held) == &PyType_Type)
        co_return co_await tracer.start(check_by_mro(tracer, subject, of->held, question));
    if (question.of_instance && is_legacy_tensor_type(of->held)) co_return check_legacy(tracer, subject, of->held);
    PyObject* raw = nullptr;
    Value* check = class_attribute(tracer, Py_TYPE(of->held), interned(question.check_name), &raw);
    if (raw == of_abc_meta(question.check_name))
        co_return co_await tracer.start(check_abstract(tracer, subject, of->held, question));
    Value* result = co_await operations::call(tracer, check, Arguments::of(of, subject));
    co_return co_await operations::truth(tracer, result);
}

template <const Question& question>
Outcome builtin_check(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, question.function, arguments,
                              {question.of_instance ? "obj" : "cls", "class_or_tuple"}, 2, 2);
    return tracer.start(check_class(tracer, bound[0], bound[1], question));
}

/// A method of `type` or `ABCMeta`, called by a metaclass that overrides it.
template <const Question& question, Task (*answer)(Tracer&, Value*, PyTypeObject*, const Question&)>
Outcome method_of_metaclass(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, question.check_name, arguments, {"cls", "instance"}, 2, 2);
    tracer.realize(bound[0]);
    symbolic::realize_class(tracer, bound[1]);
    auto* of = cast<ClassValue>(bound[0]);
    if (of == nullptr || (!question.of_instance && cast<ClassValue>(bound[1]) == nullptr))
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string(question.check_name) + " is called on an object that is not a class");
    return tracer.start(answer(tracer, bound[1], of->held, question));
}

}  // namespace

void register_classes(Handlers& handlers) {
    handlers.add("builtins", "isinstance", builtin_check<kIsInstance>);
    handlers.add("builtins", "issubclass", builtin_check<kIsSubclass>);
    handlers.add_method(&PyType_Type, "__instancecheck__", method_of_metaclass<kIsInstance, check_by_mro>);
    handlers.add_method(&PyType_Type, "__subclasscheck__", method_of_metaclass<kIsSubclass, check_by_mro>);
    handlers.add("_abc", "_abc_instancecheck", method_of_metaclass<kIsInstance, check_abstract>);
    handlers.add("_abc", "_abc_subclasscheck", method_of_metaclass<kIsSubclass, check_abstract>);
}

}  // namespace stator
