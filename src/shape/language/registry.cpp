#include "shape/language/registry.h"

#include <string>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"

namespace stator::shape {

namespace {

/// The object of a dotted name, or null; never freed.
PyObject* find_object(std::string_view place, const std::string& name) {
    const std::pair<std::string_view, const char*> modules[] = {
        {"torch", "torch"},           {"F", "torch.nn.functional"},
        {"operator", "_operator"},    {"_C._nn", "torch._C._nn"},
        {"special", "torch.special"}, {"Tensor", "torch"},
        {"builtins", "builtins"},     {"math", "math"},
        {"linalg", "torch.linalg"},   {"_VF", "torch._VF"},
    };
    for (auto [prefix, module] : modules) {
        if (prefix != place) continue;
        return find_imported(module, place == "Tensor" ? "Tensor." + name : name).release();
    }
    return nullptr;
}

}  // namespace

void Registry::add(std::string_view names, std::string_view signature, RuleFunction function, int variant,
                   Autocast autocast) {
    rules_.push_back({Signature(signature), function, variant, autocast});
    while (!names.empty()) {
        std::size_t end = std::min(names.find(' '), names.size());
        add_name(names.substr(0, end), &rules_.back());
        names.remove_prefix(std::min(end + 1, names.size()));
    }
}

void Registry::add_name(std::string_view name, const Rule* rule) {
    std::size_t dot = name.rfind('.');
    std::string_view place = name.substr(0, dot);
    std::string last(name.substr(dot + 1));
    PyObject* object = find_object(place, last);
    if (object == nullptr) return;
    functions_.insert_or_assign(object, rule);
    if (place == "Tensor") {
        PyObject* string = PyUnicode_InternFromString(last.c_str());
        if (string == nullptr) throw PythonError();
        methods_.insert_or_assign(utf8(string), rule);
    }
}

void Registry::add_out(std::string_view names, Out kind) {
    while (!names.empty()) {
        std::size_t end = std::min(names.find(' '), names.size());
        std::string_view name = names.substr(0, end);
        // A name without a module is one of `torch`.
        std::size_t dot = name.rfind('.');
        std::string_view place = dot == std::string_view::npos ? "torch" : name.substr(0, dot);
        std::string last(dot == std::string_view::npos ? name : name.substr(dot + 1));
        if (PyObject* object = find_object(place, last)) outs_[object] = kind;
        names.remove_prefix(std::min(end + 1, names.size()));
    }
}

Out Registry::out_of(const Question& question) const {
    if (question.kind != graph::NodeKind::Function) return Out::None;
    auto found = outs_.find(question.target.get());
    return found == outs_.end() ? Out::None : found->second;
}

const Rule* Registry::find(const Question& question) const {
    if (question.kind == graph::NodeKind::Method) {
        auto found = methods_.find(utf8(question.target));
        return found == methods_.end() ? nullptr : found->second;
    }
    auto found = functions_.find(question.target.get());
    return found == functions_.end() ? nullptr : found->second;
}

const Registry& Registry::get() {
    static const Registry* registry = [] {
        auto* made = new Registry;
        for (auto* add_family : {add_elementwise_rules,
                                 add_view_rules,
                                 add_part_rules,
                                 add_activation_rules,
                                 add_selection_rules,
                                 add_matmul_rules,
                                 add_reduction_rules,
                                 add_scan_rules,
                                 add_normalization_rules,
                                 add_convolution_rules,
                                 add_pooling_rules,
                                 add_joining_rules,
                                 add_rearrangement_rules,
                                 add_indexing_rules,
                                 add_factory_rules,
                                 add_conversion_rules,
                                 add_query_rules,
                                 add_loss_rules,
                                 add_class_loss_rules,
                                 add_padding_rules,
                                 add_resampling_rules,
                                 add_scatter_rules,
                                 add_data_dependent_rules,
                                 add_attention_rules,
                                 add_einsum_rules,
                                 add_norm_rules,
                                 add_elementwise_parameter_rules,
                                 add_patch_rules,
                                 add_distance_rules,
                                 add_grid_rules,
                                 add_multihead_rules,
                                 add_recurrent_rules,
                                 add_complex_rules,
                                 add_out_forms})
            add_family(*made);
        return made;
    }();
    return *registry;
}

}  // namespace stator::shape
