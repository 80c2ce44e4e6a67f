/// Ownership of Python objects, in the type. `Ref` owns one reference; `Borrowed` documents that another owner does.
#pragma once

#include <Python.h>

#include <utility>

namespace stator {

/// A borrowed pointer: valid while its owner holds it. Converts from and to a raw pointer without cost.
template <class T = PyObject>
class Borrowed {
  public:
    constexpr Borrowed(T* pointer = nullptr) : pointer_(pointer) {}
    T* get() const { return pointer_; }
    operator T*() const { return pointer_; }
    T* operator->() const { return pointer_; }

  private:
    T* pointer_;
};

/// One owned reference, or none.
template <class T = PyObject>
class Ref {
  public:
    constexpr Ref() = default;
    constexpr Ref(std::nullptr_t) {}

    /// Takes over the reference that the caller owns, as the C API's "new reference" results.
    static Ref steal(T* pointer) {
        Ref ref;
        ref.pointer_ = pointer;
        return ref;
    }
    /// Adds a reference of its own.
    static Ref share(T* pointer) {
        Py_XINCREF(reinterpret_cast<PyObject*>(pointer));
        return steal(pointer);
    }

    Ref(const Ref& other) : pointer_(other.pointer_) { Py_XINCREF(reinterpret_cast<PyObject*>(pointer_)); }
    Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(pointer_, other.pointer_);
        return *this;
    }
    ~Ref() { Py_XDECREF(reinterpret_cast<PyObject*>(pointer_)); }

    T* get() const { return pointer_; }
    T* operator->() const { return pointer_; }
    operator Borrowed<T>() const { return pointer_; }
    explicit operator bool() const { return pointer_ != nullptr; }
    friend bool operator==(const Ref& left, const Ref& right) { return left.pointer_ == right.pointer_; }

    /// Gives the reference to the caller.
    [[nodiscard]] T* release() { return std::exchange(pointer_, nullptr); }
    /// For C API calls that fill an output parameter with a new reference.
    T** out() {
        *this = Ref();
        return &pointer_;
    }

  private:
    T* pointer_ = nullptr;
};

}  // namespace stator
