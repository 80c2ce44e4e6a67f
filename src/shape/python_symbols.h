/// The numbers of a trace in Python, as symbols of a `ShapeEnv`, for operations that run on FakeTensors of symbolic
/// sizes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ref.h"
#include "number/dim.h"
#include "number/expressions.h"

namespace stator::shape {

/// What FakeTensor says has no form in the engine.
struct NoSuchForm {};

class PythonSymbols {
  public:
    /// The symbols with what is known of them. Throws PythonError.
    explicit PythonSymbols(Expressions& numbers);

    Borrowed<> mode() const { return mode_.get(); }
    /// An int, SymInt or SymFloat.
    Ref<> number(Dim dim) const;
    /// The sizes, the strides and the offset of a FakeTensor. A symbol that PyTorch has made for a size that depends on
    /// data is a new unbacked number.
    std::vector<Dim> layout_of(PyObject* fake) const;
    /// The form of a SymInt.
    Dim dim_of_symbol(PyObject* number) const;
    /// A FakeTensor with constant sizes that is like another one in all else.
    Ref<> static_copy(PyObject* fake) const;
    /// What PyTorch compared becomes relations.
    void learn_conditions() const;
    /// What PyTorch would assert of unbacked numbers when the graph runs becomes requirements.
    void require_assertions() const;

  private:
    Dim dim_of(PyObject* number) const;
    const Expression* learn(std::span<const Term> condition) const;
    const Expression* unbacked(std::size_t number) const;
    template <class Apply>
    const Expression* expression(std::span<const Term> terms, const Apply& apply) const;

    Expressions& numbers_;
    Ref<> cell_;
    Ref<> mode_;
};

}  // namespace stator::shape
