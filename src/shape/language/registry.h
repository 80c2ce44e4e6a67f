/// Maps callables and methods to rules.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "shape/language/call.h"

namespace stator::shape {

/// False if the rule does not support this form of its operation; the answer is then unset.
using RuleFunction = bool (*)(Call& call);

/// The in-place form of an operation that returns a new tensor, and of one that returns a view.
template <RuleFunction function>
bool written(Call& call) {
    return function(call) && call.turns_into_write();
}
template <RuleFunction function>
bool reshaped(Call& call) {
    return function(call) && call.turns_into_reshaping();
}

/// The same operation with another order of parameters: for each parameter of the rule its slot, or -1 if there is
/// none.
template <RuleFunction function, int... from>
bool reordered(Call& call) {
    const Operand given[] = {(from < 0 ? Operand() : call[static_cast<std::size_t>(from < 0 ? 0 : from)])...};
    for (Operand& slot : call.slots()) slot = Operand();
    std::copy(std::begin(given), std::end(given), call.slots().begin());
    return function(call);
}

/// How autocast treats an operation. The lists differ between devices; those that end in `OnCpu` hold for the CPU only.
enum class Autocast : std::uint8_t {
    Unknown,  // no rule while autocast is on
    Neutral,  // nothing
    Lower,    // float tensors are cast to the lower-precision dtype first
    NeutralOnCpu,
    LowerOnCpu,
    Float32OnCpu,  // float tensors are cast to float32 first
};

/// Whether a function takes `out=`.
enum class Out : std::uint8_t {
    None,
    Exact,     // of the dtype of the result
    Castable,  // of any dtype to which the result can be cast
};

struct Rule {
    Signature signature;
    RuleFunction function;
    int variant = 0;
    Autocast autocast = Autocast::Unknown;
};

class Registry {
  public:
    /// All rules, created on first use.
    static const Registry& get();

    /// Names are separated by spaces and tell where the operation is found: `torch.add`, `F.relu`, `Tensor.add` (the
    /// method and the function on the class), `operator.add`. Names that this PyTorch does not have are ignored.
    void add(std::string_view names, std::string_view signature, RuleFunction function, int variant = 0,
             Autocast autocast = Autocast::Unknown);
    /// The same for an operation that autocast does not affect, and for one that it casts to lower precision.
    void add_neutral(std::string_view names, std::string_view signature, RuleFunction function, int variant = 0) {
        add(names, signature, function, variant, Autocast::Neutral);
    }
    void add_lowered(std::string_view names, std::string_view signature, RuleFunction function, int variant = 0) {
        add(names, signature, function, variant, Autocast::Lower);
    }

    /// The same for operations that autocast affects on some devices only; known for the CPU.
    void add_neutral_on_cpu(std::string_view names, std::string_view signature, RuleFunction function,
                            int variant = 0) {
        add(names, signature, function, variant, Autocast::NeutralOnCpu);
    }
    void add_float32_on_cpu(std::string_view names, std::string_view signature, RuleFunction function,
                            int variant = 0) {
        add(names, signature, function, variant, Autocast::Float32OnCpu);
    }
    /// Functions that take `out=`, named as above; without a module they are of `torch`.
    void add_out(std::string_view names, Out kind);

    const Rule* find(const Question& question) const;
    Out out_of(const Question& question) const;

  private:
    void add_name(std::string_view name, const Rule* rule);

    std::deque<Rule> rules_;
    std::unordered_map<PyObject*, const Rule*> functions_;
    std::unordered_map<std::string_view, const Rule*> methods_;
    std::unordered_map<PyObject*, Out> outs_;
};

// One for each family, in the file of that family.
void add_elementwise_rules(Registry& registry);
void add_view_rules(Registry& registry);
void add_part_rules(Registry& registry);
void add_activation_rules(Registry& registry);
void add_selection_rules(Registry& registry);
void add_matmul_rules(Registry& registry);
void add_reduction_rules(Registry& registry);
void add_scan_rules(Registry& registry);
void add_normalization_rules(Registry& registry);
void add_convolution_rules(Registry& registry);
void add_pooling_rules(Registry& registry);
void add_joining_rules(Registry& registry);
void add_rearrangement_rules(Registry& registry);
void add_indexing_rules(Registry& registry);
void add_factory_rules(Registry& registry);
void add_conversion_rules(Registry& registry);
void add_query_rules(Registry& registry);
void add_loss_rules(Registry& registry);
void add_class_loss_rules(Registry& registry);
void add_elementwise_parameter_rules(Registry& registry);
void add_padding_rules(Registry& registry);
void add_resampling_rules(Registry& registry);
void add_scatter_rules(Registry& registry);
void add_data_dependent_rules(Registry& registry);
void add_attention_rules(Registry& registry);
void add_einsum_rules(Registry& registry);
void add_patch_rules(Registry& registry);
void add_distance_rules(Registry& registry);
void add_grid_rules(Registry& registry);
void add_multihead_rules(Registry& registry);
void add_recurrent_rules(Registry& registry);
void add_complex_rules(Registry& registry);
void add_norm_rules(Registry& registry);
void add_out_forms(Registry& registry);

}  // namespace stator::shape
