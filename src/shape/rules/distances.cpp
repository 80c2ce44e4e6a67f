/// Distances between vectors, and their cross product.
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

bool same_kind(const TensorMeta* left, const TensorMeta* right) {
    return left != nullptr && right != nullptr && left->dtype == right->dtype && left->device == right->device &&
           torch_room::is_floating(left->dtype);
}

bool is_order_of_norm(const Operand& operand) {
    return !operand.is_given() || (operand.real() && *operand.real() >= 0);
}

bool give(Call& call, Dims sizes, const TensorMeta* left, const TensorMeta* right) {
    return call.returns(call.fresh(std::move(sizes), left->dtype, left->device), call.records({left, right}));
}

/// `cdist(x1, x2, p, compute_mode)`: distances between all pairs of rows.
bool distances_of_all(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || left->dimensions() < 2 || right->dimensions() < 2 || !is_order_of_norm(call[2]))
        return false;
    // Smaller types have no kernel, which FakeTensor does not check.
    if (left->dtype != torch_room::dtype::kFloat && left->dtype != torch_room::dtype::kDouble) return false;
    if (call[3].is_given()) {
        auto mode = call[3].string();
        if (mode != "use_mm_for_euclid_dist_if_necessary" && mode != "use_mm_for_euclid_dist" &&
            mode != "donot_use_mm_for_euclid_dist")
            return false;
    }
    const Dims &a = left->sizes, &b = right->sizes;
    if (a.back() != b.back()) return false;
    auto sizes = broadcast({a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
    if (!sizes) return false;
    sizes->push_back(a[a.size() - 2]);
    sizes->push_back(b[b.size() - 2]);
    return give(call, std::move(*sizes), left, right);
}

/// The native function of `torch.cdist`, with a number for the mode.
bool native_distances_of_all(Call& call) {
    if (!call[3].is_absent() && (!call[3].integer() || *call[3].integer() < 0 || *call[3].integer() > 2)) return false;
    call.slots()[3] = Operand();
    return distances_of_all(call);
}

/// `pairwise_distance(x1, x2, p, eps, keepdim)`: between corresponding rows.
bool distances_of_pairs(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    auto keep = call[4].boolean_or(false);
    if (!same_kind(left, right) || !is_order_of_norm(call[2]) || (call[3].is_given() && !call[3].real()) || !keep)
        return false;
    auto sizes = broadcast(left->sizes, right->sizes);
    if (!sizes || sizes->empty() || is_known_empty(*sizes)) return false;
    sizes->pop_back();
    if (*keep) sizes->push_back(1);
    return give(call, std::move(*sizes), left, right);
}

/// `dist(other, p)`: a scalar.
bool distance(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    if (!same_kind(left, right) || !is_order_of_norm(call[2])) return false;
    auto sizes = broadcast(left->sizes, right->sizes);
    return sizes && !is_known_empty(*sizes) && give(call, {}, left, right);
}

/// The first dimension of size three: the default of `torch.cross`, with a warning.
std::optional<Dim> first_of_three(const Dims& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (sizes[i] == 3) return Dim(static_cast<std::int64_t>(i));
    return std::nullopt;
}

/// `cross(other, dim)`.
bool cross_product(Call& call) {
    const TensorMeta *left = call[0].tensor(), *right = call[1].tensor();
    bool in_linalg = call.variant() != 0;
    if (left == nullptr || right == nullptr || left->dtype != right->dtype || left->device != right->device ||
        left->dtype == torch_room::dtype::kBool || left->dimensions() != right->dimensions() || left->sizes.empty())
        return false;
    auto where = in_linalg             ? call[2].integer_or(-1)
                 : call[2].is_absent() ? first_of_three(left->sizes)
                                       : call[2].integer();
    auto dimension = where ? wrap_dimension(*where, left->dimensions()) : std::nullopt;
    if (!dimension || left->sizes[*dimension] != 3 || right->sizes[*dimension] != 3) return false;
    auto sizes = broadcast(left->sizes, right->sizes);
    return sizes && give(call, std::move(*sizes), left, right);
}

}  // namespace

void add_distance_rules(Registry& registry) {
    registry.add_float32_on_cpu("torch.cdist", "x1 x2 p? compute_mode?", distances_of_all);
    registry.add_float32_on_cpu("_VF.cdist", "x1 x2 p? compute_mode?", native_distances_of_all);
    registry.add_neutral_on_cpu("torch.pairwise_distance F.pairwise_distance", "x1 x2 p? eps? keepdim?",
                                distances_of_pairs);
    registry.add_neutral_on_cpu("torch.dist Tensor.dist", "self other p?", distance);
    registry.add_neutral_on_cpu("torch.cross Tensor.cross", "self other dim?", cross_product, 0);
    registry.add_neutral_on_cpu("linalg.cross", "self other * dim?", cross_product, 1);
}

}  // namespace stator::shape
