#include "trace/numbers.h"

#include <algorithm>

#include "base/check.h"
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "number/expressions.h"
#include "shape/number_arguments.h"
#include "torch/dtypes.h"
#include "trace/graph_recorder.h"
#include "value/kinds/changing_number.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

using Op = Expression::Op;

/// The function of module `operator` that computes it in the graph.
PyObject* function_of(Op op) {
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
        case Op::Absolute: {
            static PyObject* absolute = imported("_operator", "abs");
            return absolute;
        }
        case Op::Less:
        case Op::LessEqual:
        case Op::Equal:
        case Op::NotEqual:
        case Op::Greater:
        case Op::GreaterEqual:
            return operator_function(static_cast<Comparison>(static_cast<int>(op) - static_cast<int>(Op::Less)));
        case Op::Not: {
            static PyObject* inverted = imported("_operator", "not_");
            return inverted;
        }
        default:
            STATOR_CHECK(false, "no number is computed here");
    }
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

graph::Node* NumberNodes::node_of(const Expression& expression) {
    if (auto found = nodes_.find(&expression); found != nodes_.end()) return found->second;
    graph::Graph& graph = recorder_.graph();
    graph::Node* node = nullptr;
    if (expression.op == Op::Source) {
        node = recorder_.add_placeholder(expression.source);
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
        node = graph.add(graph::NodeKind::Function, function_of(expression.op), std::move(arguments));
        recorder_.locations().locate(node);
    }
    node->result.kind = graph::Result::Kind::Constant;
    node->result.expression = &expression;
    const bool is_condition = expression.op >= Op::Less;
    node->result.constant = is_condition ? Py_False : graph.arena().keep(expression.hint.object());
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

std::vector<std::string> NumberNodes::origins_of(const Expression& expression) const {
    std::vector<std::string> texts;
    for (const Term& term : terms_of(expression)) {
        if (term.op != Op::Unbacked) continue;
        const Expression* number = tracer_.numbers().unbacked_numbers()[term.symbol];
        auto found = origins_.find(number);
        if (found == origins_.end()) continue;
        const auto& [node, dimension] = found->second;
        std::string text = print_by_symbols(*number) + " is ";
        text += dimension < 0 ? "the result of " : "the size of dimension " + std::to_string(dimension) + " of ";
        text += graph::operation_name(*node);
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
        integer_arguments_.push_back(value);
    } else if (float_use_ == FloatUse::ConvertsToInteger ||
               (float_use_ == FloatUse::Converts && !symbolic::guard_moderate(tracer_, value))) {
        tracer_.realize(value);
        return graph::Argument::of_constant(value->held);
    }
    return graph::Argument::of(node_of(*value->expression));
}

const std::vector<ConstantValue*>* NumberNodes::offset_numbers(const graph::Node* node) const {
    auto found = offset_numbers_.find(node);
    if (found == offset_numbers_.end() && !node->arguments.empty() &&
        node->arguments[0].kind == graph::Argument::Kind::Node) {
        // An item of the tuple or list that a node gave.
        auto kind = node->arguments[0].node->result.kind;
        if (kind == graph::Result::Kind::Tuple || kind == graph::Result::Kind::List)
            found = offset_numbers_.find(node->arguments[0].node);
    }
    return found == offset_numbers_.end() ? nullptr : &found->second;
}

void NumberNodes::specialize_offsets(graph::NodeKind kind, Borrowed<> target, std::span<TensorValue* const> tensors) {
    if (offset_numbers_.empty() || !shape::minds_storage_offset(kind, target)) return;
    for (TensorValue* tensor : tensors)
        if (const auto* numbers = offset_numbers(tensor->node))
            for (ConstantValue* number : *numbers) tracer_.realize(number);
}

void NumberNodes::note_view(const graph::Node* view, std::span<TensorValue* const> tensors) {
    if (integer_arguments_.empty() && offset_numbers_.empty()) return;
    std::vector<ConstantValue*> all = integer_arguments_;
    for (TensorValue* tensor : tensors)
        if (const auto* numbers = offset_numbers(tensor->node)) all.insert(all.end(), numbers->begin(), numbers->end());
    if (!all.empty()) offset_numbers_.emplace(view, std::move(all));
}

}  // namespace stator
