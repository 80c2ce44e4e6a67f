#include "run/patterns.h"

#include "base/names.h"
#include "base/python_error.h"

namespace stator::patterns {

namespace {

Ref<> none() {
    return Ref<>::share(Py_None);
}

template <class... Arguments>
[[noreturn]] void fail(PyObject* type, const char* format, Arguments... arguments) {
    PyErr_Format(type, format, arguments...);
    throw PythonError();
}

/// Empty if the attribute does not exist.
Ref<> attribute_if_any(PyObject* object, PyObject* name) {
    Ref<> found = Ref<>::steal(PyObject_GetAttr(object, name));
    if (found) return found;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PythonError();
    PyErr_Clear();
    return {};
}

/// The attributes of a class pattern: none may be used twice.
class Attributes {
  public:
    Attributes(PyObject* subject, PyObject* type)
        : subject_(subject), type_(type), seen_(checked(PySet_New(nullptr))), found_(checked(PyList_New(0))) {}

    void add(PyObject* value) { checked(PyList_Append(found_.get(), value)); }
    /// False if the subject has no such attribute.
    bool take(PyObject* name) {
        if (checked(PySet_Contains(seen_.get(), name)) != 0)
            fail(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                 reinterpret_cast<PyTypeObject*>(type_)->tp_name, name);
        checked(PySet_Add(seen_.get(), name));
        Ref<> value = attribute_if_any(subject_, name);
        if (value) add(value.get());
        return bool(value);
    }
    Ref<> as_tuple() const { return checked(PyList_AsTuple(found_.get())); }

  private:
    PyObject *subject_, *type_;
    Ref<> seen_, found_;
};

/// False if the subject lacks one.
bool take_positional(Attributes& attributes, PyObject* subject, PyObject* type, Py_ssize_t count) {
    const char* name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
    Ref<> order = attribute_if_any(type, interned("__match_args__"));
    bool is_whole = !order && (reinterpret_cast<PyTypeObject*>(type)->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
    if (order && !PyTuple_CheckExact(order.get()))
        fail(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", name, Py_TYPE(order.get())->tp_name);
    Py_ssize_t allowed = is_whole ? 1 : order ? PyTuple_GET_SIZE(order.get()) : 0;
    if (allowed < count)
        fail(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%zd given)", name, allowed,
             allowed == 1 ? "" : "s", count);
    if (is_whole) {
        attributes.add(subject);
        return true;
    }
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* attribute = PyTuple_GET_ITEM(order.get(), i);
        if (!PyUnicode_CheckExact(attribute))
            fail(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(attribute)->tp_name);
        if (!attributes.take(attribute)) return false;
    }
    return true;
}

}  // namespace

Ref<> match_keys(PyObject* mapping, PyObject* keys) {
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    Ref<> values = checked(PyList_New(0));
    if (count == 0) return checked(PyTuple_New(0));
    Ref<> get = checked(PyObject_GetAttr(mapping, interned("get")));
    Ref<> absent = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
    Ref<> matched = checked(PySet_New(nullptr));
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* key = PyTuple_GET_ITEM(keys, i);
        if (checked(PySet_Contains(matched.get(), key)) != 0)
            fail(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
        checked(PySet_Add(matched.get(), key));
        Ref<> value = checked(PyObject_CallFunctionObjArgs(get.get(), key, absent.get(), nullptr));
        if (value.get() == absent.get()) return none();
        checked(PyList_Append(values.get(), value.get()));
    }
    return checked(PyList_AsTuple(values.get()));
}

Ref<> match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* names) {
    if (!PyType_Check(type)) fail(PyExc_TypeError, "called match pattern must be a class");
    if (checked(PyObject_IsInstance(subject, type)) == 0) return none();
    Attributes attributes(subject, type);
    if (positional > 0 && !take_positional(attributes, subject, type, positional)) return none();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
        if (!attributes.take(PyTuple_GET_ITEM(names, i))) return none();
    return attributes.as_tuple();
}

bool is_group_pattern(PyObject* pattern) {
    auto is_class = [](PyObject* one) {
        return PyExceptionClass_Check(one) &&
               PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(one),
                                reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) == 0;
    };
    if (!PyTuple_Check(pattern)) return is_class(pattern);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pattern); ++i)
        if (!is_class(PyTuple_GET_ITEM(pattern, i))) return false;
    return true;
}

Parts split_group(PyObject* exception, PyObject* pattern) {
    if (exception == Py_None) return {none(), none()};
    bool is_group = PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
    if (PyErr_GivenExceptionMatches(exception, pattern) != 0) {
        if (is_group) return {Ref<>::share(exception), none()};
        Ref<> wrapped = checked(PyObject_CallFunction(PyExc_BaseExceptionGroup, "s(O)", "", exception));
        return {std::move(wrapped), none()};
    }
    if (!is_group) return {none(), Ref<>::share(exception)};
    Ref<> parts = checked(PyObject_CallMethodOneArg(exception, interned("split"), pattern));
    if (!PyTuple_CheckExact(parts.get()) || PyTuple_GET_SIZE(parts.get()) < 2)
        fail(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name);
    return {Ref<>::share(PyTuple_GET_ITEM(parts.get(), 0)), Ref<>::share(PyTuple_GET_ITEM(parts.get(), 1))};
}

}  // namespace stator::patterns
