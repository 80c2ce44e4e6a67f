/// Type promotion as in TensorIterator, and the metadata of elementwise results.
#pragma once

#include <optional>
#include <vector>

#include "shape/language/call.h"

namespace stator::shape {

/// Collects operands by category: tensors with dimensions outrank zero-dimensional ones, which outrank Python numbers.
class Promotion {
  public:
    explicit Promotion(Dtype default_dtype) : default_dtype_(default_dtype) {}

    void add(const TensorMeta& tensor);
    /// A Python number of this type.
    void add_number(Dtype type);
    std::optional<Dtype> result() const;

  private:
    Dtype default_dtype_;
    std::optional<Dtype> dimensioned_, zero_dimensional_, number_;
};

/// How the type of the result follows from the common type.
enum class OutputType {
    Common,
    Float,  // integers become the default float type
    Bool,
    RealOfComplex,  // the common type, but real for complex: abs
};

/// An elementwise operation on tensors and Python numbers.
class Elementwise {
  public:
    explicit Elementwise(Call& call) : call_(call), promotion_(call.state().default_dtype) {}

    /// False if the operand is neither a tensor nor a number, or is on another device.
    bool add(const Operand& operand);
    /// An operand that takes part in broadcasting but not in promotion, as the condition of `where`.
    bool add_untyped(const Operand& operand);

    /// Computed into an existing tensor: the layout comes from sorting strides, even if a memory format would decide it
    /// sooner.
    void writes_to_existing_tensor() { has_numbers_ = true; }
    /// Numbers are parameters and not operands: the layout follows the tensors only.
    void ignores_numbers() { has_numbers_ = false; }

    /// The type of the computation; empty if there is no tensor or no common type.
    std::optional<Dtype> common_type() const { return promotion_.result(); }
    /// The type of the result.
    std::optional<Dtype> output_type(OutputType output) const;

    bool gives(OutputType output, bool differentiable = true);
    bool gives_type(Dtype type, bool differentiable = true);
    /// Writes to `self`, which is one of the operands.
    bool writes_to(const Operand& self, OutputType output, bool differentiable = true);

    const std::vector<const TensorMeta*>& tensors() const { return tensors_; }
    const Dims& sizes() const { return sizes_; }
    Device device() const { return device_; }

  private:
    bool add_tensor(const TensorMeta& tensor);
    /// The strides of the result if operands are first converted to the type of the computation.
    Dims strides_after_conversion(Dtype type) const;

    Call& call_;
    Promotion promotion_;
    std::vector<const TensorMeta*> tensors_;
    const TensorMeta* untyped_ = nullptr;
    Dims sizes_;
    Device device_;
    bool device_is_of_scalar_ = false;
    bool has_numbers_ = false;
};

}  // namespace stator::shape
