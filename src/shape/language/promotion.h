/// Type promotion as TensorIterator does it, and elementwise results in general.
#pragma once

#include <optional>
#include <vector>

#include "shape/language/call.h"

namespace stator::shape {

/// Collects operands of different categories: tensors with dimensions outrank those without, which outrank Python
/// numbers.
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

/// What becomes of the common type.
enum class OutputType {
    Common,
    Float,  // integers become the default float type
    Bool,
    RealOfComplex,  // as common, but real for complex: abs
};

/// An elementwise operation on tensors and Python numbers.
class Elementwise {
  public:
    explicit Elementwise(Call& call) : call_(call), promotion_(call.state().default_dtype) {}

    /// False where the operand is neither a tensor nor a number, or is on another device.
    bool add(const Operand& operand);
    /// Takes part in broadcasting but not in promotion, as the condition of `where`.
    bool add_untyped(const Operand& operand);

    /// Computed into a tensor that was made before: its layout comes from sorting strides, also where memory formats
    /// would say it sooner.
    void is_given_room() { has_numbers_ = true; }
    /// Numbers are parameters and no operands: the layout follows the tensors alone.
    void ignores_numbers() { has_numbers_ = false; }

    /// The type of the computation; empty where there is no tensor or no common type.
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
    /// The strides of the result where operands are first converted to the type of the computation.
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
