#include "shape/language/window.h"

namespace stator::shape {

std::optional<Dims> for_each_dimension(const Operand& operand, std::size_t spatial, Dim missing) {
    if (!operand.is_given()) return Dims(spatial, missing);
    if (auto one = operand.integer()) return Dims(spatial, *one);
    auto several = operand.integers();
    if (!several) return std::nullopt;
    if (several->size() == 1) return Dims(spatial, several->front());
    return several->size() == spatial ? several : std::nullopt;
}

std::optional<Dims> convolved_sizes(const Dims& input, const Dims& kernel, const Dims& stride, const Dims& padding,
                                    const Dims& dilation) {
    Dims sizes;
    for (std::size_t i = 0; i < input.size(); ++i) {
        if (stride[i] <= 0 || dilation[i] <= 0 || padding[i] < 0 || kernel[i] <= 0) return std::nullopt;
        Dim reach = dilation[i] * (kernel[i] - 1) + 1;
        Dim room = input[i] + padding[i] * 2;
        if (reach > room) return std::nullopt;
        sizes.push_back((room - reach) / stride[i] + 1);
    }
    return sizes;
}

Dim pooled_size(Dim input, Dim kernel, Dim padding, Dim stride, Dim dilation, bool ceil_mode) {
    Dim room = input + padding * 2 - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : Dim(0));
    Dim size = room / stride + 1;
    // The last window has to start inside the input or its left padding.
    if (ceil_mode && (size - 1) * stride >= input + padding) size -= 1;
    return size;
}

}  // namespace stator::shape
