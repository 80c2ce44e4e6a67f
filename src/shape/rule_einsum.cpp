/// `torch.einsum` of two tensors: a batched product of matrices, or a product of elements, with dimensions put in
/// place.
#include <algorithm>
#include <cctype>

#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

/// `bhid,bhjd->bhij`. Without ellipses and labels that one operand has twice.
struct Equation {
    std::vector<std::string> operands;
    std::string output;
};

bool read_labels(std::string_view text, std::string& labels) {
    for (char letter : text) {
        if (letter == ' ') continue;
        if (std::isalpha(static_cast<unsigned char>(letter)) == 0 || labels.find(letter) != std::string::npos)
            return false;
        labels += letter;
    }
    return true;
}

std::optional<Equation> parse(std::string_view text) {
    Equation equation;
    std::size_t arrow = text.find("->");
    std::string_view inputs = text.substr(0, arrow);
    while (true) {
        std::size_t comma = std::min(inputs.find(','), inputs.size());
        equation.operands.emplace_back();
        if (!read_labels(inputs.substr(0, comma), equation.operands.back())) return std::nullopt;
        if (comma == inputs.size()) break;
        inputs.remove_prefix(comma + 1);
    }
    if (arrow != std::string_view::npos) {
        if (!read_labels(text.substr(arrow + 2), equation.output)) return std::nullopt;
        return equation;
    }
    // Labels that occur once, capital letters first.
    std::string all;
    for (const std::string& labels : equation.operands) all += labels;
    for (char label : all)
        if (std::count(all.begin(), all.end(), label) == 1) equation.output += label;
    std::sort(equation.output.begin(), equation.output.end());
    return equation;
}

/// The operand with a dimension for each label, in the order of `labels`; of one element where it has none.
TensorMeta aligned(const TensorMeta& operand, const std::string& own, const std::string& labels) {
    TensorMeta view = operand;
    view.sizes.clear();
    view.strides.clear();
    for (char label : labels) {
        std::size_t place = own.find(label);
        view.sizes.push_back(place == std::string::npos ? Dim(1) : operand.sizes[place]);
        view.strides.push_back(place == std::string::npos ? Dim(1) : operand.strides[place]);
    }
    return view;
}

/// Strides of the batched product, with its dimensions in the order of the labels: it is computed with dimensions that
/// both have first, then those of the left, those summed over, and those of the right.
Dims product_strides(const TensorMeta& left, const TensorMeta& right, const std::vector<bool>& summed, Dims& sizes) {
    std::vector<std::size_t> shared, of_left, gone, of_right;
    for (std::size_t i = 0; i < summed.size(); ++i) {
        bool in_left = left.sizes[i] != 1, in_right = right.sizes[i] != 1;
        auto& group = summed[i] ? gone : in_left && in_right ? shared : in_left ? of_left : of_right;
        group.push_back(i);
    }
    // The sides change places where that spares putting dimensions in place afterwards.
    if (!of_left.empty() && !of_right.empty() && of_right.back() < of_left.front()) std::swap(of_left, of_right);
    std::vector<std::size_t> order;
    for (const auto* group : {&shared, &of_left, &gone, &of_right})
        order.insert(order.end(), group->begin(), group->end());
    Dims in_order;
    for (std::size_t dimension : order)
        in_order.push_back(summed[dimension] ? Dim(1) : std::max(left.sizes[dimension], right.sizes[dimension]));
    Dims dense = contiguous_strides(in_order), strides(order.size());
    sizes.assign(order.size(), Dim(0));
    for (std::size_t i = 0; i < order.size(); ++i) {
        sizes[order[i]] = in_order[i];
        strides[order[i]] = dense[i];
    }
    return strides;
}

bool einsum(Call& call) {
    auto text = call[0].string();
    if (!text || !call[1].is_sequence()) return false;
    std::vector<Operand> operands = call[1].items();
    auto equation = parse(*text);
    if (!equation || operands.size() != 2 || equation->operands.size() != 2) return false;
    const TensorMeta *left = operands[0].tensor(), *right = operands[1].tensor();
    if (left == nullptr || right == nullptr || left->dtype != right->dtype || left->device != right->device ||
        left->dtype == torch_room::dtype::kBool || left->dtype == torch_room::dtype::kComplexHalf)
        return false;
    const std::string &left_labels = equation->operands[0], &right_labels = equation->operands[1];
    if (left_labels.size() != left->dimensions() || right_labels.size() != right->dimensions()) return false;

    // Labels of the output first, then those that are summed over, in PyTorch's order of letters.
    std::string labels = equation->output, rest;
    for (char label : left_labels + right_labels)
        if (labels.find(label) == std::string::npos && rest.find(label) == std::string::npos) rest += label;
    for (char label : labels)
        if (left_labels.find(label) == std::string::npos && right_labels.find(label) == std::string::npos) return false;
    std::sort(rest.begin(), rest.end());
    labels += rest;
    TensorMeta a = aligned(*left, left_labels, labels), b = aligned(*right, right_labels, labels);
    std::size_t kept = equation->output.size();
    std::vector<bool> summed(labels.size(), false);
    bool any_summed = false;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        bool in_left = a.sizes[i] != 1, in_right = b.sizes[i] != 1;
        if (in_left && in_right && a.sizes[i] != b.sizes[i]) return false;
        if (a.sizes[i] == 0 || b.sizes[i] == 0) return false;
        if (i < kept) continue;
        if (in_left && in_right) {
            summed[i] = any_summed = true;
        } else {
            // Summed over before the product, which leaves a dense tensor.
            for (TensorMeta* one : {&a, &b}) {
                if (one->sizes[i] == 1) continue;
                one->sizes[i] = 1;
                one->strides = contiguous_strides(one->sizes);
                if (torch_room::is_integral(one->dtype)) return false;
            }
        }
    }
    Dims sizes, strides;
    if (any_summed) {
        strides = product_strides(a, b, summed, sizes);
    } else {
        sizes = *broadcast(a.sizes, b.sizes);
        const TensorMeta* inputs[] = {&a, &b};
        strides = elementwise_strides(inputs, sizes);
    }
    if (kept != labels.size()) {
        Dims without(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(kept));
        auto viewed = view_strides(sizes, strides, without);
        if (!viewed) return false;
        sizes = std::move(without);
        strides = std::move(*viewed);
    }
    return call.returns(call.fresh(std::move(sizes), std::move(strides), left->dtype, left->device),
                        call.records({left, right}));
}

}  // namespace

void add_einsum_rules(Registry& registry) {
    registry.add("torch.einsum", "equation operands...", einsum);
}

}  // namespace stator::shape
