/// Products of matrices and vectors. Their results are contiguous for all inputs.
#include <algorithm>

#include "shape/language/promotion.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

bool same_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device &&
           left->dtype != torch_room::dtype::kBool && left->dtype != torch_room::dtype::kComplexHalf;
}

bool linear(Call& call) {
    const TensorMeta *input = call[0].tensor(), *weight = call[1].tensor(), *bias = call[2].tensor();
    if (!same_kind(input, weight)) return false;
    if (!call[2].is_absent() && !same_kind(input, bias)) return false;
    if (weight->dimensions() != 2 || input->sizes.empty() || input->sizes.back() != weight->sizes[1]) return false;
    if (bias != nullptr && (bias->dimensions() != 1 || bias->sizes[0] != weight->sizes[0])) return false;
    Dims sizes = input->sizes;
    sizes.back() = weight->sizes[0];
    return call.returns(call.fresh(std::move(sizes), input->dtype, input->device), call.records({input, weight, bias}));
}

bool matrix_product(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || left->dimensions() != 2 || right->dimensions() != 2) return false;
    if (left->sizes[1] != right->sizes[0]) return false;
    return call.returns(call.fresh({left->sizes[0], right->sizes[1]}, left->dtype, left->device),
                        call.records({left, right}));
}

bool batched_product(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || left->dimensions() != 3 || right->dimensions() != 3) return false;
    if (left->sizes[0] != right->sizes[0] || left->sizes[2] != right->sizes[1]) return false;
    return call.returns(call.fresh({left->sizes[0], left->sizes[1], right->sizes[2]}, left->dtype, left->device),
                        call.records({left, right}));
}

/// `mv` and `dot`.
bool vector_product(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    auto dimensions = static_cast<std::size_t>(call.variant());
    if (!same_kind(left, right) || left->dimensions() != dimensions || right->dimensions() != 1) return false;
    if (left->sizes.back() != right->sizes[0]) return false;
    Dims sizes(left->sizes.begin(), left->sizes.end() - 1);
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device), call.records({left, right}));
}

bool matmul(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || left->sizes.empty() || right->sizes.empty()) return false;
    const Dims &a = left->sizes, &b = right->sizes;
    Dim inner = b.size() == 1 ? b[0] : b[b.size() - 2];
    if (a.back() != inner) return false;
    Dims batch_left(a.begin(), a.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(a.size(), 2)));
    Dims batch_right(b.begin(), b.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(b.size(), 2)));
    auto sizes = broadcast(batch_left, batch_right);
    if (!sizes) return false;
    if (a.size() > 1) sizes->push_back(a[a.size() - 2]);
    if (b.size() > 1) sizes->push_back(b.back());
    return call.returns(call.fresh(std::move(*sizes), left->dtype, left->device), call.records({left, right}));
}

/// `beta` and `alpha`, arguments 3 and 4. Some operations require ints for integer tensors, others truncate.
bool takes_factors(const Call& call, const TensorMeta& self, bool cuts) {
    for (std::size_t i = 3; i < 5; ++i)
        if (call[i].is_given() && !(torch_room::is_integral(self.dtype) && !cuts ? call[i].integer().has_value()
                                                                                 : call[i].real().has_value()))
            return false;
    return true;
}

/// `beta * self + alpha * (left @ right)`, for matrices, vectors and batches.
bool add_matrix_product(Call& call) {
    const TensorMeta *self = call[0].tensor(), *left = call[1].tensor(), *right = call[2].tensor();
    if (!same_kind(self, left) || !same_kind(left, right)) return false;
    if (!takes_factors(call, *self, call.variant() == 3)) return false;
    auto dimensions = static_cast<std::size_t>(call.variant());
    if (left->dimensions() != dimensions || right->dimensions() != dimensions) return false;
    Dims sizes = left->sizes;
    sizes.back() = right->sizes.back();
    if (left->sizes.back() != right->sizes[dimensions - 2]) return false;
    if (dimensions == 3 && left->sizes[0] != right->sizes[0]) return false;
    auto expanded = broadcast(self->sizes, sizes);
    if (!expanded || *expanded != sizes) return false;
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self, left, right}));
}

/// `beta * self + alpha * (matrix @ vector)`, `... * sum of batch1 @ batch2`, `... * outer(a, b)`.
bool add_reduced_product(Call& call) {
    const TensorMeta *self = call[0].tensor(), *left = call[1].tensor(), *right = call[2].tensor();
    if (!same_kind(self, left) || !same_kind(left, right)) return false;
    if (!takes_factors(call, *self, call.variant() != 2)) return false;
    Dims sizes;
    if (call.variant() == 0) {  // addmv
        if (left->dimensions() != 2 || right->dimensions() != 1 || left->sizes[1] != right->sizes[0]) return false;
        sizes = {left->sizes[0]};
    } else if (call.variant() == 1) {  // addbmm
        if (left->dimensions() != 3 || right->dimensions() != 3 || left->sizes[0] != right->sizes[0] ||
            left->sizes[2] != right->sizes[1])
            return false;
        sizes = {left->sizes[1], right->sizes[2]};
    } else {  // addr
        if (left->dimensions() != 1 || right->dimensions() != 1 || self->dimensions() > 2) return false;
        // Computed elementwise, so other layouts are propagated.
        if (!is_contiguous(self->sizes, self->strides)) return false;
        sizes = {left->sizes[0], right->sizes[0]};
        if (self->sizes != sizes && !self->sizes.empty()) return false;
    }
    auto expanded = broadcast(self->sizes, sizes);
    if (!expanded || *expanded != sizes || is_known_empty(sizes)) return false;
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self, left, right}));
}

/// `x.__rmatmul__(y)` is `y @ x`.
bool reflected_matmul(Call& call) {
    std::swap(call.slots()[0], call.slots()[1]);
    return matmul(call);
}

bool outer(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || left->dimensions() != 1 || right->dimensions() != 1) return false;
    return call.returns(call.fresh({left->sizes[0], right->sizes[0]}, left->dtype, left->device),
                        call.records({left, right}));
}

/// The last dimensions of both are multiplied and summed.
bool inner(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right)) return false;
    if (left->sizes.empty() || right->sizes.empty()) {
        Elementwise elementwise(call);
        return elementwise.add(call[0]) && elementwise.add(call[1]) && elementwise.gives(OutputType::Common);
    }
    if (left->sizes.back() != right->sizes.back() || call.state().autocast) return false;
    Dims sizes(left->sizes.begin(), left->sizes.end() - 1);
    sizes.insert(sizes.end(), right->sizes.begin(), right->sizes.end() - 1);
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device), call.records({left, right}));
}

/// `tensordot(a, b, dims)`: the number of last and first dimensions to contract, or two lists of them.
bool tensordot(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right)) return false;
    Dims of_left, of_right;
    if (auto count = call[2].integer_or(2)) {
        if (*count < 0 || *count > Dim(static_cast<std::int64_t>(std::min(left->dimensions(), right->dimensions()))))
            return false;
        for (Dim i = 0; i < *count; i += 1) {
            of_left.push_back(i - *count);
            of_right.push_back(i);
        }
    } else {
        std::vector<Operand> lists = call[2].items();
        if (lists.size() != 2 || !lists[0].integers() || !lists[1].integers()) return false;
        of_left = *lists[0].integers();
        of_right = *lists[1].integers();
    }
    if (of_left.size() != of_right.size() || of_left.empty()) return false;
    std::vector<bool> in_left(left->dimensions()), in_right(right->dimensions());
    for (std::size_t i = 0; i < of_left.size(); ++i) {
        auto a = wrap_dimension(of_left[i], left->dimensions()), b = wrap_dimension(of_right[i], right->dimensions());
        if (!a || !b || in_left[*a] || in_right[*b]) return false;
        // Dimensions of size one are summed over first, whatever the other size is.
        if (!known_equal(left->sizes[*a], 1) && !known_equal(right->sizes[*b], 1) &&
            !require_equal(left->sizes[*a], right->sizes[*b]))
            return false;
        in_left[*a] = in_right[*b] = true;
    }
    Dims sizes;
    for (std::size_t i = 0; i < left->dimensions(); ++i)
        if (!in_left[i]) sizes.push_back(left->sizes[i]);
    for (std::size_t i = 0; i < right->dimensions(); ++i)
        if (!in_right[i]) sizes.push_back(right->sizes[i]);
    if (is_known_empty(left->sizes) || is_known_empty(right->sizes)) return false;
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device), call.records({left, right}));
}

/// `kron`: each element of one times the whole other tensor.
bool kronecker(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || !is_contiguous(left->sizes, left->strides) ||
        !is_contiguous(right->sizes, right->strides) || is_known_empty(left->sizes) || is_known_empty(right->sizes))
        return false;
    Dims sizes = left->dimensions() >= right->dimensions() ? left->sizes : right->sizes;
    const Dims& shorter = left->dimensions() >= right->dimensions() ? right->sizes : left->sizes;
    for (std::size_t i = 0; i < shorter.size(); ++i) sizes[sizes.size() - shorter.size() + i] *= shorter[i];
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device), call.records({left, right}));
}

/// `F.bilinear(input1, input2, weight, bias)`.
bool bilinear(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor(), *weight = call[2].tensor();
    const TensorMeta* bias = call[3].tensor();
    if (!same_kind(left, right) || !same_kind(left, weight) || !torch_room::is_floating(left->dtype)) return false;
    if (weight->dimensions() != 3 || left->sizes.empty() || left->dimensions() != right->dimensions()) return false;
    if (!call[3].is_absent() && (!same_kind(left, bias) || bias->sizes != Dims{weight->sizes[0]})) return false;
    if (left->sizes.back() != weight->sizes[1] || right->sizes.back() != weight->sizes[2]) return false;
    if (!std::equal(left->sizes.begin(), left->sizes.end() - 1, right->sizes.begin())) return false;
    Dims sizes = left->sizes;
    sizes.back() = weight->sizes[0];
    if (left->sizes.back() == 0 || right->sizes.back() == 0 || weight->sizes[0] == 0) return false;
    if (is_known_empty(sizes) && (!is_plainly_empty(*left) || !is_plainly_empty(*right))) return false;
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device),
                        call.records({left, right, weight, bias}));
}

}  // namespace

void add_matmul_rules(Registry& registry) {
    registry.add_lowered("F.linear", "self weight bias?", linear);
    registry.add("F.bilinear torch.bilinear", "input1 input2 weight bias?", bilinear);
    registry.add_lowered("torch.mm Tensor.mm", "self mat2", matrix_product);
    registry.add_lowered("torch.bmm Tensor.bmm", "self mat2", batched_product);
    registry.add_neutral_on_cpu("torch.mv Tensor.mv", "self vec", vector_product, 2);
    registry.add_neutral_on_cpu("torch.dot Tensor.dot", "self tensor", vector_product, 1);
    registry.add_lowered("torch.matmul Tensor.matmul operator.matmul operator.imatmul Tensor.__matmul__ linalg.matmul",
                         "self other", matmul);
    registry.add_lowered("torch.addmm Tensor.addmm", "self mat1 mat2 * beta? alpha?", add_matrix_product, 2);
    registry.add_lowered("torch.baddbmm Tensor.baddbmm", "self batch1 batch2 * beta? alpha?", add_matrix_product, 3);
    registry.add_lowered("Tensor.addmm_", "self mat1 mat2 * beta? alpha?", written<add_matrix_product>, 2);
    registry.add_lowered("Tensor.baddbmm_", "self batch1 batch2 * beta? alpha?", written<add_matrix_product>, 3);
    registry.add_neutral_on_cpu("torch.addmv Tensor.addmv", "self mat vec * beta? alpha?", add_reduced_product, 0);
    registry.add_neutral_on_cpu("torch.addmv_ Tensor.addmv_", "self mat vec * beta? alpha?",
                                written<add_reduced_product>, 0);
    registry.add_lowered("Tensor.addbmm_", "self batch1 batch2 * beta? alpha?", written<add_reduced_product>, 1);
    registry.add_neutral_on_cpu("Tensor.addr_", "self vec1 vec2 * beta? alpha?", written<add_reduced_product>, 2);
    registry.add_lowered("torch.addbmm Tensor.addbmm", "self batch1 batch2 * beta? alpha?", add_reduced_product, 1);
    registry.add_neutral_on_cpu("torch.addr Tensor.addr", "self vec1 vec2 * beta? alpha?", add_reduced_product, 2);
    registry.add_lowered("Tensor.__rmatmul__", "self other", reflected_matmul);
    registry.add_neutral_on_cpu("torch.inner Tensor.inner", "self other", inner);
    registry.add("torch.tensordot", "self b dims?", tensordot);
    registry.add("torch.kron Tensor.kron", "self other", kronecker);
    registry.add_neutral_on_cpu("torch.vdot Tensor.vdot", "self other", vector_product, 1);
    registry.add_neutral_on_cpu("torch.outer Tensor.outer torch.ger Tensor.ger", "self vec2", outer);
}

}  // namespace stator::shape
