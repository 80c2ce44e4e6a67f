/// The marks of `torch._dynamo.mark_dynamic` and its relatives.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ref.h"
#include "number/range.h"

namespace stator {

/// Attributes of a tensor: sets of dimensions, and dicts by dimension.
class Marks {
  public:
    explicit Marks(PyObject* tensor);

    bool are_there() const { return attributes_ != nullptr && PyDict_GET_SIZE(attributes_) > 0; }
    /// Specializing it is an error: `mark_dynamic`, and `mark_unbacked(strict=True)`.
    bool is_dynamic(std::size_t dimension) const;
    bool may_be_dynamic(std::size_t dimension) const;
    bool is_unbacked(std::size_t dimension) const;
    bool is_strictly_unbacked(std::size_t dimension) const;
    bool is_static(std::size_t dimension) const;
    /// The bounds that `mark_dynamic` was given.
    Range range(std::size_t dimension) const;
    /// The bounds that `mark_unbacked` was given.
    Range unbacked_range(std::size_t dimension) const;
    /// The size that compilers should optimize for.
    std::optional<std::int64_t> hint_override(std::size_t dimension) const;
    /// Null if there is none.
    PyObject* shape_id(std::size_t dimension) const;
    /// The functions of `specialize_on`, as a list; empty if there are none.
    Ref<> criteria(std::size_t dimension) const;

  private:
    PyObject* find(PyObject* name) const;
    bool has(const char* name, std::size_t dimension) const;
    /// The item of an attribute that is a dict; null if there is none.
    PyObject* item(const char* name, std::size_t dimension) const;

    PyObject* attributes_;  // of the tensor; null if there are none
};

}  // namespace stator
