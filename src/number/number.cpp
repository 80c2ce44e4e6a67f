#include "number/number.h"

#include "base/python_error.h"
#include "base/text.h"

namespace stator {

std::optional<Number> Number::of(PyObject* object) {
    if (PyFloat_CheckExact(object)) return of_float(PyFloat_AS_DOUBLE(object));
    if (!PyLong_CheckExact(object)) return std::nullopt;
    int overflow = 0;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0 ? std::optional(of_int(value)) : std::nullopt;
}

Ref<> Number::object() const {
    return checked(is_float_ ? PyFloat_FromDouble(real()) : PyLong_FromLongLong(integer()));
}

std::string print(Number number) {
    return short_repr(number.object());
}

}  // namespace stator
