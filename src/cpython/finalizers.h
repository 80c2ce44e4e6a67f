/// Objects whose deallocation the program can observe.
#pragma once

#include <Python.h>

#include <span>

namespace stator::cpython {

/// Whether freeing an object of the class never runs code, whatever it owns: ints, strings.
inline bool is_always_freed_without_code(PyTypeObject* type) {
    return !PyType_IS_GC(type) && type->tp_finalize == nullptr && type->tp_del == nullptr &&
           !PyType_SUPPORTS_WEAKREFS(type);
}

/// Whether freeing the object itself runs code: its `__del__` or another finalizer, a callback of a weak reference to
/// it, what is left of a generator. Classes and modules count as objects that are never freed.
bool has_finalizer(PyObject* object);

/// Decides for an object with several owners whether it is freed all the same.
struct SharedContents {
    bool (*is_freed)(PyObject* object, void* context);
    void* context;
};

/// Whether freeing the object runs no code at all: neither its own finalizer nor one of an object that only this one
/// owns, directly or indirectly. Takes about as long as freeing it would.
bool is_freed_without_code(PyObject* object, const SharedContents* shared = nullptr);
/// The same for objects that are freed together: an object that only they reference is freed with them. `kept` are
/// objects that are not freed with them, and generators that will have returned by then.
bool are_freed_without_code(std::span<PyObject* const> objects, std::span<PyObject* const> kept = {});

}  // namespace stator::cpython
