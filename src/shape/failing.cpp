#include "shape/failing.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/text.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using graph::Argument;
using torch_room::TensorMeta;

bool has_tensor(const Argument& argument) {
    bool found = false;
    for_each_node(argument, [&](const graph::Node*) { found = true; });
    return found;
}

/// Division of floats by zero is a number.
bool is_integer(const Argument& argument) {
    if (argument.kind == Argument::Kind::Constant) return PyLong_Check(argument.constant);
    return argument.kind == Argument::Kind::Node && argument.node->result.kind == graph::Result::Kind::Tensor &&
           torch_room::is_integral(argument.node->result.tensor->dtype);
}

}  // namespace

bool may_fail(const Question& question) {
    static const std::unordered_set<std::string_view> always = {
        // clang-format off
        "as_strided", "as_strided_copy", "as_strided_scatter", "binary_cross_entropy", "bincount", "cross_entropy",
        "cross_entropy_loss", "ctc_loss", "embedding", "embedding_bag", "gather", "index_add", "index_copy",
        "index_fill", "index_put", "index_reduce", "index_select", "max_unpool1d", "max_unpool2d", "max_unpool3d",
        "multi_margin_loss", "multilabel_margin_loss", "nll_loss", "nll_loss2d", "nll_loss_nd", "one_hot", "scatter",
        "scatter_add", "scatter_reduce", "take", "take_along_dim",
        // clang-format on
    };
    static const std::unordered_set<std::string_view> dividing = {
        "div", "divide", "floor_divide", "floordiv", "fmod", "mod", "remainder",
    };
    Ref<> name;
    if (question.kind == graph::NodeKind::Method) {
        name = Ref<>::share(question.target.get());
    } else {
        name = Ref<>::steal(PyObject_GetAttrString(question.target, "__name__"));
        PyErr_Clear();
    }
    if (!name || !PyUnicode_Check(name.get())) return false;
    std::string_view text = utf8(name.get());
    if (always.contains(text)) return true;
    if (question.arguments.size() < 2) return false;
    if (text == "getitem" || text == "__getitem__") return has_tensor(question.arguments[1]);
    return dividing.contains(text) && has_tensor(question.arguments[1]) &&
           std::ranges::all_of(question.arguments, is_integer);
}

}  // namespace stator::shape
