/// Norms of vectors, normalization and cosine similarity.
#include <cmath>

#include "base/python_error.h"
#include "shape/language/reduction.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;
using torch_room::is_complex;
using torch_room::is_integral;

/// Norms that are sums are defined over an empty dimension; extremes are not.
bool is_sum(const Operand& order) {
    if (order.is_absent() || order.string() == "fro" || order.string() == "nuc") return true;
    return order.real() && *order.real() >= 0 && std::isfinite(*order.real());
}

/// A norm over the given dimensions, or over all.
bool norm_of(Call& call, const Operand& order, const Operand& dimensions, const Operand& keep, const Operand& dtype) {
    const TensorMeta* self = call[0].tensor();
    if (is_integral(self->dtype) || self->dtype == kComplexHalf) return false;
    if (is_known_empty(self->sizes) && !is_sum(order)) return false;
    Dtype type = self->dtype;
    if (!dtype.is_absent()) {
        auto requested = dtype.dtype();
        if (!requested || !torch_room::is_ordinary(*requested) || is_integral(*requested) ||
            is_complex(*requested) != is_complex(self->dtype) || *requested == kComplexHalf ||
            torch_room::promote(self->dtype, *requested) != *requested)
            return false;
        type = *requested;
    }
    auto sizes = reduced_sizes(*self, dimensions, keep);
    if (!sizes) return false;
    return call.returns(call.fresh(std::move(*sizes), torch_room::to_real(type), self->device), call.records({self}));
}

/// `torch.linalg.vector_norm(x, ord, dim, keepdim, dtype=)`.
bool vector_norm(Call& call) {
    if (call[0].tensor() == nullptr || (call[1].is_given() && !call[1].real())) return false;
    return norm_of(call, call[1], call[2], call[3], call[4]);
}

/// Norms other than sums are computed from singular values, which have no kernel for smaller types.
bool has_matrix_norm(const TensorMeta& self) {
    return self.dtype == kFloat || self.dtype == kDouble || self.dtype == kComplexFloat || self.dtype == kComplexDouble;
}

bool is_order_of_matrix(const Operand& order) {
    if (order.string() == "fro" || order.string() == "nuc") return true;
    auto number = order.real();
    return number && (std::abs(*number) == 1 || std::abs(*number) == 2 || std::isinf(*number));
}

/// Norms from singular values are computed over the last two dimensions, with the others moved first: kept dimensions
/// then have another layout.
bool is_laid_out_otherwise(const TensorMeta& self, const Operand& order, const Operand& dimensions,
                           const Operand& keep) {
    auto number = order.is_given() ? order.real() : std::nullopt;
    bool by_singular_values = order.is_given() && (order.string() == "nuc" || (number && std::abs(*number) == 2));
    auto named = dimensions.is_absent() ? std::nullopt : dimensions.integers();
    if (!by_singular_values || !named || named->size() != 2 || keep.boolean_or(false) == false) return false;
    auto first = wrap_dimension((*named)[0], self.dimensions()),
         second = wrap_dimension((*named)[1], self.dimensions());
    return !first || !second || *first + 2 != self.dimensions() || *second + 1 != self.dimensions();
}

/// `torch.linalg.matrix_norm(A, ord, dim, keepdim, dtype=)`: over the last two dimensions by default.
bool matrix_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || self->dimensions() < 2 || !has_matrix_norm(*self) || is_known_empty(self->sizes) ||
        (call[1].is_given() && !is_order_of_matrix(call[1])))
        return false;
    auto named = call[2].is_given() ? call[2].integers() : std::nullopt;
    if (call[2].is_given() && (!named || named->size() != 2)) return false;
    static PyObject* const last_two = checked(Py_BuildValue("(ii)", -2, -1)).release();
    if (is_laid_out_otherwise(*self, call[1], call[2], call[3])) return false;
    return norm_of(call, call[1], call[2].is_given() ? call[2] : Operand(last_two), call[3], call[4]);
}

/// `torch.norm(x, p, dim, keepdim, out, dtype)`: the Frobenius norm is the 2-norm over one or two dimensions.
bool norm(Call& call) {
    if (call[0].tensor() == nullptr) return false;
    const Operand &order = call[1], &dimensions = call[2];
    if (order.is_given() && !order.is_none() && !order.real()) {
        if (order.string() == "nuc") {
            auto named = dimensions.is_absent() ? std::nullopt : dimensions.integers();
            if (dimensions.is_absent() ? call[0].tensor()->dimensions() != 2 : !named || named->size() != 2)
                return false;
            return has_matrix_norm(*call[0].tensor()) &&
                   !is_laid_out_otherwise(*call[0].tensor(), order, dimensions, call[3]) &&
                   norm_of(call, order, dimensions, call[3], call[4]);
        }
        if (order.string() != "fro") return false;
        if (auto several = dimensions.integers(); several && several->size() > 2) return false;
    }
    return norm_of(call, order, dimensions, call[3], call[4]);
}

/// `torch.linalg.norm(x, ord, dim, keepdim, dtype=)` as a vector norm.
bool linalg_norm(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr) return false;
    const Operand &order = call[1], &dimensions = call[2];
    if (!order.is_absent()) {
        auto named = dimensions.is_absent() ? std::nullopt : dimensions.integer_or_integers();
        if (!dimensions.is_absent() && !named) return false;
        std::size_t count = named ? named->size() : self->dimensions();
        // A norm of vectors or of matrices.
        if (count == 1
                ? !order.real()
                : count != 2 || !is_order_of_matrix(order) || (order.string() != "fro" && !has_matrix_norm(*self)))
            return false;
        if (count == 2 && is_known_empty(self->sizes) && order.real() && self->dimensions() != 2) return false;
        if (count == 2 && is_laid_out_otherwise(*self, order, dimensions, call[3])) return false;
    }
    return norm_of(call, order, dimensions, call[3], call[4]);
}

/// `F.normalize(x, p, dim, eps)`: division by the norm, expanded to the shape of the tensor.
bool normalize(Call& call) {
    const TensorMeta* self = call[0].tensor();
    if (self == nullptr || !torch_room::is_floating(self->dtype) || is_known_empty(self->sizes)) return false;
    if ((call[1].is_given() && !call[1].real()) || (call[3].is_given() && !call[3].real())) return false;
    auto where = call[2].integer_or(1);
    if (!where || !call[4].is_absent()) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    if (self->sizes.empty()) return call.returns(call.fresh({}, self->dtype, self->device), call.records({self}));
    TensorMeta norms = *self;
    norms.sizes[*dimension] = 1;
    norms.strides = contiguous_strides(norms.sizes);
    norms.strides = expanded_strides(norms, self->sizes);
    norms.sizes = self->sizes;
    const TensorMeta* inputs[] = {self, &norms};
    Dims strides = elementwise_strides(inputs, self->sizes);
    return call.returns(call.fresh(self->sizes, std::move(strides), self->dtype, self->device), call.records({self}));
}

bool cosine_similarity(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (left == nullptr || right == nullptr || left->dtype != right->dtype || left->device != right->device ||
        !torch_room::is_floating(left->dtype))
        return false;
    auto where = call[2].integer_or(1);
    if (!where || (call[3].is_given() && !call[3].real())) return false;
    auto sizes = broadcast(left->sizes, right->sizes);
    if (!sizes || is_known_empty(*sizes)) return false;
    auto dimension = wrap_dimension(*where, sizes->size());
    if (!dimension) return false;
    if (!sizes->empty()) sizes->erase(sizes->begin() + static_cast<std::ptrdiff_t>(*dimension));
    return call.returns(call.fresh(std::move(*sizes), left->dtype, left->device), call.records({left, right}));
}

}  // namespace

void add_norm_rules(Registry& registry) {
    registry.add_neutral_on_cpu("linalg.vector_norm", "self ord? dim? keepdim? * dtype?", vector_norm);
    registry.add("linalg.matrix_norm", "self ord? dim? keepdim? * dtype?", matrix_norm);
    registry.add_neutral_on_cpu("linalg.norm", "self ord? dim? keepdim? * dtype?", linalg_norm);
    // The method has no parameter `out`.
    registry.add_neutral_on_cpu("Tensor.norm", "self p? dim? keepdim? dtype?", norm);
    registry.add_neutral_on_cpu("torch.norm", "self p? dim? keepdim? * dtype?", norm);
    registry.add_neutral_on_cpu("F.normalize", "self p? dim? eps? out?", normalize);
    registry.add_neutral_on_cpu("F.cosine_similarity torch.cosine_similarity", "x1 x2 dim? eps?", cosine_similarity);
}

}  // namespace stator::shape
