/// Exceptions of builtin classes, with CPython's messages.
#pragma once

#include "value/builtins/builtin.h"
#include "value/tracer.h"

namespace stator {

/// `KeyError(key)`, the key itself as its argument.
[[noreturn]] void raise_key_error(Tracer& tracer, Value* key);
/// `'int' object is not iterable`: `prefix`, the class's name in quotes, `suffix`.
[[noreturn]] void raise_type_error(Tracer& tracer, const std::string& prefix, const Value* value,
                                   const std::string& suffix);
/// Null as `NotImplemented`.
Value* or_not_implemented(Tracer& tracer, Value* answer);

/// Checks the arguments of a C method that takes from `least` to `most` positional arguments after `self` and no
/// keywords. If they don't fit, the method itself is called with as many, on an empty instance, to raise its exception.
void expect_arguments(Tracer& tracer, PyTypeObject* type, const char* method, const Arguments& arguments,
                      std::size_t least, std::size_t most);
/// The same for a function of a module.
void expect_arguments(Tracer& tracer, const char* module, const char* function, const Arguments& arguments,
                      std::size_t least, std::size_t most);
/// The exception of a call with arguments that a C function does not take. Its words differ between versions of Python,
/// so the function is called with `filler` for each argument; one that is null, or that takes them, breaks the graph.
[[noreturn]] void refuse_arguments(Tracer& tracer, Borrowed<> callable, const std::string& name,
                                   const Arguments& arguments, Borrowed<> filler = Py_None);
/// `descriptor 'append' for 'list' objects doesn't apply to a 'int' object`.
[[noreturn]] void raise_wrong_receiver(Tracer& tracer, PyTypeObject* type, const char* method,
                                       const Arguments& arguments);

/// The `self` of a method, realized; checks the number of the other arguments.
template <class T>
T* receiver(Tracer& tracer, const Arguments& arguments, PyTypeObject* type, const char* method, std::size_t least,
            std::size_t most) {
    T* self = arguments.positional.empty() ? nullptr : cast<T>(arguments.positional[0]);
    if (self == nullptr || !PyType_IsSubtype(self->type(), type)) raise_wrong_receiver(tracer, type, method, arguments);
    expect_arguments(tracer, type, method, arguments, least, most);
    tracer.realize(self);
    return self;
}

}  // namespace stator
