#include "value/kinds/scalar.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "value/kinds/rebuilding.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Whether the class, or a Python class that it derives from, has a special method written in Python, which C code
/// would call.
bool has_own_special_methods(PyTypeObject* type, PyTypeObject* base) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
        auto* one = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
        if (one == base || one == &PyBaseObject_Type) continue;
        PyObject *name = nullptr, *value = nullptr;
        Py_ssize_t position = 0;
        while (PyDict_Next(cpython::class_dict(one), &position, &name, &value)) {
            if (!PyFunction_Check(value)) continue;
            std::string_view text = utf8(name);
            if (text.starts_with("__") && text != "__init__" && text != "__new__" && text != "__getattr__" &&
                text != "__init_subclass__" && text != "__setattr__")
                return true;
        }
    }
    return false;
}

/// An instance of the builtin class itself with the same value.
Ref<> plain_copy(PyTypeObject* base, PyObject* object) {
    if (base == &PyLong_Type) return checked(_PyLong_Copy(reinterpret_cast<PyLongObject*>(object)));
    if (base == &PyFloat_Type) return checked(PyFloat_FromDouble(PyFloat_AS_DOUBLE(object)));
    if (base == &PyComplex_Type)
        return checked(PyComplex_FromCComplex(reinterpret_cast<PyComplexObject*>(object)->cval));
    if (base == &PyUnicode_Type) return checked(PyUnicode_Substring(object, 0, PyUnicode_GET_LENGTH(object)));
    return checked(PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
}

}  // namespace

PyTypeObject* scalar_base(PyTypeObject* type) {
    // A class written in C (numpy.float64, for example) may define its operators differently.
    for (PyTypeObject* base = type; base != nullptr; base = base->tp_base) {
        if (base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type || base == &PyBytes_Type ||
            base == &PyComplex_Type)
            return base == type ? nullptr : base;
        if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return nullptr;
    }
    return nullptr;
}

ScalarValue* make_scalar(Tracer& tracer, PyTypeObject* type, const Arguments& arguments) {
    PyTypeObject* base = scalar_base(type);
    Ref<> positional = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        tracer.realize(arguments.positional[i]);
        Ref<> known = arguments.positional[i]->as_constant(tracer);
        if (!known) return nullptr;
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), known.release());
    }
    Ref<> named;
    if (!arguments.keywords.empty()) named = checked(PyDict_New());
    for (const Keyword& keyword : arguments.keywords) {
        tracer.realize(keyword.value);
        Ref<> known = keyword.value->as_constant(tracer);
        if (!known) return nullptr;
        checked(PyDict_SetItem(named.get(), keyword.name, known.get()));
    }
    Ref<> plain = Ref<>::steal(base->tp_new(base, positional.get(), named.get()));
    if (!plain) tracer.raise_from_python();
    auto* scalar = tracer.make<ScalarValue>(type);
    scalar->payload = tracer.fresh(std::move(plain));
    return scalar;
}

Value* unwrapped(Tracer& tracer, Value* value) {
    if (auto* tensor = cast<TensorObjectValue>(value); tensor != nullptr && !has_active_torch_function(tracer, tensor))
        return tensor->tensor(tracer);
    auto* scalar = cast<ScalarValue>(value);
    return scalar == nullptr ? value : scalar->plain(tracer);
}

Value* as_plain_key(Tracer& tracer, Value* value) {
    auto* scalar = cast<ScalarValue>(value);
    if (scalar == nullptr) return value;
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(scalar->class_, interned("__eq__"), &owner);
    return owner == scalar_base(scalar->class_) ? scalar->plain(tracer) : value;
}

Value* ScalarValue::plain(Tracer& tracer) {
    if (payload != nullptr) return payload;
    tracer.realize(this);
    tracer.guard({GuardKind::Constant, source, outside});
    payload = tracer.fresh(plain_copy(scalar_base(class_), outside));
    tracer.on_undo([this] { payload = nullptr; });
    return payload;
}

Ref<> ScalarValue::as_constant(Tracer& tracer) {
    if (has_own_special_methods(class_, scalar_base(class_))) return {};
    return plain(tracer)->as_constant(tracer);
}

Outcome ScalarValue::get_item(Tracer& tracer, Value* key) {
    return plain(tracer)->get_item(tracer, unwrapped(tracer, key));
}

Outcome ScalarValue::contains(Tracer& tracer, Value* item) {
    return plain(tracer)->contains(tracer, unwrapped(tracer, item));
}

std::ptrdiff_t ScalarValue::length(Tracer& tracer) {
    return plain(tracer)->length(tracer);
}

bool ScalarValue::truth(Tracer& tracer) {
    return plain(tracer)->truth(tracer);
}

Outcome ScalarValue::iterate(Tracer& tracer) {
    return plain(tracer)->iterate(tracer);
}

Value* ScalarValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    return plain(tracer)->binary(tracer, op, unwrapped(tracer, other), reflected);
}

Value* ScalarValue::unary(Tracer& tracer, UnaryOperator op) {
    return plain(tracer)->unary(tracer, op);
}

Outcome ScalarValue::compare(Tracer& tracer, Comparison op, Value* other) {
    return plain(tracer)->compare(tracer, op, unwrapped(tracer, other));
}

Py_hash_t ScalarValue::hash(Tracer& tracer) {
    PyTypeObject* owner = nullptr;
    PyObject* raw = cpython::lookup_in_mro(class_, interned("__hash__"), &owner);
    if (raw != nullptr && owner == scalar_base(class_)) return plain(tracer)->hash(tracer);
    return ObjectValue::hash(tracer);
}

graph::Argument ScalarValue::as_argument(Tracer& tracer) {
    return plain(tracer)->as_argument(tracer);
}

int ScalarValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    int content = payload->rebuild(plan);
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::NewObject, {content}, reinterpret_cast<PyObject*>(class_));
    rebuild_attributes(plan, to, this);
    return to;
}

std::string ScalarValue::print() const {
    return type_name(class_) + "(" + (payload == nullptr ? "..." : payload->print()) + ")";
}

}  // namespace stator
