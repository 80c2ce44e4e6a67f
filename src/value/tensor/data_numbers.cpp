#include "value/tensor/data_numbers.h"

#include <algorithm>
#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "number/conditions.h"
#include "torch/dtypes.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/large_sizes.h"

namespace stator {

namespace {

using Op = Expression::Op;
using namespace torch_room::dtype;

/// What `item()` of a dtype gives.
struct ItemClass {
    PyTypeObject* type;
    Range range;
};

std::optional<ItemClass> item_class(torch_room::Dtype dtype) {
    if (dtype == kBool) return ItemClass{&PyBool_Type, {0, 1}};
    if (torch_room::is_floating(dtype)) return ItemClass{&PyFloat_Type, {}};
    if (dtype == kByte) return ItemClass{&PyLong_Type, {0, 255}};
    if (dtype == kChar) return ItemClass{&PyLong_Type, {-128, 127}};
    if (dtype == kShort) return ItemClass{&PyLong_Type, {-32768, 32767}};
    if (dtype == kInt) return ItemClass{&PyLong_Type, {-2147483648LL, 2147483647LL}};
    if (dtype == kLong) return ItemClass{&PyLong_Type, {}};
    return std::nullopt;
}

/// PyTorch raises unless there is one element.
bool has_one_element(Tracer& tracer, const TensorValue* tensor) {
    Dim count = 1;
    for (Dim size : tensor->meta->sizes) count *= size;
    return count.is_unbacked()
               ? tracer.numbers().decided(Op::Equal, count.expression(), tracer.numbers().constant(1)) == true
               : count == 1;
}

Value* as_float(Tracer& tracer, Value* number) {
    return number->type() == &PyFloat_Type
               ? number
               : symbolic::binary(tracer, BinaryOperator::TrueDivide, number, tracer.integer(1));
}

Value* as_int(Tracer& tracer, Value* number) {
    if (number->type() == &PyLong_Type) return number;
    static PyObject* const function = imported("torch", "sym_int");
    if (number->type() != &PyFloat_Type) return nullptr;
    ConstantValue* made =
        tracer.recorder().emit_number(graph::NodeKind::Function, function, Arguments::of(number), &PyLong_Type, {});
    // Of infinities and NaN there is none.
    if (made != nullptr) made->node->may_fail = true;
    return made;
}

}  // namespace

Value* read_number(Tracer& tracer, TensorValue* tensor, std::string_view method) {
    if (!tracer.captures_scalars() || method == "__bool__") return nullptr;
    tracer.realize(tensor);
    auto read = item_class(tensor->meta->dtype);
    if (!read || !has_one_element(tracer, tensor)) return nullptr;
    const bool is_bool = read->type == &PyBool_Type;
    if (is_bool && method != "item") return nullptr;
    Value* number = tracer.recorder().emit_number(graph::NodeKind::Method, interned("item"),
                                                  Arguments::of(static_cast<Value*>(tensor)), read->type, read->range);
    if (number == nullptr || method == "item") return number;
    if (method == "__float__") return as_float(tracer, number);
    // (`__index__` of floats raises.)
    return method == "__int__" || read->type == &PyLong_Type ? as_int(tracer, number) : nullptr;
}

Value* read_list(Tracer& tracer, TensorValue* tensor) {
    if (!tracer.captures_scalars()) return nullptr;
    tracer.realize(tensor);
    if (tensor->meta->sizes.empty()) return read_number(tracer, tensor, "item");
    const Dim size = tensor->meta->sizes[0];
    constexpr std::int64_t kLongest = 1024;
    if (size.is_unbacked() || size.value() > kLongest) return nullptr;
    std::vector<Value*> items;
    for (std::int64_t i = 0; i < size.value(); ++i) {
        TensorValue* part = tracer.recorder().emit_select(tensor, 0, tracer.integer(i));
        items.push_back(read_list(tracer, part));
        if (items.back() == nullptr) return nullptr;
    }
    return make_list(tracer, std::move(items));
}

bool has_data_number(const Arguments& arguments) {
    auto is_keyword = [](const Keyword& keyword) { return symbolic::is_unbacked(keyword.value); };
    return std::ranges::any_of(arguments.positional, symbolic::is_unbacked) ||
           std::ranges::any_of(arguments.keywords, is_keyword);
}

namespace {

/// A call of one of PyTorch's functions, whose parameters have these names.
class DataCall {
  public:
    DataCall(Tracer& tracer, Borrowed<> function, const Arguments& arguments)
        : tracer(tracer), function(function), arguments_(arguments) {}

    /// Null if it is left out.
    Value* argument(std::size_t place, const char* name) const {
        return place < arguments_.positional.size() ? arguments_.positional[place] : arguments_.keyword(name);
    }

    Tracer& tracer;
    const Borrowed<> function;

  private:
    const Arguments& arguments_;
};

const Expression* expression_of(Value* value) {
    return static_cast<ConstantValue*>(value)->expression;
}

bool is_condition(Value* value) {
    return value != nullptr && symbolic::is_unbacked(value) && PyBool_Check(value->object());
}

PyObject* and_function() {
    return operator_function(BinaryOperator::And, /*in_place=*/false);
}

/// From now on the condition holds: the graph raises, or has raised. If it is one of several that are joined by
/// `sym_and`, all of them do.
void learn(Tracer& tracer, const Expression* condition) {
    Expressions& numbers = tracer.numbers();
    if (is_condition(condition->op)) return numbers.learn(*condition);
    // (A bool that was read from a tensor, or such a conjunction.)
    numbers.learn(*numbers.condition(Op::NotEqual, condition, numbers.constant(0)));
    const graph::Node* node = tracer.recorder().number_node(*condition);
    if (node == nullptr || node->target != and_function()) return;
    for (const graph::Argument& part : node->arguments)
        if (part.kind == graph::Argument::Kind::Node && part.node->result.expression != nullptr)
            learn(tracer, part.node->result.expression);
}

/// `torch._check(condition, message)`: the message is that of the program, which runs uncompiled if the check fails.
Value* check(const DataCall& call, Value* condition) {
    if (!is_condition(condition)) return nullptr;
    auto known = symbolic::decided(call.tracer, condition);
    if (known == true) return call.tracer.none();
    static PyObject* const function = imported("torch", "_check");
    call.tracer.recorder().emit_check(function, Arguments::of(condition));
    learn(call.tracer, expression_of(condition));
    return call.tracer.none();
}

Value* check_first(const DataCall& call) {
    return check(call, call.argument(0, "cond"));
}

Value* check_with(const DataCall& call) {
    return check(call, call.argument(1, "cond"));
}

Value* check_size(const DataCall& call) {
    Value *size = call.argument(0, "i"), *most = call.argument(3, "max");
    if (size == nullptr || !symbolic::is_unbacked(size)) return nullptr;
    auto expect = [&](Value* condition) {
        if (condition != nullptr && is_condition(condition)) check(call, condition);
    };
    expect(symbolic::condition(call.tracer, Comparison::GreaterEqual, size, call.tracer.integer(0)));
    if (most != nullptr && most->object() != Py_None)
        expect(symbolic::condition(call.tracer, Comparison::LessEqual, size, most));
    return call.tracer.none();
}

template <bool otherwise>
Value* known_or(const DataCall& call) {
    Value* condition = call.argument(0, "a");
    if (condition == nullptr) condition = call.argument(0, "x");
    if (condition == nullptr) condition = call.argument(0, "expr");
    if (!is_condition(condition)) return nullptr;
    return call.tracer.boolean(symbolic::decided(call.tracer, condition).value_or(otherwise));
}

/// `guard_size_oblivious`: the answer for sizes that are neither 0 nor 1.
Value* known_for_large_sizes(const DataCall& call) {
    Value* condition = call.argument(0, "expr");
    if (!is_condition(condition)) return nullptr;
    if (auto known = symbolic::decided(call.tracer, condition)) return call.tracer.boolean(*known);
    const Expression& question = *expression_of(condition);
    Expressions& numbers = call.tracer.numbers();
    if (auto known = decided_for_large_sizes(numbers, question)) return call.tracer.boolean(*known);
    numbers.ask(question);
}

Value* known_false(const DataCall& call) {
    Value* condition = call.argument(0, "x");
    if (!is_condition(condition)) return nullptr;
    return call.tracer.boolean(symbolic::decided(call.tracer, condition) == false);
}

template <bool greatest>
Value* sym_extreme(const DataCall& call) {
    Value *left = call.argument(0, "a"), *right = call.argument(1, "b");
    return left == nullptr || right == nullptr ? nullptr : symbolic::extreme(call.tracer, greatest, left, right);
}

Value* sym_int(const DataCall& call) {
    Value* number = call.argument(0, "a");
    return number == nullptr ? nullptr : as_int(call.tracer, number);
}

Value* sym_float(const DataCall& call) {
    Value* number = call.argument(0, "a");
    return number == nullptr || PyBool_Check(number->object()) ? nullptr : as_float(call.tracer, number);
}

Value* sym_not(const DataCall& call) {
    Value* condition = call.argument(0, "a");
    return is_condition(condition) ? symbolic::inverted(call.tracer, condition) : nullptr;
}

/// `sym_and(condition, ...)`: a bool that the graph computes, unless the answer is known.
Value* sym_and(const DataCall& call) {
    Value* joined = nullptr;
    for (std::size_t i = 0; Value* condition = call.argument(i, ""); ++i) {
        const bool is_open = is_condition(condition);
        if (!is_open && condition->object() != Py_True && condition->object() != Py_False) return nullptr;
        auto known = is_open ? symbolic::decided(call.tracer, condition) : condition->object() == Py_True;
        if (known == false) return call.tracer.boolean(false);
        if (known == true) continue;
        joined = joined == nullptr
                     ? condition
                     : call.tracer.recorder().emit_number(graph::NodeKind::Function, and_function(),
                                                          Arguments::of(joined, condition), &PyBool_Type, {});
        if (joined == nullptr) return nullptr;
    }
    return joined == nullptr ? call.tracer.boolean(true) : joined;
}

/// `sym_ite(condition, then, otherwise)`.
Value* sym_ite(const DataCall& call) {
    Value *condition = call.argument(0, "b"), *then = call.argument(1, "t"), *otherwise = call.argument(2, "f");
    if (!is_condition(condition) || then == nullptr || otherwise == nullptr) return nullptr;
    if (then->type() != otherwise->type()) return nullptr;
    if (then->type() != &PyLong_Type && then->type() != &PyFloat_Type) return nullptr;
    if (auto known = symbolic::decided(call.tracer, condition)) return *known ? then : otherwise;
    return call.tracer.recorder().emit_number(graph::NodeKind::Function, call.function,
                                              Arguments::of(condition, then, otherwise), then->type(), {});
}

/// `torch._dynamo.override_optimization_hint(x, value)`: the number that compilers optimize for. A compiler makes
/// symbols of its own for numbers that the graph computes, so it runs the call with its symbol.
Value* override_hint(const DataCall& call) {
    Tracer& tracer = call.tracer;
    Value *number = call.argument(0, "x"), *hint = call.argument(1, "val");
    if (number == nullptr || hint == nullptr || !symbolic::is_unbacked(number)) return nullptr;
    tracer.realize(hint);
    const Expression* expression = expression_of(number);
    auto chosen = hint->object() == nullptr ? std::nullopt : Number::of(hint->object());
    if (expression->op != Op::Unbacked || !chosen || chosen->is_float())
        tracer.break_graph(BreakKind::UnknownObject,
                           "override_optimization_hint takes a number that is read from a tensor, and an int; not " +
                               print(*expression) + " and " + hint->print());
    tracer.mark_of(expression).hint_override = chosen->integer();
    if (tracer.run_by() == Tracer::RunBy::Compiler) {
        graph::Node* computed = static_cast<ConstantValue*>(number)->node;
        if (computed == nullptr) computed = tracer.recorder().number_node(*expression);
        const Arguments in_graph = Arguments::of(tracer.make<NodeValue>(computed), hint);
        tracer.recorder().emit_effect(call.function, in_graph)->is_visible_to_program = false;
    }
    return tracer.none();
}

using DataFunction = Value* (*)(const DataCall& call);

/// By module and name, since importing the modules takes long.
DataFunction find_function(Borrowed<> function) {
    static const std::unordered_map<std::string_view, DataFunction> of_torch = {
        {"_check", check_first},
        {"_check_value", check_first},
        {"_check_index", check_first},
        {"_check_type", check_first},
        {"_check_not_implemented", check_first},
        {"_check_with", check_with},
        {"_check_is_size", check_size},
        {"sym_max", sym_extreme<true>},
        {"sym_min", sym_extreme<false>},
        {"sym_int", sym_int},
        {"sym_float", sym_float},
        {"sym_not", sym_not},
        {"sym_ite", sym_ite},
    };
    static const std::unordered_map<std::string_view, DataFunction> of_symbolic_shapes = {
        {"guard_or_true", known_or<true>},
        {"guard_or_false", known_or<false>},
        {"statically_known_true", known_or<false>},
        {"statically_known_false", known_false},
        {"guard_size_oblivious", known_for_large_sizes},
        {"sym_and", sym_and},
    };
    static const std::unordered_map<std::string_view, DataFunction> of_marks = {
        {"override_optimization_hint", override_hint},
    };
    auto* python = reinterpret_cast<PyFunctionObject*>(function.get());
    if (!PyFunction_Check(function.get()) || python->func_module == nullptr || !PyUnicode_Check(python->func_module))
        return nullptr;
    std::string_view module = utf8(python->func_module);
    const auto* functions = module == "torch"                                   ? &of_torch
                            : module == "torch.fx.experimental.symbolic_shapes" ? &of_symbolic_shapes
                            : module == "torch._dynamo.decorators"              ? &of_marks
                                                                                : nullptr;
    if (functions == nullptr) return nullptr;
    auto found = functions->find(utf8(python->func_name));
    return found == functions->end() ? nullptr : found->second;
}

}  // namespace

Value* call_on_data_numbers(Tracer& tracer, Borrowed<> function, const Arguments& arguments) {
    DataFunction known = find_function(function);
    return known == nullptr ? nullptr : known(DataCall(tracer, function, arguments));
}

}  // namespace stator
