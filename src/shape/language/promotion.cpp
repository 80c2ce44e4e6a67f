#include "shape/language/promotion.h"

#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_floating;
using torch_room::is_integral;

namespace {

std::optional<Dtype> promote(std::optional<Dtype> left, std::optional<Dtype> right) {
    if (!left) return right;
    if (!right) return left;
    return torch_room::promote(*left, *right);
}

/// A lower category changes the type only if it is of a higher kind: bool, integer, float, complex.
std::optional<Dtype> combine(std::optional<Dtype> higher, std::optional<Dtype> lower) {
    if (!higher || !lower) return higher ? higher : lower;
    if (is_complex(*higher)) return higher;
    if (is_floating(*higher)) return is_complex(*lower) ? torch_room::to_complex(*higher) : higher;
    if (*higher == kBool || is_floating(*lower) || is_complex(*lower)) return promote(higher, lower);
    return higher;
}

}  // namespace

void Promotion::add(const TensorMeta& tensor) {
    auto& category = tensor.sizes.empty() ? zero_dimensional_ : dimensioned_;
    category = promote(category, tensor.dtype);
}

void Promotion::add_number(Dtype type) {
    if (is_complex(type))
        type = torch_room::to_complex(default_dtype_);
    else if (is_floating(type))
        type = default_dtype_;
    number_ = promote(number_, type);
}

std::optional<Dtype> Promotion::result() const {
    return combine(dimensioned_, combine(zero_dimensional_, number_));
}

bool Elementwise::add_tensor(const TensorMeta& tensor) {
    if (tensors_.empty()) {
        sizes_ = tensor.sizes;
        device_ = tensor.device;
        device_is_of_scalar_ = tensor.sizes.empty();
    } else {
        auto sizes = broadcast(sizes_, tensor.sizes);
        if (!sizes) return false;
        sizes_ = std::move(*sizes);
        if (tensor.device != device_) {
            // A CPU scalar can be combined with tensors of any device.
            constexpr torch_room::DeviceKind cpu{};
            if (device_is_of_scalar_ && device_.kind == cpu) {
                device_ = tensor.device;
            } else if (!(tensor.sizes.empty() && tensor.device.kind == cpu)) {
                return false;
            }
        }
        device_is_of_scalar_ = device_is_of_scalar_ && tensor.sizes.empty();
    }
    tensors_.push_back(&tensor);
    return true;
}

bool Elementwise::add(const Operand& operand) {
    if (const TensorMeta* tensor = operand.tensor()) {
        promotion_.add(*tensor);
        return add_tensor(*tensor);
    }
    auto type = operand.number_type();
    if (!type) return false;
    promotion_.add_number(*type);
    has_numbers_ = true;
    return true;
}

bool Elementwise::add_untyped(const Operand& operand) {
    untyped_ = operand.tensor();
    return untyped_ != nullptr && add_tensor(*untyped_);
}

std::optional<Dtype> Elementwise::output_type(OutputType output) const {
    auto common = common_type();
    if (!common || tensors_.empty()) return std::nullopt;
    switch (output) {
        case OutputType::Common:
            return common;
        case OutputType::Float:
            return is_integral(*common) ? call_.state().default_dtype : *common;
        case OutputType::Bool:
            return kBool;
        case OutputType::RealOfComplex:
            return torch_room::to_real(*common);
    }
    return std::nullopt;
}

bool Elementwise::gives(OutputType output, bool differentiable) {
    auto type = output_type(output);
    if (!type || tensors_.empty()) return false;
    Dtype computed = output == OutputType::Float ? *type : *common_type();
    return call_.returns(call_.fresh(sizes_, strides_after_conversion(computed), *type, device_),
                         differentiable && call_.records(tensors_));
}

Dims Elementwise::strides_after_conversion(Dtype type) const {
    // Kernels of other devices convert while reading. A converted copy has the layout of its source, but is dense.
    if (device_.kind != torch_room::DeviceKind{}) return elementwise_strides(tensors_, sizes_, has_numbers_);
    std::vector<TensorMeta> copies;
    copies.reserve(tensors_.size());
    std::vector<const TensorMeta*> operands = tensors_;
    for (const TensorMeta*& operand : operands) {
        if (operand == untyped_ || operand->dtype == type || is_dense(operand->sizes, operand->strides)) continue;
        copies.push_back(*operand);
        copies.back().strides = preserved_strides(*operand);
        operand = &copies.back();
    }
    return elementwise_strides(operands, sizes_, has_numbers_);
}

bool Elementwise::gives_type(Dtype type, bool differentiable) {
    if (tensors_.empty()) return false;
    // Zero-dimensional tensors do not affect the layout, except that TensorIterator always sorts if there is one.
    Dims strides = elementwise_strides(tensors_, sizes_, has_numbers_);
    return call_.returns(call_.fresh(sizes_, std::move(strides), type, device_),
                         differentiable && call_.records(tensors_));
}

bool Elementwise::writes_to(const Operand& self, OutputType output, bool differentiable) {
    const TensorMeta* target = self.tensor();
    auto type = output_type(output);
    if (target == nullptr || !type || sizes_ != target->sizes || device_ != target->device) return false;
    if (!torch_room::can_cast(*type, target->dtype)) return false;
    return call_.returns_written(self, differentiable && call_.records(tensors_));
}

}  // namespace stator::shape
