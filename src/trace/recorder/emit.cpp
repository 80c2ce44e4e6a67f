/// How an operation of the program becomes a node of the graph.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "shape/compliance.h"
#include "shape/infer.h"
#include "shape/number_arguments.h"
#include "shape/store.h"
#include "torch/dtypes.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/usual_modes.h"
#include "trace/injected_error.h"
#include "trace/recorder/graph_recorder.h"
#include "trace/writes/write_checks.h"
#include "value/builtins/numpy.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/jagged_tensors.h"
#include "value/tensor/known_contents.h"
#include "value/tensor/leaves.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"

namespace stator {

/// An operation on its way into the graph.
struct GraphRecorder::Operation {
    graph::NodeKind kind;
    Borrowed<> target;
    const Arguments& arguments;
    shape::AnyNumber takes_any;
    std::vector<TensorValue*> tensors = {};  // its tensor arguments, numbered by first appearance
    graph::Node* node = nullptr;
    const shape::Answer* answer = nullptr;
    bool is_recorded = false;     // by autograd
    bool is_transformed = false;  // by a function transform

    TensorValue* tensor(int argument) const { return tensors.at(static_cast<std::size_t>(argument)); }
    bool is_from_outside(int argument) const { return base_of(tensor(argument))->source != nullptr; }
};

namespace {

/// Removes the nodes that were added in its scope, unless `keep` was called.
class NodeRollback {
  public:
    explicit NodeRollback(graph::Graph& graph) : graph_(&graph), size_(graph.size()) {}
    ~NodeRollback() { roll_back(); }
    NodeRollback(const NodeRollback&) = delete;
    NodeRollback& operator=(const NodeRollback&) = delete;

    void keep() { graph_ = nullptr; }
    void roll_back() {
        if (graph_ != nullptr) graph_->truncate(size_);
        graph_ = nullptr;
    }

  private:
    graph::Graph* graph_;
    std::size_t size_;
};

/// While it lives, the nodes of these tensors have the metadata that the tensors have now: an assignment to items, or a
/// write through a view, may have given them a history.
class WithCurrentMetadata {
  public:
    explicit WithCurrentMetadata(const std::vector<TensorValue*>& tensors) {
        for (const TensorValue* tensor : tensors) {
            const torch_room::TensorMeta* made = tensor->node->result.tensor;
            if (made == nullptr || made == tensor->meta || made->requires_grad == tensor->meta->requires_grad) continue;
            before_.emplace_back(tensor->node, made);
            tensor->node->result.tensor = tensor->meta;
        }
    }
    ~WithCurrentMetadata() {
        for (auto [node, meta] : before_) node->result.tensor = meta;
    }
    WithCurrentMetadata(const WithCurrentMetadata&) = delete;
    WithCurrentMetadata& operator=(const WithCurrentMetadata&) = delete;

  private:
    std::vector<std::pair<graph::Node*, const torch_room::TensorMeta*>> before_;
};

bool is_empty(const torch_room::TensorMeta& meta) {
    return std::ranges::any_of(meta.sizes, [](Dim size) { return size == 0; });
}

/// Whether an operation makes a new leaf of autograd's graph. The program may read its gradient, but backends would
/// treat it as a result with a history.
bool makes_leaf(const graph::Result& result) {
    if (result.kind == graph::Result::Kind::Tensor)
        return result.same_as_argument < 0 && result.tensor->requires_grad && result.tensor->is_leaf;
    return std::ranges::any_of(result.items, makes_leaf);
}

/// Operations that convert data to a tensor: to these a numpy scalar has a dtype.
bool takes_dtype_from_numpy(graph::NodeKind kind, Borrowed<> target) {
    if (kind == graph::NodeKind::Method)
        return PyUnicode_Check(target.get()) && PyUnicode_CompareWithASCIIString(target.get(), "new_tensor") == 0;
    static const auto takers = [] {
        std::vector<Ref<>> found;
        Ref<> torch = checked(PyImport_ImportModule("torch"));
        for (const char* name : {"tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy"})
            found.push_back(checked(PyObject_GetAttrString(torch.get(), name)));
        return new std::vector<Ref<>>(std::move(found));
    }();
    return std::ranges::any_of(*takers, [&](const Ref<>& taker) { return taker.get() == target.get(); });
}

/// Operators that raise for no number. (`//` and `%` raise for 0.)
bool takes_all_numbers(const graph::Node& node) {
    static const auto operators = [] {
        auto* found = new std::unordered_set<PyObject*>;
        for (const char* name : {"add", "sub", "mul", "truediv", "and_", "or_",  "xor",      "lt",   "le",  "eq",
                                 "ne",  "gt",  "ge",  "iadd",    "isub", "imul", "itruediv", "iand", "ior", "ixor"})
            found->insert(imported("_operator", name));
        return found;
    }();
    return node.kind == graph::NodeKind::Function && operators->contains(node.target);
}

/// PyTorch raises for some numbers: a negative size, an index out of bounds.
bool takes_unbacked_number(const graph::Node& node) {
    if (takes_all_numbers(node)) return false;
    bool takes = false;
    graph::for_each_input(node, [&](const graph::Node* input) {
        const Expression* number = input->result.expression;
        takes = takes || (number != nullptr && number->is_unbacked);
    });
    return takes;
}

/// An operation that takes a class takes it for a dtype: `float` for `torch.float64`. Generated code can name a dtype,
/// but not a class.
void name_dtype(graph::Argument& argument) {
    if (argument.kind != graph::Argument::Kind::Constant || !PyType_Check(argument.constant)) return;
    for (auto [type, dtype] :
         {std::pair{&PyBool_Type, torch_room::dtype::kBool}, std::pair{&PyLong_Type, torch_room::dtype::kLong},
          std::pair{&PyFloat_Type, torch_room::dtype::kDouble}})
        if (argument.constant == reinterpret_cast<PyObject*>(type))
            argument = graph::Argument::of_constant(torch_room::dtype_object(dtype).get());
}

std::vector<TensorValue*> numbered(const std::vector<TensorValue*>& arguments) {
    std::vector<TensorValue*> tensors;
    for (TensorValue* tensor : arguments)
        if (std::ranges::find(tensors, tensor->node, &TensorValue::node) == tensors.end()) tensors.push_back(tensor);
    return tensors;
}

}  // namespace

Value* GraphRecorder::emit(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments,
                           shape::AnyNumber takes_any) {
    Operation operation{kind, target, arguments, takes_any};
    std::vector<graph::KeywordArgument> keywords;
    for (NestedIntValue* size : nested_ints(tracer_, arguments)) add_node(size);
    std::vector<graph::Argument> positional = take_arguments(operation, &keywords);
    STATOR_CHECK(graph_->size() != failing_node, "an injected error");
    // An operation that a mode sees comes here from its `__torch_function__`, when that mode is not on the stack.
    if (modes_see_operators(tracer_))
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "an operation of which Stator does not know whether a torch function mode sees it");
    expect_no_stop(target, "an operation that failed in an earlier run of the captured graph");
    views_.expect_no_detached_view(kind, target, operation.tensors);
    views_.check_arguments(operation.tensors);
    NodeRollback added(*graph_);
    operation.node = graph_->add(kind, target, std::move(positional), std::move(keywords));
    tracer_.numbers().take_doubts();
    operation.answer = &infer(operation);
    emit_requirements(operation);
    if (operation.answer->status != shape::Status::Ok) {
        added.roll_back();
        return emit_with_known_integers(operation);
    }
    if (operation.answer->mutates()) check_mutations(operation);
    if (!operation.answer->is_view() && makes_leaf(operation.answer->result))
        expect_leaf_is_kept(tracer_, "an operation creates a leaf tensor with requires_grad=True");
    added.keep();
    if (kind == graph::NodeKind::Method || PyCFunction_Check(target.get())) {
        for (graph::Argument& argument : operation.node->arguments) name_dtype(argument);
        for (graph::KeywordArgument& keyword : operation.node->keywords) name_dtype(keyword.value);
    }
    describe_node(operation);
    expect_one_kind_of_wrappers(operation.node->result);
    Value* result = result_of(operation);
    return operation.is_transformed ? transforms_.note_result(result) : result;
}

std::vector<graph::Argument> GraphRecorder::take_arguments(Operation& operation,
                                                           std::vector<graph::KeywordArgument>* keywords) {
    const graph::NodeKind kind = operation.kind;
    const Borrowed<> target = operation.target;
    const Arguments& arguments = operation.arguments;
    takes_any_ = operation.takes_any;
    if (takes_dtype_from_numpy(kind, target)) {
        for (Value* value : arguments.positional) expect_no_numpy_number(tracer_, value);
        for (const Keyword& keyword : arguments.keywords) expect_no_numpy_number(tracer_, keyword.value);
    }
    if (takes_any_ != shape::AnyNumber::None) numbers_.set_float_use(kind, target, arguments);
    std::vector<graph::Argument> positional = arguments_of(arguments, keywords);
    operation.tensors = numbered(tensor_arguments_);
    operation.is_transformed = transforms_.concern(operation.tensors);
    operation.is_recorded =
        tracer_.modes().current().grad &&
        std::ranges::any_of(operation.tensors, [](TensorValue* one) { return one->meta->requires_grad; });
    return positional;
}

/// The ragged size of a tensor as an argument of later nodes.
void GraphRecorder::add_node(NestedIntValue* size) {
    if (size->node != nullptr) return;
    const graph::Argument tensor = size->of->as_argument(tracer_);
    tensor_arguments_.clear();
    PyObject* const dimension = graph_->arena().keep(size->dimension->as_constant(tracer_));
    graph::Node* node =
        graph_->add(graph::NodeKind::Method, interned("size"), {tensor, graph::Argument::of_constant(dimension)});
    locations_.locate(node);
    node->result.kind = graph::Result::Kind::Constant;
    node->result.constant = graph_->arena().keep(torch_room::nested_int_object(size->size));
    set_undoably(tracer_, size->node, node);
}

/// A graph runs with the `__torch_function__` of jagged tensors, and without those of other wrappers, which are traced.
void GraphRecorder::expect_one_kind_of_wrappers(const graph::Result& result) {
    for (const graph::Result& item : result.items) expect_one_kind_of_wrappers(item);
    if (result.kind != graph::Result::Kind::Tensor || result.tensor->prototype == nullptr) return;
    (torch_room::is_jagged(*result.tensor) ? has_jagged_ : has_other_wrappers_) = true;
    if (has_jagged_ && has_other_wrappers_)
        tracer_.break_graph(BreakKind::UnsupportedTensor, "nested tensors are used beside tensors of other subclasses");
}

const shape::Answer& GraphRecorder::infer(const Operation& operation) {
    try {
        TimedScope timed(shape_ticks_);
        // Mostly the program has changed no mode, and the thread has those with which the trace began.
        const torch_room::Modes& now = tracer_.modes().current();
        std::optional<torch_room::WithModes> modes;
        const bool are_on = now == tracer_.modes().at_entry() && torch_room::are_on_without_autocast(now);
        if (!are_on) modes.emplace(now);
        WithCurrentMetadata current(operation.tensors);
        const graph::Node& node = *operation.node;
        if (operation.is_transformed) return transforms_.infer(graph_->arena(), node, operation.tensors);
        shape::Question question{node.kind, node.target, node.arguments, node.keywords};
        if (std::string reason = shape::reason_to_refuse(question); !reason.empty())
            tracer_.break_graph(BreakKind::UnsupportedTensor, std::move(reason));
        data_sizes_.are_captured = tracer_.captures_data_sizes() && !deferred_graphs_.is_open();
        question.data_sizes = &data_sizes_;
        question.ragged_sources = ragged_sources(tracer_, operation.target, operation.arguments);
        if (tracer_.numbers().has_symbols()) {
            if (!dynamic_answers_) dynamic_answers_ = std::make_shared<shape::Store>();
            question.dynamic_answers = &dynamic_answers_;
        }
        return shape::infer(graph_->arena(), question);
    } catch (const PythonError&) {
        break_at_rejected_operation(operation.tensors);
    }
}

void GraphRecorder::break_at_rejected_operation(std::span<TensorValue* const> tensors) {
    TakenError error = TakenError::take();
    for (TensorValue* tensor : tensors) expect_no_row(tensor);
    Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
    PyErr_Clear();
    // The message may differ from that of the real operation, so the program has to execute it.
    tracer_.break_graph(BreakKind::OperationFails, "an operation raises " +
                                                       type_name(Py_TYPE(error.exception().get())) + ": " +
                                                       std::string(text ? utf8(text.get()) : "?"));
}

Ref<> GraphRecorder::call_in_transform(const graph::Node& node) {
    try {
        torch_room::WithModes modes(tracer_.modes().current());
        return transforms_.call(node, tensor_arguments_);
    } catch (const PythonError&) {
        break_at_rejected_operation(tensor_arguments_);
    }
}

namespace {

bool loads_decompositions(Borrowed<> function) {
    // Never released: statics are destroyed after Python has ended.
    static PyObject* const of_vmap =
        find_imported("torch._functorch.predispatch", "lazy_load_decompositions").release();
    static PyObject* const of_jvp = find_imported("torch.autograd.forward_ad", "_maybe_load_decompositions").release();
    return function.get() == of_vmap || function.get() == of_jvp;
}

}  // namespace

Value* GraphRecorder::emit_transform(Borrowed<> function, const Arguments& arguments) {
    if (!is_in_transform()) {
        if (!allows_levels_by_hand_) {
            refuses_levels_by_hand_ = true;
            tracer_.break_graph(BreakKind::UnsupportedTensor,
                                "a function that changes the state of torch.func is called outside of its transforms");
        }
        transforms_.begin_by_hand();
    }
    graph::Node* node = emit_effect(function, arguments);
    if (!loads_decompositions(function)) node->location = nullptr;  // as torch._dynamo does
    // If the graph fails, the state is restored: the program can't observe that the node has run.
    node->is_visible_to_program = false;
    Ref<> result = call_in_transform(*node);
    transforms_.end_by_hand_if_left();
    return tracer_.fresh(std::move(result));
}

Value* GraphRecorder::ask_transform(Borrowed<> function, const Arguments& arguments) {
    NodeRollback added(*graph_);
    return tracer_.fresh(call_in_transform(*emit_effect(function, arguments)));
}

/// Emits the checks that the operation needs, before its node. If one of them fails, the program runs uncompiled.
void GraphRecorder::emit_requirements(Operation& operation) {
    const std::vector<const Expression*> needed = tracer_.numbers().take_requirements();
    if (needed.empty()) return;
    std::vector<graph::Argument> positional = operation.node->arguments;
    std::vector<graph::KeywordArgument> keywords = operation.node->keywords;
    graph_->truncate(operation.node->index);
    static PyObject* const check = imported("torch", "_check");
    for (const Expression* condition : needed) emit_check(check, Arguments::of(symbolic::value_of(tracer_, condition)));
    operation.node = graph_->add(operation.kind, operation.target, std::move(positional), std::move(keywords));
}

namespace {

bool is_floating_tensor(Value* value) {
    auto* tensor = cast<TensorValue>(value);
    return tensor != nullptr && torch_room::is_floating(tensor->meta->dtype);
}

/// Which argument of `torch._foreach_mul(tensors, factor)`, `torch._foreach_pow(base, tensors)` or the like is one
/// number for all, in a tensor, if the results have the dtypes of the tensors; -1 if none is.
int number_for_all(Tracer& tracer, Borrowed<> target, const Arguments& arguments) {
    if (!PyCFunction_Check(target.get())) return -1;
    Ref<> name = checked(PyObject_GetAttrString(target, "__name__"));
    if (!utf8(name).starts_with("_foreach_")) return -1;
    int found = -1;
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
        Value* argument = arguments.positional[i];
        if (SequenceValue* tensors = as_sequence(argument)) {
            if (!std::ranges::all_of(tensors->all(tracer), is_floating_tensor)) return -1;
            continue;
        }
        const bool is_number = is_floating_tensor(argument) && cast<TensorValue>(argument)->meta->sizes.empty();
        if (!is_number || found >= 0) return -1;
        found = static_cast<int>(i);
    }
    return found;
}

/// The arguments of an operation with the numbers of tensors that are given as `value=`, `alpha=` or `beta=`, or as the
/// number of a `foreach` operation: PyTorch would read them. Empty if there is none, or where numbers are not captured.
std::optional<Arguments> with_read_factors(Tracer& tracer, Borrowed<> target, const Arguments& arguments) {
    Arguments changed = arguments;
    bool is_changed = false;
    auto read = [&](Value*& value) {
        auto* tensor = cast<TensorValue>(value);
        if (tensor == nullptr) return true;
        Value* number = read_number(tracer, tensor, "item");
        if (number == nullptr) return false;
        value = number;
        return is_changed = true;
    };
    for (Keyword& keyword : changed.keywords) {
        const std::string_view name = utf8(keyword.name);
        if ((name == "value" || name == "alpha" || name == "beta") && !read(keyword.value)) return std::nullopt;
    }
    const int number = number_for_all(tracer, target, arguments);
    if (number >= 0 && !read(changed.positional[static_cast<std::size_t>(number)])) return std::nullopt;
    return is_changed ? std::optional(std::move(changed)) : std::nullopt;
}

}  // namespace

/// Emits an operation whose result depends on the contents of tensors, if those are known. Breaks the graph otherwise.
Value* GraphRecorder::emit_with_known_integers(const Operation& operation) {
    const bool is_data_dependent = operation.answer->status == shape::Status::DataDependent;
    if (is_data_dependent)
        if (auto known = with_known_integers(tracer_, operation.kind, operation.target, operation.arguments))
            return emit(operation.kind, operation.target, *known, operation.takes_any);
    if (is_data_dependent)
        if (auto read = with_read_factors(tracer_, operation.target, operation.arguments))
            return emit(operation.kind, operation.target, *read, shape::AnyNumber::IntOrFloat);
    if (is_data_dependent)
        if (auto read = with_read_sizes(tracer_, operation.kind, operation.target, operation.arguments))
            return emit(operation.kind, operation.target, *read, operation.takes_any | shape::AnyNumber::Int);
    tracer_.break_graph(is_data_dependent ? BreakKind::DataDependent : BreakKind::UnsupportedTensor,
                        operation.answer->reason);
}

void GraphRecorder::check_mutations(const Operation& operation) {
    // (An assignment to items writes to a part of the tensor, mostly the one that the value was computed from.)
    if (operation.target.get() != setitem_function())
        for (int written : operation.answer->written)
            for (TensorValue* other : operation.tensors)
                expect_no_partial_overlap(tracer_, operation.tensor(written), other);
    for (int written : operation.answer->written) {
        TensorValue* tensor = operation.tensor(written);
        if (operation.is_recorded) expect_no_row(tensor);  // autograd refuses it: the rows are views of one `unbind`
        deferred_graphs_.expect_own(tensor, DeferredGraphs::Writes::Data);
        expect_no_subclass(tracer_, tensor);
        deferred_graphs_.expect_not_recomputed(tensor);
        expect_writable(tracer_, views_, tensor, operation.is_recorded);
    }
    for (const shape::MetadataChange& change : operation.answer->changed_metadata) {
        const TensorValue* tensor = operation.tensor(change.argument);
        deferred_graphs_.expect_own(tensor, DeferredGraphs::Writes::Anything);
        expect_no_subclass(tracer_, tensor);
        // (A transform wraps its inputs anew, and they are no views inside of its level.)
        if (tensor->meta->requires_grad != change.meta->requires_grad && change.meta->is_leaf &&
            !transforms_.has_levels() && histories_.has_views(tensor))
            tracer_.break_graph(BreakKind::UnsupportedTensor, "requires_grad of a tensor that has views is changed");
        bool has_out = operation.arguments.keyword("out") != nullptr;
        if (has_out && tensor->meta->sizes != change.meta->sizes && !is_empty(*tensor->meta))
            tracer_.break_graph(BreakKind::OperationFails, "an operation resizes its out= tensor");
    }
}

/// Sets the result, the flags and the location of the node, and the metadata that its arguments have after it.
void GraphRecorder::describe_node(const Operation& operation) {
    const shape::Answer& answer = *operation.answer;
    graph::Node* node = operation.node;
    auto is_outside = [&](int argument) { return operation.is_from_outside(argument); };
    node->result = answer.result;
    node->has_effect = answer.has_effect();
    node->is_random = answer.random;
    const bool may_fail_on_numbers = tracer_.numbers().take_doubts() || takes_unbacked_number(*node);
    if (may_fail_on_numbers) expect_run_by_stator();
    node->may_fail = answer.may_fail || may_fail_on_numbers;
    for (int argument : answer.written) forget_numbers_of(operation.tensor(argument));
    for (const shape::MetadataChange& change : answer.changed_metadata)
        forget_numbers_of(operation.tensor(change.argument));
    // (The metadata of a wrapper are its own, whatever it wraps.)
    auto changes_outside = [&](int argument) {
        return is_outside(argument) && !is_wrapped(operation.tensor(argument));
    };
    bool is_lasting = answer.side_effect ||
                      std::ranges::any_of(answer.changed_metadata, changes_outside, &shape::MetadataChange::argument);
    node->is_visible_to_program = answer.random || is_lasting || std::ranges::any_of(answer.written, is_outside);
    for (int argument : answer.written) {
        writes_.note(operation.tensor(argument), operation.is_recorded);
        views_.note_write(operation.tensor(argument));
    }
    note_lasting(node, is_lasting);
    locations_.locate(node);
    for (const shape::MetadataChange& change : answer.changed_metadata) {
        TensorValue* changed = operation.tensor(change.argument);
        const bool gets_history = !changed->meta->requires_grad && change.meta->requires_grad && !change.meta->is_leaf;
        tracer_.on_undo([changed, before = changed->meta] { changed->meta = before; });
        changed->meta = change.meta;
        if (gets_history) histories_.note_history(changed);
    }
}

Value* GraphRecorder::result_of(const Operation& operation) {
    const shape::Answer& answer = *operation.answer;
    if (int same = answer.result.same_as_argument; same >= 0)
        return returned_argument(operation, operation.tensor(same));
    Value* value = value_of(operation.node, operation.node->result, operation.tensors);
    if (answer.view_of >= 0) note_view(value, operation.tensor(answer.view_of), *operation.node);
    if (SequenceValue* several = answer.views_of.empty() ? nullptr : as_sequence(value))
        for (std::size_t i = 0; i < several->items.size(); ++i)
            if (int base = answer.views_of[i]; base >= 0)
                note_view(several->items[i], operation.tensor(base), *operation.node);
    return value;
}

/// The operation returns its argument itself. To the program it is the same object; from now on it is known by the
/// newer node.
Value* GraphRecorder::returned_argument(const Operation& operation, TensorValue* tensor) {
    // (A deferred graph has not written to it: after the deferred graph it is known by the older node.)
    if (deferred_graphs_.is_open() && deferred_graphs_.predates(tensor->node)) return tensor;
    tracer_.on_undo([tensor, node = tensor->node, meta = tensor->meta] {
        tensor->node = node;
        tensor->meta = meta;
    });
    operation.node->memory = memory_of(tensor->node);
    views_.note_same_view(tensor->node, operation.node);
    rows_.note_part(tensor->node, operation.node);
    tensor->node = operation.node;
    tensor->meta = operation.answer->result.tensor;
    return tensor;
}

}  // namespace stator
