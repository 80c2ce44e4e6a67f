/// `torch.einsum`: operands are permuted to one order of dimensions, then multiplied pairwise, as batched matrix
/// products if something is summed over and elementwise otherwise.
#include <algorithm>
#include <cctype>
#include <deque>
#include <utility>

#include "base/python_error.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

/// Labels are numbers in PyTorch's order: capital letters, then small ones, then the ellipsis.
constexpr int kLetters = 26, kEllipsis = 2 * kLetters;
using Labels = std::vector<int>;

struct Equation {
    std::vector<Labels> operands;
    std::optional<Labels> output;
};

bool read_labels(std::string_view text, Labels& labels) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto letter = static_cast<unsigned char>(text[i]);
        if (letter == ' ') continue;
        if (text.substr(i, 3) == "...") {
            if (std::ranges::find(labels, kEllipsis) != labels.end()) return false;
            labels.push_back(kEllipsis);
            i += 2;
        } else if (std::isupper(letter) != 0) {
            labels.push_back(letter - 'A');
        } else if (std::islower(letter) != 0) {
            labels.push_back(letter - 'a' + kLetters);
        } else {
            return false;
        }
    }
    return true;
}

/// `bhid,bhjd->bhij`.
std::optional<Equation> parse(std::string_view text) {
    Equation equation;
    std::size_t arrow = text.find("->");
    std::string_view inputs = text.substr(0, arrow);
    while (true) {
        std::size_t comma = std::min(inputs.find(','), inputs.size());
        if (!read_labels(inputs.substr(0, comma), equation.operands.emplace_back())) return std::nullopt;
        if (comma == inputs.size()) break;
        inputs.remove_prefix(comma + 1);
    }
    if (arrow != std::string_view::npos && !read_labels(text.substr(arrow + 2), equation.output.emplace()))
        return std::nullopt;
    return equation;
}

std::optional<Labels> labels_of(const Operand& sublist) {
    if (!sublist.is_sequence()) return std::nullopt;
    Labels labels;
    for (const Operand& item : sublist.items()) {
        if (item.constant() == Py_Ellipsis) {
            if (std::ranges::find(labels, kEllipsis) != labels.end()) return std::nullopt;
            labels.push_back(kEllipsis);
            continue;
        }
        auto label = item.integer();
        if (!label || *label < 0 || *label >= kEllipsis) return std::nullopt;
        labels.push_back(static_cast<int>(label->value()));
    }
    return labels;
}

/// The other form: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
std::optional<Equation> read_sublists(const std::vector<Operand>& arguments, std::vector<Operand>& operands) {
    Equation equation;
    for (std::size_t i = 0; i < arguments.size(); i += 2) {
        bool is_output = i + 1 == arguments.size();
        auto labels = labels_of(arguments[is_output ? i : i + 1]);
        if (!labels) return std::nullopt;
        if (is_output) {
            equation.output = std::move(labels);
        } else {
            operands.push_back(arguments[i]);
            equation.operands.push_back(std::move(*labels));
        }
    }
    return equation;
}

/// The position of each label in the common order: output labels first, then those that are summed over.
struct Order {
    std::vector<int> place = std::vector<int>(kEllipsis, -1);
    std::size_t ellipsis = 0, ellipsis_length = 0;  // the dimensions of the ellipsis
    std::size_t kept = 0, all = 0;
};

std::optional<Order> order_of(const Equation& equation, const std::vector<const TensorMeta*>& operands) {
    Order order;
    std::vector<int> count(kEllipsis, 0);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        std::size_t named = 0;
        for (int label : equation.operands[i]) {
            if (label == kEllipsis) continue;
            ++count[static_cast<std::size_t>(label)];
            ++named;
        }
        std::size_t dimensions = operands[i]->dimensions();
        bool has_ellipsis = named != equation.operands[i].size();
        if (has_ellipsis ? named > dimensions : named != dimensions) return std::nullopt;
        if (has_ellipsis) order.ellipsis_length = std::max(order.ellipsis_length, dimensions - named);
    }
    bool ellipsis_is_kept = !equation.output;
    if (ellipsis_is_kept) {
        // The dimensions of the ellipsis, then labels that occur once.
        order.all = order.ellipsis_length;
        for (std::size_t label = 0; label < kEllipsis; ++label)
            if (count[label] == 1) order.place[label] = static_cast<int>(order.all++);
    } else {
        for (int label : *equation.output) {
            if (label == kEllipsis) {
                ellipsis_is_kept = true;
                order.ellipsis = order.all;
                order.all += order.ellipsis_length;
                continue;
            }
            auto index = static_cast<std::size_t>(label);
            if (count[index] == 0 || order.place[index] >= 0) return std::nullopt;
            order.place[index] = static_cast<int>(order.all++);
        }
    }
    order.kept = order.all;
    if (!ellipsis_is_kept) {
        order.ellipsis = order.all;
        order.all += order.ellipsis_length;
    }
    for (std::size_t label = 0; label < kEllipsis; ++label)
        if (count[label] > 0 && order.place[label] < 0) order.place[label] = static_cast<int>(order.all++);
    return order;
}

/// The operand with its dimensions in the common order; missing ones have size one. For a repeated label, the diagonal
/// is taken.
std::optional<TensorMeta> aligned(const TensorMeta& operand, const Labels& labels, const Order& order) {
    TensorMeta view = operand;
    view.sizes.assign(order.all, Dim(1));
    view.strides.assign(order.all, Dim(1));
    std::vector<bool> is_placed(order.all, false);
    std::size_t dimension = 0;
    auto put = [&](std::size_t place) {
        Dim size = operand.sizes[dimension], stride = operand.strides[dimension];
        ++dimension;
        if (is_placed[place]) {
            if (view.sizes[place] != size) return false;
            view.strides[place] += stride;
        } else {
            view.sizes[place] = size;
            view.strides[place] = stride;
            is_placed[place] = true;
        }
        return true;
    };
    for (int label : labels) {
        if (label != kEllipsis) {
            if (!put(static_cast<std::size_t>(order.place[static_cast<std::size_t>(label)]))) return std::nullopt;
            continue;
        }
        std::size_t covered = operand.dimensions() - (labels.size() - 1);
        for (std::size_t i = order.ellipsis_length - covered; i < order.ellipsis_length; ++i) put(order.ellipsis + i);
    }
    return view;
}

void sum_over(TensorMeta& operand, const std::vector<std::size_t>& dimensions) {
    if (dimensions.empty()) return;
    for (std::size_t dimension : dimensions) operand.sizes[dimension] = 1;
    operand.strides = contiguous_strides(operand.sizes);
    if (torch_room::is_integral(operand.dtype)) operand.dtype = torch_room::dtype::kLong;
}

/// Whether the sizes are compatible: equal, or one of them is one.
bool fit(const TensorMeta& left, const TensorMeta& right) {
    for (std::size_t i = 0; i < left.dimensions(); ++i)
        if (!known_equal(left.sizes[i], 1) && !known_equal(right.sizes[i], 1) &&
            !require_equal(left.sizes[i], right.sizes[i]))
            return false;
    return true;
}

/// As a batched matrix product: shared dimensions first, then those of the left operand, those summed over, and those
/// of the right operand. The result is viewed in the common order again.
std::optional<TensorMeta> matrix_product(TensorMeta left, TensorMeta right, const std::vector<std::size_t>& summed) {
    std::vector<std::size_t> shared, of_left, of_right;
    Dim shared_size = 1, left_size = 1, right_size = 1;
    for (std::size_t i = 0; i < left.dimensions(); ++i) {
        if (std::ranges::find(summed, i) != summed.end()) continue;
        bool in_left = !known_equal(left.sizes[i], 1), in_right = !known_equal(right.sizes[i], 1);
        (in_left && in_right ? shared : in_left ? of_left : of_right).push_back(i);
        (in_left && in_right ? shared_size
         : in_left           ? left_size
                             : right_size) *= in_left ? left.sizes[i] : right.sizes[i];
    }
    // The operands are swapped if that avoids permuting the result.
    if (!of_left.empty() && !of_right.empty() && of_right.back() < of_left.front()) {
        std::swap(of_left, of_right);
        std::swap(left_size, right_size);
    }
    std::vector<std::size_t> places;
    for (const std::vector<std::size_t>* group :
         {&std::as_const(shared), &std::as_const(of_left), &summed, &std::as_const(of_right)})
        places.insert(places.end(), group->begin(), group->end());
    Dims in_order;
    for (std::size_t i : places) {
        bool is_summed = std::ranges::find(summed, i) != summed.end();
        in_order.push_back(is_summed ? Dim(1) : !known_equal(left.sizes[i], 1) ? left.sizes[i] : right.sizes[i]);
    }
    Dims product{shared_size, left_size, right_size};
    auto strides = view_strides(product, contiguous_strides(product), in_order);
    if (!strides) return std::nullopt;
    for (std::size_t i = 0; i < places.size(); ++i) {
        left.sizes[places[i]] = in_order[i];
        left.strides[places[i]] = (*strides)[i];
    }
    return left;
}

TensorMeta elementwise_product(TensorMeta left, const TensorMeta& right) {
    Dims sizes = *broadcast(left.sizes, right.sizes);
    const TensorMeta* inputs[] = {&left, &right};
    left.strides = elementwise_strides(inputs, sizes);
    left.sizes = std::move(sizes);
    return left;
}

/// Multiplies from left to right, summing over each dimension as soon as no remaining operand has it.
std::optional<TensorMeta> contract(const Call& call, std::deque<TensorMeta> operands, const Order& order) {
    std::vector<int> holders(order.all, 0);
    for (const TensorMeta& operand : operands)
        for (std::size_t i = 0; i < order.all; ++i) holders[i] += !known_equal(operand.sizes[i], 1);
    while (operands.size() > 1) {
        TensorMeta left = std::move(operands[0]), right = std::move(operands[1]);
        operands.erase(operands.begin(), operands.begin() + 2);
        std::vector<std::size_t> summed, of_left, of_right;
        for (std::size_t i = order.kept; i < order.all; ++i) {
            bool in_left = !known_equal(left.sizes[i], 1), in_right = !known_equal(right.sizes[i], 1);
            if (in_left && in_right) {
                if (--holders[i] != 1) continue;
                summed.push_back(i);
                holders[i] = 0;
            } else if (holders[i] == 1 && (in_left || in_right)) {
                (in_left ? of_left : of_right).push_back(i);
                holders[i] = 0;
            }
        }
        if (!fit(left, right)) return std::nullopt;
        sum_over(left, of_left);
        sum_over(right, of_right);
        if (!summed.empty() && call.state().autocast && torch_room::is_floating(left.dtype))
            for (TensorMeta* one : {&left, &right})
                if (auto lower = torch_room::autocast_dtype(one->device.kind);
                    lower && one->dtype != torch_room::dtype::kDouble)
                    one->dtype = *lower;
        if (left.dtype != right.dtype) return std::nullopt;
        auto product = summed.empty() ? elementwise_product(std::move(left), right)
                                      : matrix_product(std::move(left), std::move(right), summed);
        if (!product) return std::nullopt;
        operands.push_front(std::move(*product));
    }
    return std::move(operands.front());
}

/// With this package PyTorch chooses the order in which three or more operands are multiplied.
bool has_planner() {
    static const bool found = [] {
        Ref<> module = checked(PyImport_ImportModule("torch.backends.opt_einsum"));
        Ref<> answer = checked(PyObject_CallMethod(module.get(), "is_available", nullptr));
        return answer.get() != Py_False;
    }();
    return found;
}

/// Drops the dimensions that were summed over.
bool give(Call& call, TensorMeta product, const Order& order, const std::vector<const TensorMeta*>& inputs) {
    if (order.kept != order.all) {
        Dims sizes(product.sizes.begin(), product.sizes.begin() + static_cast<std::ptrdiff_t>(order.kept));
        auto strides = view_strides(product.sizes, product.strides, sizes);
        if (!strides) return false;
        product.sizes = std::move(sizes);
        product.strides = std::move(*strides);
    }
    return call.returns(call.fresh(std::move(product.sizes), std::move(product.strides), product.dtype, product.device),
                        call.records(inputs));
}

bool einsum(Call& call) {
    if (!call[0].is_sequence()) return false;
    std::vector<Operand> arguments = call[0].items(), operands;
    if (arguments.size() < 2) return false;
    std::optional<Equation> equation;
    if (auto text = arguments[0].string()) {
        operands.assign(arguments.begin() + 1, arguments.end());
        if (operands.size() == 1 && operands[0].is_sequence()) operands = operands[0].items();
        equation = parse(*text);
    } else {
        equation = read_sublists(arguments, operands);
    }
    if (!equation || operands.empty() || operands.size() != equation->operands.size()) return false;
    if (operands.size() > 2 && has_planner()) return false;
    std::vector<const TensorMeta*> tensors;
    for (const Operand& operand : operands) {
        const TensorMeta* tensor = operand.tensor();
        if (tensor == nullptr || tensor->device != operands[0].tensor()->device ||
            tensor->dtype != operands[0].tensor()->dtype || tensor->dtype == torch_room::dtype::kBool ||
            tensor->dtype == torch_room::dtype::kComplexHalf)
            return false;
        tensors.push_back(tensor);
    }
    auto order = order_of(*equation, tensors);
    if (!order) return false;
    std::deque<TensorMeta> views;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        auto view = aligned(*tensors[i], equation->operands[i], *order);
        if (!view) return false;
        views.push_back(std::move(*view));
    }
    if (views.size() > 1) {
        auto product = contract(call, std::move(views), *order);
        return product && give(call, std::move(*product), *order, tensors);
    }
    TensorMeta& view = views.front();
    if (order->kept == order->all)
        return call.returns_view(operands[0], call.view_of(*tensors[0], view.sizes, view.strides, view.storage_offset));
    Dims sizes(view.sizes.begin(), view.sizes.begin() + static_cast<std::ptrdiff_t>(order->kept));
    Dtype type = torch_room::is_integral(view.dtype) ? torch_room::dtype::kLong : view.dtype;
    return call.returns(call.fresh(std::move(sizes), type, view.device), call.records(tensors));
}

}  // namespace

void add_einsum_rules(Registry& registry) {
    registry.add_neutral_on_cpu("torch.einsum _VF.einsum", "all...", einsum);
}

}  // namespace stator::shape
