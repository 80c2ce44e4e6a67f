#include "shape/may_fail.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/imported.h"
#include "base/text.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using graph::Argument;

bool has_tensor(const Argument& argument) {
    bool found = false;
    for_each_node(argument, [&](const graph::Node*) { found = true; });
    return found;
}

/// Division of floats by zero does not raise.
bool is_integer(const Argument& argument) {
    if (argument.kind == Argument::Kind::Constant) return PyLong_Check(argument.constant);
    return argument.kind == Argument::Kind::Node && argument.node->result.kind == graph::Result::Kind::Tensor &&
           torch_room::is_integral(argument.node->result.tensor->dtype);
}

/// Null if it has no name.
Ref<> name_of(const Question& question) {
    if (question.kind == graph::NodeKind::Method) return Ref<>::share(question.target.get());
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(question.target, "__name__"));
    PyErr_Clear();
    return name && PyUnicode_Check(name.get()) ? std::move(name) : Ref<>();
}

}  // namespace

bool is_custom(const Question& question) {
    static PyObject* const packet = imported("torch._ops", "OpOverloadPacket");
    static PyObject* const overload = imported("torch._ops", "OpOverload");
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(question.target.get()));
    if (question.kind != graph::NodeKind::Function || (type != packet && type != overload)) return false;
    Ref<> name = Ref<>::steal(PyObject_Str(question.target.get()));
    PyErr_Clear();
    return name && !utf8(name.get()).starts_with("aten.") && !utf8(name.get()).starts_with("prims.");
}

bool may_fail(const Question& question) {
    static const std::unordered_set<std::string_view> always = {
        // clang-format off
        "_assert_async", "_functional_assert_async", "as_strided", "as_strided_copy", "as_strided_scatter", "bernoulli", "binary_cross_entropy", "bincount",
        "cauchy", "cholesky", "cholesky_inverse", "cross_entropy", "cross_entropy_loss", "ctc_loss", "embedding",
        "embedding_bag", "gather", "histc", "histogram", "index_add", "index_copy", "index_fill", "index_put",
        "index_reduce", "index_select", "inverse", "linalg_cholesky", "linalg_cholesky_ex", "linalg_cond",
        "linalg_eig", "linalg_eigh", "linalg_eigvals", "linalg_eigvalsh", "linalg_inv", "linalg_inv_ex",
        "linalg_ldl_factor", "linalg_lstsq", "linalg_lu_factor", "linalg_lu_factor_ex", "linalg_matrix_norm",
        "linalg_matrix_power", "linalg_matrix_rank", "linalg_norm", "linalg_pinv", "linalg_solve", "linalg_solve_ex",
        "linalg_svd", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve", "lu", "masked_scatter",
        "matrix_power", "max_unpool1d", "max_unpool2d", "max_unpool3d", "multi_margin_loss", "multilabel_margin_loss",
        "multinomial", "nll_loss", "nll_loss2d", "nll_loss_nd", "normal", "nuclear_norm", "one_hot", "pinverse",
        "poisson", "put", "scatter", "scatter_add", "scatter_reduce", "svd", "take",
        "take_along_dim",
        // clang-format on
    };
    static const std::unordered_set<std::string_view> dividing = {
        "div", "divide", "floor_divide", "floordiv", "fmod", "mod", "remainder",
    };
    static const std::unordered_set<std::string_view> of_numpy = {
        "bincount",        "choose",      "cond",         "digitize",
        "eigvals",         "eigvalsh",    "inv",          "lstsq",
        "matrix_power",    "matrix_rank", "norm",         "pinv",
        "put_along_axis",  "repeat",      "searchsorted", "solve",
        "take_along_axis", "tensorinv",   "tensorsolve",
    };
    if (is_custom(question)) return true;
    Ref<> name = name_of(question);
    if (!name) return false;
    std::string_view text = utf8(name.get());
    constexpr std::string_view kOfNumpy = "wrapped_";  // see stator.arrays
    if (text.starts_with(kOfNumpy)) {
        text.remove_prefix(kOfNumpy.size());
        if (of_numpy.contains(text)) return true;
    }
    if (text.ends_with('_') && !text.ends_with("__")) text.remove_suffix(1);
    if (always.contains(text)) return true;
    if (question.arguments.size() < 2) return false;
    if (text == "repeat_interleave" || text == "getitem" || text == "__getitem__" || text == "setitem" ||
        text == "__setitem__")
        return has_tensor(question.arguments[1]);
    return dividing.contains(text) && has_tensor(question.arguments[1]) &&
           std::ranges::all_of(question.arguments, is_integer);
}

}  // namespace stator::shape
