#include "shape/answer_by_rule.h"

#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "shape/out_form.h"
#include "torch/dtypes.h"
#include "torch/names.h"

namespace stator::shape {

namespace {

/// Many operations reject tensors with more than 64 dimensions.
constexpr std::size_t kMostDimensions = 32;

/// Rules speak of ordinary tensors: strided, of ordinary dtypes, without conjugate or negative bits,
/// of no subclass. An inference tensor is ordinary in inference mode.
bool is_ordinary(const TensorMeta& meta, const torch_room::ResultState& state) {
    if (meta.layout != torch_room::Layout{} || !torch_room::is_ordinary(meta.dtype) || meta.is_wrapped_number)
        return false;
    if (meta.dispatch_keys != 0 && !(state.inference && meta.dispatch_keys == torch_room::trait::kInference))
        return false;
    if (meta.python_class != torch_room::tensor_class() && meta.python_class != torch_room::parameter_class())
        return false;
    return meta.dimensions() <= kMostDimensions;
}

bool are_ordinary(std::span<const graph::Argument> arguments, const torch_room::ResultState& state);

bool is_ordinary(const graph::Argument& argument, const torch_room::ResultState& state) {
    using Kind = graph::Argument::Kind;
    if (argument.kind == Kind::Constant) return true;
    if (argument.kind == Kind::Node) {
        const graph::Result& result = argument.node->result;
        return result.kind != graph::Result::Kind::Tensor || is_ordinary(*result.tensor, state);
    }
    return are_ordinary(argument.items->values, state);
}

bool are_ordinary(std::span<const graph::Argument> arguments, const torch_room::ResultState& state) {
    for (const auto& argument : arguments)
        if (!is_ordinary(argument, state)) return false;
    return true;
}

bool stays_on_cpu(const graph::Argument& argument) {
    using Kind = graph::Argument::Kind;
    if (argument.kind == Kind::Constant) return true;
    if (argument.kind == Kind::Node) {
        const graph::Result& result = argument.node->result;
        return result.kind != graph::Result::Kind::Tensor || is_on_cpu(*result.tensor);
    }
    return std::all_of(argument.items->values.begin(), argument.items->values.end(), stays_on_cpu);
}

bool are_on_cpu(const Question& question) {
    return std::all_of(question.arguments.begin(), question.arguments.end(), stays_on_cpu) &&
           std::all_of(question.keywords.begin(), question.keywords.end(),
                       [](const auto& keyword) { return stays_on_cpu(keyword.value); });
}

/// The casts of autocast before the operation: float tensors of its device, except double ones, are cast to its dtype,
/// or to float32.
void cast_first(Store& store, Call& call, bool to_float32) {
    for (Operand& operand : call.slots()) {
        const TensorMeta* tensor = operand.tensor();
        if (tensor == nullptr || !torch_room::is_floating(tensor->dtype) || tensor->dtype == torch_room::dtype::kDouble)
            continue;
        auto type = torch_room::autocast_dtype(tensor->device.kind);
        if (type && to_float32) type = torch_room::dtype::kFloat;
        if (!type || *type == tensor->dtype) continue;
        TensorMeta cast = *tensor;
        cast.dtype = *type;
        cast.strides = preserved_strides(*tensor);
        cast.storage_offset = 0;
        operand.replace_meta(store.intern(cast));
    }
}

/// False if the effect of autocast is unknown.
bool apply_autocast(Store& store, const Question& question, const Rule& rule, Call& call) {
    switch (rule.autocast) {
        case Autocast::Unknown:
            return false;
        case Autocast::Neutral:
            return true;
        case Autocast::Lower:
            cast_first(store, call, false);
            return true;
        case Autocast::NeutralOnCpu:
            return are_on_cpu(question);
        case Autocast::LowerOnCpu:
            cast_first(store, call, false);
            return are_on_cpu(question);
        case Autocast::Float32OnCpu:
            cast_first(store, call, true);
            return are_on_cpu(question);
    }
    return false;
}

bool answer_without_out(Store& store, const Question& question, const torch_room::ResultState& state, Answer& answer,
                        std::vector<Ref<>>& kept) {
    const Rule* rule = Registry::get().find(question);
    if (rule == nullptr) return false;
    if (state.autocast && rule->autocast == Autocast::Unknown) return false;
    if (!are_ordinary(question.arguments, state)) return false;
    for (const auto& keyword : question.keywords)
        if (!is_ordinary(keyword.value, state)) return false;
    Call call(store, question, state, rule->variant, answer, kept);
    if (!rule->signature.bind(question, call.slots())) return false;
    if (state.autocast && !apply_autocast(store, question, *rule, call)) return false;
    return rule->function(call);
}

}  // namespace

bool answer_by_rule(Store& store, const Question& question, const torch_room::ResultState& state, Answer& answer,
                    std::vector<Ref<>>& kept) {
    OutForm out(question);
    bool answered = false;
    try {
        answered = out.is_given() ? out.is_known() && answer_without_out(store, out.without(), state, answer, kept) &&
                                        is_ordinary(out.argument(), state) && out.turn(store, state, answer)
                                  : answer_without_out(store, question, state, answer, kept);
    } catch (const SizeOverflow&) {
        // PyTorch has its own words for a tensor that is too large.
    }
    if (answered) return true;
    answer = Answer();
    kept.clear();
    return false;
}

bool has_rule(graph::NodeKind kind, Borrowed<> target) {
    return Registry::get().find({kind, target, {}, {}}) != nullptr;
}

}  // namespace stator::shape
