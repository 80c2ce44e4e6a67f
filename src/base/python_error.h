/// Python exceptions of C API calls as C++ exceptions. The exception itself stays in the error indicator, so that it
/// can be taken, cleared or propagated unchanged.
#pragma once

#include "base/ref.h"

namespace stator {

/// Thrown while the error indicator is set.
struct PythonError {};

/// The result of a C API call that returns a new reference.
inline Ref<> checked(PyObject* new_reference) {
    if (new_reference == nullptr) [[unlikely]]
        throw PythonError();
    return Ref<>::steal(new_reference);
}

/// The result of a C API call that returns -1 on failure.
inline int checked(int status) {
    if (status < 0) [[unlikely]]
        throw PythonError();
    return status;
}

/// A Python exception taken out of the error indicator. Restores nothing by itself.
class TakenError {
  public:
    /// Takes and normalizes the current exception; empty if none is set.
    static TakenError take();
    /// Puts it back, giving up ownership.
    void restore() &&;
    /// The exception instance, with its traceback set.
    Borrowed<> exception() const { return exception_.get(); }
    explicit operator bool() const { return bool(exception_); }

  private:
    Ref<> exception_;
};

/// Sets the current exception aside for the lifetime of this object, and puts it back.
class ErrorAside {
  public:
    ErrorAside() : saved_(TakenError::take()) {}
    ~ErrorAside() {
        if (saved_) std::move(saved_).restore();
    }
    ErrorAside(const ErrorAside&) = delete;
    ErrorAside& operator=(const ErrorAside&) = delete;

  private:
    TakenError saved_;
};

}  // namespace stator
