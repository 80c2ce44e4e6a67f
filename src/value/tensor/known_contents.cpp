#include "value/tensor/known_contents.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/python_error.h"
#include "base/text.h"
#include "torch/dtypes.h"
#include "torch/tensor.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

using graph::Argument;
using graph::Node;
using graph::NodeKind;

/// Longer computations are not executed while tracing.
constexpr std::size_t kLongest = 16;

/// Names of operations whose result depends on their arguments only: as functions of `torch`, as methods and as
/// operators.
bool only_computes(std::string_view name) {
    static const std::unordered_set<std::string_view> names = {
        "abs",           "add",        "all",          "and_",      "any",    "arange",   "as_tensor",
        "ceil",          "clamp",      "div",          "divide",    "double", "eq",       "exp",
        "float",         "floor",      "floor_divide", "floordiv",  "fmod",   "full",     "ge",
        "getitem",       "gt",         "int",          "le",        "log",    "log2",     "logical_and",
        "logical_not",   "logical_or", "long",         "lt",        "max",    "maximum",  "min",
        "minimum",       "mod",        "mul",          "multiply",  "ne",     "neg",      "ones",
        "or_",           "pow",        "prod",         "remainder", "round",  "rsqrt",    "rsub",
        "scalar_tensor", "sqrt",       "square",       "squeeze",   "sub",    "subtract", "sum",
        "tensor",        "to",         "true_divide",  "truediv",   "trunc",  "zeros",
    };
    return names.contains(name);
}

/// The name of a method, or of a function of `torch` or `operator`; empty for any other node. A user function in the
/// graph can have any name.
std::string operation_of(const Node& node) {
    if (node.kind == NodeKind::Method) return std::string(utf8(node.target));
    if (node.kind != NodeKind::Function || !PyCFunction_Check(node.target)) return {};
    ErrorAside aside;
    Ref<> module = Ref<>::steal(PyObject_GetAttrString(node.target, "__module__"));
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(node.target, "__name__"));
    PyErr_Clear();
    if (!name || !module || !PyUnicode_Check(name.get()) || !PyUnicode_Check(module.get())) return {};
    std::string_view home = utf8(module.get());
    if (home != "torch" && home != "_operator") return {};
    return std::string(utf8(name.get()));
}

bool only_computes(const Node& node) {
    return !node.has_effect && !node.is_visible_to_program && only_computes(operation_of(node));
}

/// Whether anything in the graph may have written to what these nodes gave, or to a view of it.
bool is_written(const graph::Graph& graph, std::unordered_set<const Node*> reached) {
    for (const Node* node : graph.nodes()) {
        bool takes = false;
        for_each_input(*node, [&](const Node* input) { takes = takes || reached.contains(input); });
        if (!takes) continue;
        if (node->has_effect) return true;
        reached.insert(node);
    }
    return false;
}

/// Executes nodes of the graph.
class Computation {
  public:
    explicit Computation(Tracer& tracer) : tracer_(tracer) {}

    /// Collects the nodes that the node is computed from; false if one of them is not computed from constants.
    bool collect(Node* node) {
        if (nodes_.contains(node)) return true;
        if (nodes_.size() == kLongest || !only_computes(*node)) return false;
        if (node->result.kind != graph::Result::Kind::Tensor || !is_small(*node->result.tensor)) return false;
        nodes_.insert(node);
        bool is_known = true;
        for_each_input(*node, [&](Node* input) { is_known = is_known && collect(input); });
        return is_known;
    }

    bool is_written() const { return stator::is_written(tracer_.recorder().graph(), {nodes_.begin(), nodes_.end()}); }

    /// Empty, with no error set, if PyTorch raises.
    Ref<> compute(Node* node) {
        if (auto found = results_.find(node); found != results_.end()) return Ref<>::share(found->second.get());
        std::vector<Ref<>> held;
        std::vector<PyObject*> raw;
        auto take = [&](const Argument& argument) {
            held.push_back(object_of(argument));
            raw.push_back(held.back().get());
            return bool(held.back());
        };
        for (const Argument& argument : node->arguments)
            if (!take(argument)) return {};
        Ref<> names = checked(PyTuple_New(static_cast<Py_ssize_t>(node->keywords.size())));
        for (std::size_t i = 0; i < node->keywords.size(); ++i) {
            if (!take(node->keywords[i].value)) return {};
            PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(node->keywords[i].name));
        }
        std::size_t count = node->arguments.size();
        Ref<> result = Ref<>::steal(node->kind == NodeKind::Method
                                        ? PyObject_VectorcallMethod(node->target, raw.data(), count, names.get())
                                        : PyObject_Vectorcall(node->target, raw.data(), count, names.get()));
        if (!result) {
            PyErr_Clear();
            return {};
        }
        results_.emplace(node, Ref<>::share(result.get()));
        return result;
    }

  private:
    /// A tensor with one or few elements on the CPU; larger ones are not evaluated.
    static bool is_small(const torch_room::TensorMeta& meta) {
        std::int64_t count = 1;
        for (Dim size : meta.sizes) {
            if (!size.is_constant()) return false;
            count *= size.value();
        }
        return count <= 64 && !meta.requires_grad && meta.device.kind == torch_room::DeviceKind{};
    }

    Ref<> object_of(const Argument& argument) {
        switch (argument.kind) {
            case Argument::Kind::Node:
                return compute(argument.node);
            case Argument::Kind::Constant:
                return Ref<>::share(argument.constant);
            case Argument::Kind::Tuple:
            case Argument::Kind::List: {
                if (argument.items->type != nullptr) return {};
                auto size = static_cast<Py_ssize_t>(argument.items->values.size());
                Ref<> list = checked(PyList_New(size));
                for (Py_ssize_t i = 0; i < size; ++i) {
                    Ref<> item = object_of(argument.items->values[static_cast<std::size_t>(i)]);
                    if (!item) return {};
                    PyList_SET_ITEM(list.get(), i, item.release());
                }
                return argument.kind == Argument::Kind::List ? std::move(list) : checked(PyList_AsTuple(list.get()));
            }
            default:
                return {};
        }
    }

    Tracer& tracer_;
    std::unordered_set<Node*> nodes_;
    std::unordered_map<const Node*, Ref<>> results_;
};

bool is_one_number(const graph::Result& result) {
    return result.kind == graph::Result::Kind::Tensor &&
           std::ranges::all_of(result.tensor->sizes, [](Dim size) { return size == 1; });
}

/// `torch.rand` gives no number below 0, so `torch.rand([]) < self.layerdrop` is known where nothing is to be dropped.
std::optional<bool> truth_of_chance(const graph::Graph& graph, const Node& comparison) {
    if (comparison.arguments.size() != 2 || !comparison.keywords.empty() || !is_one_number(comparison.result))
        return std::nullopt;
    const auto& [left, right] = std::tie(comparison.arguments[0], comparison.arguments[1]);
    if (left.kind != Argument::Kind::Node || right.kind != Argument::Kind::Constant) return std::nullopt;
    const Node* chance = left.node;
    if (chance->kind != NodeKind::Function || operation_of(*chance) != "rand" || !is_one_number(chance->result))
        return std::nullopt;
    torch_room::Dtype type = chance->result.tensor->dtype;
    if (type != torch_room::dtype::kFloat && type != torch_room::dtype::kDouble) return std::nullopt;
    if (!PyFloat_CheckExact(right.constant) && !PyLong_CheckExact(right.constant)) return std::nullopt;
    double bound = PyFloat_AsDouble(right.constant);
    if (bound == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return std::nullopt;
    }
    std::string question = operation_of(comparison);
    bool is_below = question == "lt" ? bound <= 0 : question == "le" && bound < 0;
    bool is_above = question == "ge" ? bound <= 0 : question == "gt" && bound < 0;
    if ((!is_below && !is_above) || is_written(graph, {chance, &comparison})) return std::nullopt;
    return is_above;
}

enum class Wants : std::uint8_t { None, All, BehindFirst };

/// Which arguments of an operation are sizes or indices, if they are tensors.
Wants wants_integers(graph::NodeKind kind, Borrowed<> target) {
    static const std::unordered_set<std::string_view> made = {
        "zeros", "ones", "full", "empty", "rand", "randn", "arange", "eye",
    };
    static const std::unordered_set<std::string_view> of_tensor = {
        "view",      "reshape",  "expand",   "repeat",    "tile",  "as_strided", "narrow", "unflatten",    "unfold",
        "new_zeros", "new_ones", "new_full", "new_empty", "split", "chunk",      "roll",   "broadcast_to",
    };
    if (target == getitem_function() || target == setitem_function()) return Wants::BehindFirst;
    Ref<> name;
    if (kind == NodeKind::Method) {
        name = Ref<>::share(target.get());
    } else if (PyCFunction_Check(target.get())) {
        name = Ref<>::steal(PyObject_GetAttrString(target, "__name__"));
        if (!name) PyErr_Clear();
    }
    if (!name || !PyUnicode_Check(name.get())) return Wants::None;
    std::string_view text = utf8(name.get());
    if (kind == NodeKind::Function && made.contains(text)) return Wants::All;
    return of_tensor.contains(text) ? Wants::BehindFirst : Wants::None;
}

bool is_one_integer(const TensorValue* tensor) {
    if (tensor == nullptr || tensor->meta == nullptr) return false;
    return std::ranges::all_of(tensor->meta->sizes, [](Dim size) { return size == 1; }) &&
           torch_room::is_integral(tensor->meta->dtype);
}

/// What a tensor with one integer is replaced by; null to keep it.
using IntegerOf = Value* (*)(Tracer&, TensorValue*);

Value* known_integer(Tracer& tracer, TensorValue* tensor) {
    if (tensor->outside != nullptr) return nullptr;
    Ref<> contents = known_contents(tracer, tensor);
    if (!contents) return nullptr;
    Ref<> number = checked(PyObject_CallMethod(contents.get(), "item", nullptr));
    return PyLong_CheckExact(number.get()) ? tracer.fresh(std::move(number)) : nullptr;
}

Value* read_integer(Tracer& tracer, TensorValue* tensor) {
    return tensor->meta->dtype == torch_room::dtype::kBool ? nullptr : read_number(tracer, tensor, "item");
}

/// The value with tensors replaced by ints; the value itself if there is nothing to replace.
Value* replaced(Tracer& tracer, Value* value, IntegerOf integer_of) {
    if (auto* tensor = cast<TensorValue>(value); is_one_integer(tensor)) {
        Value* number = integer_of(tracer, tensor);
        return number == nullptr ? value : number;
    }
    if (auto* slice = cast<SliceValue>(value)) {
        Value* parts[] = {replaced(tracer, slice->start, integer_of), replaced(tracer, slice->stop, integer_of),
                          replaced(tracer, slice->step, integer_of)};
        if (parts[0] == slice->start && parts[1] == slice->stop && parts[2] == slice->step) return value;
        return tracer.make<SliceValue>(parts[0], parts[1], parts[2]);
    }
    SequenceValue* sequence = as_sequence(value);
    if (sequence == nullptr || (value->kind != Kind::Tuple && value->kind != Kind::List)) return value;
    std::vector<Value*> items;
    bool is_changed = false;
    for (std::size_t i = 0; i < sequence->items.size(); ++i) {
        Value* item = sequence->item(tracer, i);
        items.push_back(replaced(tracer, item, integer_of));
        is_changed = is_changed || items.back() != item;
    }
    if (!is_changed) return value;
    return stator::make_tuple(tracer, std::move(items), &PyTuple_Type);
}

std::optional<Arguments> with_integers(Tracer& tracer, Wants wants, const Arguments& arguments, IntegerOf integer_of) {
    if (wants == Wants::None) return std::nullopt;
    Arguments changed = arguments;
    bool is_changed = false;
    for (std::size_t i = wants == Wants::All ? 0 : 1; i < changed.positional.size(); ++i) {
        changed.positional[i] = replaced(tracer, arguments.positional[i], integer_of);
        is_changed = is_changed || changed.positional[i] != arguments.positional[i];
    }
    for (std::size_t i = 0; i < changed.keywords.size(); ++i) {
        changed.keywords[i].value = replaced(tracer, arguments.keywords[i].value, integer_of);
        is_changed = is_changed || changed.keywords[i].value != arguments.keywords[i].value;
    }
    if (!is_changed) return std::nullopt;
    return changed;
}

}  // namespace

Ref<> known_contents(Tracer& tracer, TensorValue* tensor) {
    if (tensor->outside != nullptr || tensor->node == nullptr || tensor->meta == nullptr) return {};
    Computation computation(tracer);
    if (!computation.collect(tensor->node) || computation.is_written()) return {};
    torch_room::WithModes modes(tracer.modes().current());
    return computation.compute(tensor->node);
}

std::optional<bool> known_truth(Tracer& tracer, TensorValue* tensor) {
    if (Ref<> contents = known_contents(tracer, tensor)) {
        int is_true = PyObject_IsTrue(contents.get());
        if (is_true >= 0) return is_true == 1;
        PyErr_Clear();
    }
    if (tensor->outside != nullptr || tensor->node == nullptr) return std::nullopt;
    return truth_of_chance(tracer.recorder().graph(), *tensor->node);
}

std::optional<Arguments> with_known_integers(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                             const Arguments& arguments) {
    return with_integers(tracer, wants_integers(kind, target), arguments, known_integer);
}

std::optional<Arguments> with_read_sizes(Tracer& tracer, graph::NodeKind kind, Borrowed<> target,
                                         const Arguments& arguments) {
    if (target == getitem_function() || target == setitem_function()) return std::nullopt;
    return with_integers(tracer, wants_integers(kind, target), arguments, read_integer);
}

}  // namespace stator
