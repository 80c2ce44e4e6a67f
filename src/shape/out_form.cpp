#include "shape/out_form.h"

#include <string>

#include "base/text.h"
#include "shape/language/reduction.h"
#include "shape/language/strides.h"
#include "shape/tensors.h"
#include "torch/dtypes.h"

namespace stator::shape {

using graph::Argument;
using graph::Result;

OutForm::OutForm(const Question& question) : question_(question) {
    for (const auto& keyword : question.keywords)
        if (utf8(keyword.name) == "out") argument_ = &keyword.value;
    if (argument_ == nullptr) return;
    kind_ = Registry::get().out_of(question);
    for (const auto& keyword : question.keywords)
        if (&keyword.value != argument_) keywords_.push_back(keyword);
}

bool OutForm::put(Store& store, const TensorMeta& computed, const Argument& given, Answer& answer,
                  Result& result) const {
    const Result* found = tensor_result(given);
    if (found == nullptr) return false;
    const TensorMeta& target = *found->tensor;
    if (target.sizes != computed.sizes || target.device != computed.device || target.requires_grad ||
        may_overlap_itself(target) || target.dispatch_keys != 0)
        return false;
    if (kind_ == Out::Exact ? target.dtype != computed.dtype : !torch_room::can_cast(computed.dtype, target.dtype))
        return false;
    // PyTorch may reject an output that overlaps an input.
    if (TensorArguments(without()).index_of(given.node) >= 0) return false;
    int index = TensorArguments(question_).index_of(given.node);
    for (int written : answer.written)
        if (written == index) return false;
    answer.written.push_back(index);
    result.tensor = store.intern(target);
    result.same_as_argument = index;
    return true;
}

bool OutForm::turn(Store& store, const torch_room::ResultState& state, Answer& answer) const {
    if (argument_->kind == Argument::Kind::Constant) return argument_->constant == Py_None;
    // It is then unknown whether the given tensors fit.
    if (answer.status == Status::DataDependent) return argument_->kind == Argument::Kind::Node;
    if (answer.status != Status::Ok || answer.mutates() || answer.is_view() || state.autocast) return false;
    // Autograd does not support `out=`.
    if (state.grad) {
        TensorArguments tensors(question_);
        for (const graph::Node* node : tensors.nodes())
            if (node->result.tensor->requires_grad) return false;
    }
    if (answer.result.kind == Result::Kind::Tensor)
        return answer.result.same_as_argument < 0 &&
               put(store, *answer.result.tensor, *argument_, answer, answer.result);
    if (answer.result.kind != Result::Kind::Tuple ||
        (argument_->kind != Argument::Kind::Tuple && argument_->kind != Argument::Kind::List) ||
        argument_->items->values.size() != answer.result.items.size())
        return false;
    for (std::size_t i = 0; i < answer.result.items.size(); ++i)
        if (!put(store, *answer.result.items[i].tensor, argument_->items->values[i], answer, answer.result.items[i]))
            return false;
    if (answer.result.type != nullptr) {
        // `torch.max(x, 0)` returns a `return_types.max`, with `out=` a `return_types.max_out`.
        std::string name = answer.result.type->tp_name;
        answer.result.type = return_type((name.substr(name.rfind('.') + 1) + "_out").c_str());
    }
    return true;
}

void add_out_forms(Registry& registry) {
    registry.add_out(
        "add sub mul div subtract multiply divide true_divide floor_divide remainder fmod pow eq ne not_equal lt less "
        "le less_equal gt greater ge greater_equal bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift "
        "bitwise_right_shift logical_and logical_or logical_xor logical_not maximum minimum fmax fmin atan2 arctan2 "
        "xlogy neg negative abs absolute acos arccos acosh arccosh asin arcsin asinh arcsinh atan arctan atanh arctanh "
        "cos cosh sin sinh tan tanh sinc exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sigmoid erf erfc "
        "erfinv lgamma digamma i0 deg2rad rad2deg ceil floor round trunc fix frac sign sgn square isposinf isneginf "
        "signbit addcmul addcdiv clamp clip clamp_min clamp_max logit nan_to_num hypot copysign logaddexp logaddexp2 "
        "special.exp2 special.expm1 special.log1p special.expit special.erf special.erfc special.erfinv special.sinc "
        "heaviside gcd lcm nextafter igamma igammac ldexp float_power "
        "special.digamma special.psi special.gammaln special.i0 special.xlogy special.round special.logit",
        Out::Castable);
    registry.add_out(
        "mm bmm mv dot matmul addmm baddbmm addmv addbmm outer ger sum nansum mean prod amax amin var std logsumexp "
        "argmax argmin any all cumsum cumprod sort topk gather index_select tril triu cat concat concatenate "
        "stack where lerp zeros ones empty full rand randn eye diag scatter scatter_add index_add take_along_dim diff "
        "max min norm aminmax cummax cummin histc hstack vstack dstack column_stack softmax log_softmax take "
        "index_copy "
        "scatter_reduce linspace logspace arange tile roll hardshrink round addr kthvalue median isin diag_embed "
        "linalg.vector_norm linalg.norm F.linear F.gelu F.avg_pool2d F.avg_pool3d F.softplus F.softshrink F.hardshrink "
        "F.logsigmoid F.one_hot F.normalize searchsorted bucketize cross linalg.cross linalg.matmul inner "
        "special.logsumexp complex polar tensordot masked_select nonzero linalg.matrix_norm vdot kron quantile "
        "nanquantile "
        "nanmean mode",
        Out::Exact);
}

}  // namespace stator::shape
