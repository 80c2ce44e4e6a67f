/// Numbers that change from call to call (see value/kinds/changing_number.h) in the graph: placeholders, and nodes for
/// arithmetic.
#include <algorithm>

#include "base/check.h"
#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "shape/number_arguments.h"
#include "torch/dtypes.h"
#include "trace/interpreter.h"
#include "value/kinds/changing_number.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

using Op = Expression::Op;

/// The function of module operator that does the same in the graph.
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
        default:
            STATOR_CHECK(false, "no number is computed here");
    }
}

/// What the expression comes to in this trace.
Ref<> seen(const Expression& expression) {
    auto number = evaluate(terms_of(expression), [](const Term& term) { return term.source->object; });
    STATOR_CHECK(number, "a number of the trace does not fit");
    return number->object();
}

}  // namespace

shape::AnyNumber Interpreter::any_number(graph::NodeKind kind, Borrowed<> target) const {
    return has_variables() ? shape::takes_any_number(kind, target) : shape::AnyNumber::None;
}

Interpreter::FloatUse Interpreter::float_use(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments) {
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
        realize(tensor);
        auto dtype = tensor->meta->dtype;
        if (dtype != torch_room::dtype::kBool && !torch_room::can_have_grad(dtype)) return FloatUse::ConvertsToInteger;
    }
    for (const Keyword& keyword : arguments.keywords)
        if (keyword.value->kind == Kind::Tensor || utf8(keyword.name) == "dtype") return FloatUse::ConvertsToInteger;
    return FloatUse::Converts;
}

graph::Node* Interpreter::number_node(const Expression& expression) {
    if (auto found = number_nodes_.find(&expression); found != number_nodes_.end()) return found->second;
    graph::Node* node = nullptr;
    if (expression.op == Op::Source) {
        node = add_placeholder(expression.source);
    } else {
        std::vector<graph::Argument> arguments;
        for (const Expression* operand : {expression.left, expression.right}) {
            if (operand == nullptr) continue;
            if (operand->op == Op::Constant)
                arguments.push_back(graph::Argument::of_constant(graph_->arena().keep(seen(*operand))));
            else
                arguments.push_back(graph::Argument::of(number_node(*operand)));
        }
        node = graph_->add(graph::NodeKind::Function, function_of(expression.op), std::move(arguments));
        node->location = current_location();
        node->modules = current_modules();
    }
    node->result.kind = graph::Result::Kind::Constant;
    node->result.constant = graph_->arena().keep(seen(expression));
    number_nodes_.emplace(&expression, node);
    on_undo([this, key = &expression] { number_nodes_.erase(key); });
    return node;
}

graph::Argument Interpreter::number_argument(ConstantValue* value) {
    symbolic::realize_class(*this, value);
    if (!value->expression->is_float) {
        symbolic::guard_fits(*this, value);
        integer_arguments_.push_back(value);
    } else if (float_use_ == FloatUse::ConvertsToInteger ||
               (float_use_ == FloatUse::Converts && !symbolic::guard_moderate(*this, value))) {
        realize(value);
        return graph::Argument::of_constant(value->held);
    }
    return graph::Argument::of(number_node(*value->expression));
}

TensorValue* Interpreter::emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) {
    static PyObject* function = imported("torch", "select");
    Arguments arguments = Arguments::of(static_cast<Value*>(tensor), integer(dimension), index);
    Value* part = emit(graph::NodeKind::Function, function, arguments, shape::AnyNumber::IntOrFloat);
    STATOR_CHECK(part->kind == Kind::Tensor, "a part of a tensor is a tensor");
    return static_cast<TensorValue*>(part);
}

TensorValue* Interpreter::emit_narrow(TensorValue* tensor, std::int64_t dimension, Value* start, std::int64_t length) {
    static PyObject* function = imported("torch", "narrow");
    Arguments arguments = Arguments::of(static_cast<Value*>(tensor), integer(dimension), start, integer(length));
    Value* part = emit(graph::NodeKind::Function, function, arguments, shape::AnyNumber::IntOrFloat);
    STATOR_CHECK(part->kind == Kind::Tensor, "a part of a tensor is a tensor");
    return static_cast<TensorValue*>(part);
}

const std::vector<ConstantValue*>* Interpreter::movers_of(const graph::Node* node) const {
    auto found = movers_.find(node);
    if (found == movers_.end() && !node->arguments.empty() && node->arguments[0].kind == graph::Argument::Kind::Node) {
        // A part of what a node gave.
        auto kind = node->arguments[0].node->result.kind;
        if (kind == graph::Result::Kind::Tuple || kind == graph::Result::Kind::List)
            found = movers_.find(node->arguments[0].node);
    }
    return found == movers_.end() ? nullptr : &found->second;
}

void Interpreter::settle_offsets(graph::NodeKind kind, Borrowed<> target) {
    if (movers_.empty() || !shape::minds_storage_offset(kind, target)) return;
    for (TensorValue* tensor : tensor_arguments_)
        if (const auto* movers = movers_of(tensor->node))
            for (ConstantValue* mover : *movers) realize(mover);
}

void Interpreter::note_offset(graph::Node* node, bool is_view) {
    if (!is_view || (integer_arguments_.empty() && movers_.empty())) return;
    std::vector<ConstantValue*> all = integer_arguments_;
    for (TensorValue* tensor : tensor_arguments_)
        if (const auto* movers = movers_of(tensor->node)) all.insert(all.end(), movers->begin(), movers->end());
    if (!all.empty()) movers_.emplace(node, std::move(all));
}

}  // namespace stator
