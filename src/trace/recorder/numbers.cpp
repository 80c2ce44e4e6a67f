#include "trace/recorder/numbers.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "number/conditions.h"
#include "number/expressions.h"
#include "shape/number_arguments.h"
#include "torch/dtypes.h"
#include "torch/names.h"
#include "trace/recorder/graph_recorder.h"
#include "value/kinds/changing_number.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

using Op = Expression::Op;

/// The function of module `operator`.
PyObject* operator_of(Op op) {
    if (is_comparison(op))
        return operator_function(static_cast<Comparison>(static_cast<int>(op) - static_cast<int>(Op::Less)));
    switch (op) {
        case Op::Add:
            return operator_function(BinaryOperator::Add, false);
        case Op::Subtract:
            return operator_function(BinaryOperator::Subtract, false);
        case Op::Multiply:
            return operator_function(BinaryOperator::Multiply, false);
        case Op::TrueDivide:
            return operator_function(BinaryOperator::TrueDivide, false);
        case Op::FloorDivide:
            return operator_function(BinaryOperator::FloorDivide, false);
        case Op::Remainder:
            return operator_function(BinaryOperator::Remainder, false);
        case Op::Power:
            return operator_function(BinaryOperator::Power, false);
        case Op::LeftShift:
            return operator_function(BinaryOperator::LeftShift, false);
        case Op::RightShift:
            return operator_function(BinaryOperator::RightShift, false);
        case Op::And:
            return operator_function(BinaryOperator::And, false);
        case Op::Or:
            return operator_function(BinaryOperator::Or, false);
        case Op::Xor:
            return operator_function(BinaryOperator::Xor, false);
        case Op::Negative:
            return operator_function(UnaryOperator::Negative);
        case Op::Invert:
            return operator_function(UnaryOperator::Invert);
        case Op::Not: {
            static PyObject* inverted = imported("_operator", "not_");
            return inverted;
        }
        default:
            STATOR_CHECK(false, "no number is computed here");
    }
}

/// The name in torch of the function that also takes SymInts and SymFloats; empty where Python's function does.
std::string name_in_torch(Op op) {
    if (op == Op::Minimum) return "sym_min";
    if (op == Op::Maximum) return "sym_max";
    if (op == Op::Truncate) return "sym_int";
    // `torch._sym_sqrt` for `math.sqrt`.
    return is_float_function(op) ? "_sym_" + std::string(symbol(op)).substr(5) : "";
}

PyObject* symbolic_function_of(Op op) {
    static PyObject* known[static_cast<std::size_t>(Op::Log2) + 1] = {};
    PyObject*& found = known[static_cast<std::size_t>(op)];
    if (found != nullptr) return found;
    std::string name = name_in_torch(op);
    return found = name.empty() ? python_function(op) : imported("torch", name);
}

/// The function that computes it in the graph.
PyObject* function_of(const Tracer& tracer, Op op) {
    static PyObject* const absolute = imported("_operator", "abs");
    if (op == Op::Absolute) return absolute;
    if (!is_function(op)) return operator_of(op);
    return tracer.run_by() == Tracer::RunBy::Stator ? python_function(op) : symbolic_function_of(op);
}

}  // namespace

void NumberNodes::set_float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments) {
    float_use_ = float_use(kind, target, arguments);
}

NumberNodes::FloatUse NumberNodes::float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments) {
    if (kind == graph::NodeKind::Function && PyCFunction_Check(target.get())) {
        auto* function = reinterpret_cast<PyCFunctionObject*>(target.get());
        std::string_view name = function->m_ml->ml_name;
        bool is_operator = function->m_module != nullptr && PyUnicode_Check(function->m_module) &&
                           utf8(function->m_module) == "_operator";
        if (is_operator && name != "setitem" && name != "pow" && name != "ipow") return FloatUse::Computes;
    }
    for (Value* value : arguments.positional) {
        auto* tensor = cast<TensorValue>(value);
        if (tensor == nullptr) continue;
        tracer_.realize(tensor);
        auto dtype = tensor->meta->dtype;
        if (dtype != torch_room::dtype::kBool && !torch_room::can_have_grad(dtype)) return FloatUse::ConvertsToInteger;
    }
    for (const Keyword& keyword : arguments.keywords)
        if (keyword.value->kind == Kind::Tensor || utf8(keyword.name) == "dtype") return FloatUse::ConvertsToInteger;
    return FloatUse::Converts;
}

namespace {

using Constants = std::unordered_map<const graph::Node*, PyObject*>;

void replace(graph::Argument& argument, const Constants& constants) {
    if (argument.kind == graph::Argument::Kind::Node) {
        auto found = constants.find(argument.node);
        if (found == constants.end()) return;
        --argument.node->uses;
        argument = graph::Argument::of_constant(found->second);
    } else if (argument.kind != graph::Argument::Kind::Constant) {
        for (graph::Argument& item : argument.items->values) replace(item, constants);
    }
}

}  // namespace

void NumberNodes::replace_specialized() {
    Constants constants;
    for (const auto& [number, node] : nodes_) {
        if (number->is_float || number->is_unbacked) continue;
        const Expression* resolved = tracer_.numbers().resolved(number);
        if (resolved->op == Op::Constant)
            constants.emplace(node, recorder_.graph().arena().keep(resolved->constant.object()));
    }
    if (constants.empty()) return;
    for (graph::Node* node : recorder_.graph().nodes()) {
        for (graph::Argument& argument : node->arguments) replace(argument, constants);
        for (graph::KeywordArgument& keyword : node->keywords) replace(keyword.value, constants);
    }
}

void NumberNodes::add_symbols(const Expression* size, std::vector<graph::Node*>& symbols) {
    if (size->op == Op::Source) {
        graph::Node* node = node_of(*size);
        if (std::ranges::find(symbols, node) == symbols.end()) symbols.push_back(node);
        return;
    }
    for (const Expression* operand : {size->left, size->right})
        if (operand != nullptr) add_symbols(operand, symbols);
}

std::vector<graph::Node*> NumberNodes::symbols_of(const graph::Result& result) {
    std::vector<graph::Node*> symbols;
    if (result.kind != graph::Result::Kind::Tensor || !result.tensor->is_dynamic()) return symbols;
    // (Not those of the inner tensors of a wrapper, as in torch._dynamo.)
    auto add = [&](Dim dim) {
        if (!dim.is_constant()) add_symbols(tracer_.numbers().resolved(dim.expression()), symbols);
    };
    std::ranges::for_each(result.tensor->sizes, add);
    std::ranges::for_each(result.tensor->strides, add);
    add(result.tensor->storage_offset);
    return symbols;
}

void NumberNodes::add_symbols_of_inputs() {
    const std::vector<graph::Node*> inputs = recorder_.input_nodes();
    for (graph::Node* input : inputs) {
        std::vector<graph::Node*> symbols = symbols_of(input->result);
        if (!symbols.empty())
            input->symbols = recorder_.graph().arena().make<std::vector<graph::Node*>>(std::move(symbols));
    }
}

void NumberNodes::forget(std::span<graph::Node* const> nodes) {
    const std::unordered_set<const graph::Node*> gone(nodes.begin(), nodes.end());
    std::erase_if(nodes_, [&](const auto& known) { return gone.contains(known.second); });
}

graph::Node* NumberNodes::add_input(const Expression& number) {
    graph::Node* input = recorder_.add_placeholder(number.source);
    if (!number.is_float || tracer_.run_by() == Tracer::RunBy::Stator) return input;
    input->result.expression = &number;
    return add_item_of(input, torch_room::dtype::kDouble);
}

graph::Node* NumberNodes::add_item_of(graph::Node* input, torch_room::Dtype dtype) {
    auto* meta = recorder_.graph().arena().make<torch_room::TensorMeta>();
    meta->dtype = dtype;
    meta->python_class = torch_room::tensor_class();
    input->result.kind = graph::Result::Kind::Tensor;
    input->result.tensor = meta;
    graph::Node* item = recorder_.graph().add(graph::NodeKind::Method, interned("item"), {graph::Argument::of(input)});
    recorder_.locations().locate(item);
    return item;
}

graph::Node* NumberNodes::node_of(const Expression& expression) {
    if (auto found = nodes_.find(&expression); found != nodes_.end()) return found->second;
    graph::Graph& graph = recorder_.graph();
    graph::Node* node = nullptr;
    if (expression.op == Op::Source) {
        node = add_input(expression);
    } else if (expression.op == Op::Unbacked) {
        auto origin = origins_.find(&expression);
        // (The storage offset of a view.)
        if (origin == origins_.end()) tracer_.numbers().ask(expression);
        if (origin->second.dimension < 0) return origin->second.node;
        node = node_of_size(origin->second.node, origin->second.dimension);
    } else {
        std::vector<graph::Argument> arguments;
        for (const Expression* operand : {expression.left, expression.right}) {
            if (operand == nullptr) continue;
            if (operand->op == Op::Constant)
                arguments.push_back(graph::Argument::of_constant(graph.arena().keep(operand->hint.object())));
            else
                arguments.push_back(graph::Argument::of(node_of(*operand)));
        }
        node = graph.add(graph::NodeKind::Function, function_of(tracer_, expression.op), std::move(arguments));
        recorder_.locations().locate(node);
    }
    node->result.kind = graph::Result::Kind::Constant;
    node->result.expression = &expression;
    node->result.constant = is_condition(expression.op) ? Py_False : graph.arena().keep(expression.hint.object());
    nodes_.emplace(&expression, node);
    tracer_.on_undo([this, key = &expression] { nodes_.erase(key); });
    return node;
}

graph::Node* NumberNodes::node_of_size(graph::Node* tensor, int dimension) {
    graph::Graph& graph = recorder_.graph();
    PyObject* place = graph.arena().keep(checked(PyLong_FromLong(dimension)));
    graph::Node* node = graph.add(graph::NodeKind::Method, interned("size"),
                                  {graph::Argument::of(tensor), graph::Argument::of_constant(place)});
    recorder_.locations().locate(node);
    return node;
}

void NumberNodes::note_sizes(graph::Node* node, const torch_room::TensorMeta& meta) {
    for (std::size_t i = 0; i < meta.sizes.size(); ++i)
        if (meta.sizes[i].is_unbacked() && meta.sizes[i].expression()->op == Op::Unbacked)
            origins_.emplace(meta.sizes[i].expression(), Origin{node, static_cast<int>(i)});
}

bool NumberNodes::is_drawn(const Expression& expression) const {
    const std::vector<Term> terms = terms_of(expression);
    return std::ranges::all_of(terms, [&](const Term& term) {
        if (term.op != Op::Unbacked) return true;
        auto found = origins_.find(tracer_.numbers().unbacked_numbers()[term.symbol]);
        return found != origins_.end() && recorder_.is_drawn(found->second.node);
    });
}

std::vector<std::string> NumberNodes::origins_of(const Expression& expression) const {
    std::vector<std::string> texts;
    for (const Term& term : terms_of(expression)) {
        if (term.op != Op::Unbacked) continue;
        const Expression* number = tracer_.numbers().unbacked_numbers()[term.symbol];
        auto found = origins_.find(number);
        if (found == origins_.end()) continue;
        const auto& [node, dimension] = found->second;
        std::string text = print_by_symbols(*number) + " is ";
        if (recorder_.is_drawn(node))
            text += "a random number that is drawn";
        else
            text += (dimension < 0 ? "the result of " : "the size of dimension " + std::to_string(dimension) + " of ") +
                    graph::operation_name(*node);
        if (node->location != nullptr)
            text += " in line " + std::to_string(node->location->line) + " of " +
                    std::string(utf8(node->location->code->co_filename));
        if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
    }
    return texts;
}

graph::Argument NumberNodes::argument(ConstantValue* value) {
    symbolic::realize_class(tracer_, value);
    if (!value->expression->is_float) {
        symbolic::guard_fits(tracer_, value);
    } else if (float_use_ == FloatUse::ConvertsToInteger ||
               (float_use_ == FloatUse::Converts && !symbolic::guard_moderate(tracer_, value))) {
        tracer_.realize(value);
        return graph::Argument::of_constant(value->held);
    }
    return graph::Argument::of(node_of(*value->expression));
}

}  // namespace stator
