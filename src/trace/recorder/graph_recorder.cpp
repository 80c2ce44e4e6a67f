#include "trace/recorder/graph_recorder.h"
#include "shape/answer_by_rule.h"

#include <algorithm>
#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/kinds/array.h"
#include "value/kinds/sequence.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"

namespace stator {

GraphRecorder::GraphRecorder(Tracer& tracer, const CallStack& stack, const Lifetimes& lifetimes,
                             const TraceRequest& request)
    : tracer_(tracer),
      stack_(stack),
      registers_attributes_(request.registers_attributes),
      is_resumed_(request.at.value != 0),
      allows_levels_by_hand_(request.allows_levels_by_hand),
      stop_(request.stop_before),
      locations_(tracer, stack, *graph_),
      rows_(tracer, *graph_),
      writes_(tracer),
      views_(tracer, *this, writes_),
      histories_(tracer, graph_->arena()),
      numbers_(tracer, *this),
      deferred_graphs_(tracer, *this, stack, lifetimes),
      transforms_(tracer),
      data_sizes_{tracer.numbers()} {}

// --- nodes -----------------------------------------------------------------------------------------------------------

Value* GraphRecorder::emit_function(Borrowed<> function, const Arguments& arguments) {
    return emit(graph::NodeKind::Function, function, arguments, any_number(graph::NodeKind::Function, function));
}

Value* GraphRecorder::emit_method(Borrowed<> name, const Arguments& arguments) {
    return emit(graph::NodeKind::Method, name, arguments, any_number(graph::NodeKind::Method, name));
}

TensorValue* GraphRecorder::emit_select(TensorValue* tensor, std::int64_t dimension, Value* index) {
    // Not `torch.select`, which libraries replace (torch_geometric does).
    Arguments arguments = Arguments::of(static_cast<Value*>(tensor), tracer_.integer(dimension), index);
    Value* part = emit(graph::NodeKind::Method, interned("select"), arguments, shape::AnyNumber::IntOrFloat);
    if (part->kind != Kind::Tensor)
        tracer_.break_graph(BreakKind::UnsupportedTensor,
                            "a tensor of class " + type_name(part->type()) + " is indexed by a number that changes");
    return static_cast<TensorValue*>(part);
}

std::vector<Value*> GraphRecorder::emit_rows(TensorValue* base) {
    tracer_.realize(base);
    graph::Node* unbind = deferred_graphs_.is_open() ? nullptr : rows_.begin(base);
    if (unbind != nullptr) locations_.locate(unbind);
    std::vector<Value*> rows;
    const std::int64_t count = base->meta->sizes[0].value();
    for (std::int64_t i = 0; i < count; ++i)
        rows.push_back(emit_function(getitem_function(), Arguments::of(base, tracer_.integer(i))));
    rows_.note(base, unbind, rows);
    for (Value* row : rows) views_.note_row(static_cast<TensorValue*>(row), base);
    return rows;
}

graph::Node* GraphRecorder::emit_effect(Borrowed<> function, const Arguments& arguments) {
    std::vector<graph::KeywordArgument> keywords;
    takes_any_ = shape::AnyNumber::None;
    std::vector<graph::Argument> positional = arguments_of(arguments, &keywords);
    graph::Node* node = graph_->add(graph::NodeKind::Function, function, std::move(positional), std::move(keywords));
    node->has_effect = true;
    node->is_visible_to_program = true;
    locations_.locate(node);
    return node;
}

void GraphRecorder::emit_switch(Borrowed<> function, const Arguments& arguments) {
    const std::size_t first = deferred_graphs_.is_open() ? deferred_graphs_.first_node() : 0;
    for (std::size_t i = graph_->size(); i-- > first;) {
        graph::Node* last = graph_->at(i);
        if (last->kind == graph::NodeKind::Placeholder) continue;
        if (last->target == function.get() && !last->has_effect) continue;  // cancelled before
        if (last->target != function.get() || std::ranges::find(idle_switches_, last) != idle_switches_.end()) break;
        last->has_effect = false;
        tracer_.on_undo([last] { last->has_effect = true; });
        return;
    }
    // If the graph fails, the modes are restored: the program can't observe the switch.
    emit_effect(function, arguments)->is_visible_to_program = false;
}

void GraphRecorder::emit_idle_switch(Borrowed<> function, const Arguments& arguments) {
    graph::Node* node = emit_effect(function, arguments);
    node->is_visible_to_program = false;
    idle_switches_.push_back(node);
    tracer_.on_undo([this] { idle_switches_.pop_back(); });
}

shape::AnyNumber GraphRecorder::any_number(graph::NodeKind kind, Borrowed<> target) const {
    bool has_changing_numbers =
        !deferred_graphs_.runs_later() && !transforms_.has_levels() &&
        (is_resumed_ || tracer_.numbers().has_symbols() || !tracer_.knowledge().changing_numbers.empty());
    if (!has_changing_numbers) return shape::AnyNumber::None;
    if (deferred_graphs_.is_open() && !deferred_graphs_.take_floats()) return shape::AnyNumber::Int;
    // Relations between ints are added by rules and by FakeTensor, as they need them.
    return shape::takes_any_number(kind, target) | shape::AnyNumber::Int;
}

std::vector<graph::Argument> GraphRecorder::arguments_of(const Arguments& arguments,
                                                         std::vector<graph::KeywordArgument>* keywords) {
    tensor_arguments_.clear();
    // (A constant realizes itself if the operation needs its value.)
    auto argument = [this](Value* value) {
        if (value->kind != Kind::Constant) tracer_.realize(value);
        return value->as_argument(tracer_);
    };
    std::vector<graph::Argument> positional;
    positional.reserve(arguments.positional.size());
    for (Value* value : arguments.positional) positional.push_back(argument(value));
    keywords->reserve(arguments.keywords.size());
    for (const Keyword& keyword : arguments.keywords) {
        // The generated code of `torch.fx` can't have it as a keyword; operations that take it have it as the first
        // parameter after `self`.
        const bool is_reserved = PyUnicode_CompareWithASCIIString(keyword.name, "from") == 0;
        if (is_reserved && positional.size() == 1)
            positional.push_back(argument(keyword.value));
        else
            keywords->push_back({keyword.name, argument(keyword.value)});
    }
    if (deferred_graphs_.is_open())
        for (TensorValue* tensor : tensor_arguments_) deferred_graphs_.note_read(tensor);
    return positional;
}

graph::Node* GraphRecorder::add_item(graph::Node* node, std::size_t index, const graph::Result& result) {
    PyObject* position = graph_->arena().keep(checked(PyLong_FromSize_t(index)));
    graph::Node* item = graph_->add(graph::NodeKind::Function, getitem_function(),
                                    {graph::Argument::of(node), graph::Argument::of_constant(position)});
    item->result = result;
    item->location = node->location;
    item->modules = node->modules;
    return item;
}

namespace {

PyCodeObject* code_of_tree_map() {
    static PyObject* const function = imported("torch.utils._pytree", "tree_map");
    return reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
}

/// Whether PyTorch's own code takes a tree apart for `tree_map`. torch._dynamo maps the leaves without that code, whose
/// variables would name them.
bool is_in_tree_map(const CallStack& stack) {
    PyCodeObject* const tree_map = code_of_tree_map();
    for (auto frame = stack.frames.rbegin(); frame != stack.frames.rend(); ++frame) {
        if ((*frame)->is_task) return false;
        PyCodeObject* const code = static_cast<const BytecodeFrame*>(*frame)->function->code;
        if (code == tree_map) return true;
        if (code->co_filename != tree_map->co_filename) return false;
    }
    return false;
}

}  // namespace

void GraphRecorder::name_after(Value* value, Borrowed<> variable) {
    auto* array = cast<ArrayValue>(value);
    auto* object = cast<TensorObjectValue>(value);
    TensorValue* tensor = array != nullptr    ? array->payload
                          : object != nullptr ? object->payload
                                              : cast<TensorValue>(value);
    if (tensor == nullptr || tensor->node == nullptr || tensor->node->kind == graph::NodeKind::Placeholder) return;
    if (!tensor->node->is_named && is_in_tree_map(stack_)) return;
    if (deferred_graphs_.is_open()) deferred_graphs_.note_name(tensor->node, std::string(utf8(variable)));
    graph_->name_after(tensor->node, utf8(variable));
}

void GraphRecorder::expect_no_stop(Borrowed<> target, const char* reason, bool is_recomputed) {
    // (The nodes of deferred graphs are taken out again: their positions mean nothing.)
    if (!stop_ || deferred_graphs_.is_open() || graph_->size() != stop_->serial) return;
    has_stopped_ = target == stop_->target || (is_recomputed && Py_TYPE(target.get()) == Py_TYPE(stop_->target));
    // The interpreter will execute the whole instruction, so the program must not have observed a part of it.
    for (std::size_t i = stack_.start.graph_size; i < graph_->size(); ++i)
        if (graph_->at(i)->is_visible_to_program) has_stopped_ = false;
    tracer_.break_graph(BreakKind::OperationFails, reason);
}

// --- results ---------------------------------------------------------------------------------------------------------

Value* GraphRecorder::value_of(graph::Node* node, const graph::Result& result, std::span<TensorValue* const> tensors) {
    switch (result.kind) {
        case graph::Result::Kind::None:
            return tracer_.none();
        case graph::Result::Kind::Constant:
            return tracer_.fresh(Ref<>::share(result.constant));
        case graph::Result::Kind::Tensor: {
            auto* tensor = tracer_.make<TensorValue>();
            tensor->node = node;
            tensor->meta = result.tensor;
            numbers_.note_sizes(node, *result.tensor);
            return seen_by_program(tracer_, tensor);
        }
        case graph::Result::Kind::Tuple:
        case graph::Result::Kind::List:
            return value_of_items(node, result, tensors);
    }
    return tracer_.none();
}

Value* GraphRecorder::value_of_items(graph::Node* node, const graph::Result& result,
                                     std::span<TensorValue* const> tensors) {
    std::vector<Value*> items;
    for (std::size_t i = 0; i < result.items.size(); ++i) {
        const graph::Result& part = result.items[i];
        if (part.same_as_argument >= 0)
            items.push_back(tensors[static_cast<std::size_t>(part.same_as_argument)]);
        else if (part.kind == graph::Result::Kind::Constant || part.kind == graph::Result::Kind::None)
            items.push_back(value_of(node, part, tensors));
        else
            items.push_back(value_of(add_item(node, i, part), part, tensors));
    }
    if (result.kind == graph::Result::Kind::List) return make_list(tracer_, std::move(items));
    return stator::make_tuple(tracer_, std::move(items), result.type != nullptr ? result.type : &PyTuple_Type);
}

namespace {

/// The tensor in the graph; null for anything else.
TensorValue* tensor_of(Value* value) {
    auto* object = cast<TensorObjectValue>(value);
    return object != nullptr ? object->payload : cast<TensorValue>(value);
}

}  // namespace

void GraphRecorder::note_view(Value* view, TensorValue* base, const graph::Node& maker) {
    if (auto* tensor = tensor_of(view)) {
        tensor->view_of = base;
        tensor->node->memory = memory_of(base->node);
        histories_.note_view(tensor, maker);
        if (!tracer_.modes().current().grad && !tensor->is_detached) tensor->refuses_writes = true;
        views_.note_view(tensor, base);
        rows_.note_part(base->node, tensor->node);
    } else if (SequenceValue* several = as_sequence(view)) {
        for (Value* item : several->items) {
            note_view(item, base, maker);
            auto* tensor = tensor_of(item);
            if (tensor == nullptr) continue;
            tensor->refuses_writes = true;
            views_.note_view(tensor, base);
        }
    }
}

// --- inputs ----------------------------------------------------------------------------------------------------------

bool GraphRecorder::is_drawn(const graph::Node* node) const {
    return std::ranges::any_of(draws_, [&](const RecordedDraw& drawn) {
        return drawn.placeholder == node ||
               (node->arguments.size() == 1 && node->arguments[0].kind == graph::Argument::Kind::Node &&
                node->arguments[0].node == drawn.placeholder);
    });
}

graph::Node* GraphRecorder::add_placeholder(Source* source) {
    graph::Node* node = graph_->add(graph::NodeKind::Placeholder, nullptr, {});
    node->path = path_text(*source, *graph_->texts());
    node->modules = locations_.modules();
    inputs_.push_back(source);
    input_nodes_.push_back(node);
    tracer_.on_undo([this] {
        inputs_.pop_back();
        input_nodes_.pop_back();
    });
    return node;
}

namespace {

bool is_module(const Source& source) {
    return PyObject_TypeCheck(source.object, torch_room::known().module_class);
}

/// `Node.meta` of an input whose memory does not move, as torch._dynamo sets it: CUDA graphs use it where it is.
/// Unguarded ones may move all the same, and are then recorded again.
PyObject* meta_of_static(bool is_guarded) {
    auto make = [](const char* type) {
        return checked(Py_BuildValue("{s{ss}}", "tensor_dict", "_dynamo_static_input_type", type)).release();
    };
    static PyObject* const guarded = make("guarded");
    static PyObject* const unguarded = make("unguarded");
    return is_guarded ? guarded : unguarded;
}

/// What `torch._dynamo.mark_static_address` has noted on the tensor: "guarded", "unguarded" or nothing.
std::string_view static_address_type(PyObject* tensor) {
    PyObject* attributes = cpython::instance_dict_if_made(tensor);
    if (attributes == nullptr || PyDict_GET_SIZE(attributes) == 0) return {};
    PyObject* type = PyDict_GetItemWithError(attributes, interned("_dynamo_static_input_type"));
    if (type == nullptr || !PyUnicode_Check(type)) return {};
    return utf8(type);
}

/// An attribute of a module that is neither a parameter nor a buffer.
bool is_plain_attribute(const Source& source) {
    return source.access == Access::DictItem && source.parent->access == Access::InstanceDict &&
           is_module(*source.parent->parent);
}

/// A parameter or a part of the state of an optimizer. (A gradient belongs to its parameter.)
bool is_of_optimizer(const Source& source) {
    static PyTypeObject* const optimizer = imported_class("torch.optim", "Optimizer");
    for (const Source* holder = source.parent; holder != nullptr; holder = holder->parent) {
        if (holder->object == nullptr) continue;
        if (torch_room::is_tensor(holder->object)) return false;
        if (PyObject_TypeCheck(holder->object, optimizer)) return true;
    }
    return false;
}

}  // namespace

graph::Node* GraphRecorder::add_attribute(TensorValue* tensor) {
    // The graph module holds the tensor itself: another tensor needs another graph.
    tracer_.guard({GuardKind::Identity, tensor->source, tensor->outside});
    std::string wanted = identifier(*path_text(*tensor->source, *graph_->texts()));
    while (!wanted.empty() && wanted.back() == '_') wanted.pop_back();
    std::string name = attribute_names_.create(wanted);
    Ref<> target = checked(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    graph::Node* node = graph_->add(graph::NodeKind::Attribute, target.get(), {});
    locations_.locate(node);
    attributes_.push_back({name, Ref<>::share(tensor->outside)});
    tracer_.on_undo([this] { attributes_.pop_back(); });
    return node;
}

graph::Node* GraphRecorder::add_input(TensorValue* tensor) {
    const Source& source = *tensor->source;
    // (The graph gets a view of a tensor of a subclass.)
    bool is_attribute = registers_attributes_ && is_parameter_or_buffer(source) && !tensor->is_of_object;
    graph::Node* node = is_attribute ? add_attribute(tensor) : add_placeholder(tensor->source);
    const std::string_view marked = static_address_type(tensor->outside);
    if (marked == "guarded") tracer_.guard({GuardKind::Identity, tensor->source, tensor->outside});
    if (!marked.empty() || is_parameter_or_buffer(source) || is_plain_attribute(source) || is_of_optimizer(source))
        node->extra_meta = meta_of_static(marked == "guarded");
    node->result.kind = graph::Result::Kind::Tensor;
    node->result.tensor = graph_->arena().make<torch_room::TensorMeta>(*tensor->meta);
    if (PyObject* prototype = tensor->meta->prototype) graph_->arena().keep(Ref<>::share(prototype));
    expect_one_kind_of_wrappers(node->result);
    numbers_.note_sizes(node, *tensor->meta);
    histories_.note_input(tensor);
    return node;
}

void GraphRecorder::move_to(Trace& trace) {
    trace.refuses_levels_by_hand = refuses_levels_by_hand_;
    std::unordered_map<const graph::Node*, Source*> sources;
    for (std::size_t i = 0; i < inputs_.size(); ++i) sources.emplace(input_nodes_[i], inputs_[i]);
    for (graph::Node* node : graph_->nodes()) {
        if (!graph_->is_finished()) break;  // nothing was captured
        if (node->kind != graph::NodeKind::Placeholder) break;
        trace.inputs.push_back(sources.at(node));
    }
    for (std::size_t i = 0; i < trace.inputs.size(); ++i)
        if (std::ranges::find(writes_.inputs(), trace.inputs[i], &TensorValue::source) != writes_.inputs().end())
            trace.written.push_back(i);
    // A compiler does not know that a wrapper shares memory with the tensors that it consists of.
    const bool has_wrapper = std::ranges::any_of(input_nodes_, [](const graph::Node* node) {
        return node->result.kind == graph::Result::Kind::Tensor && node->result.tensor->prototype != nullptr;
    });
    if (has_wrapper && !trace.written.empty()) keep_as_captured();
    for (const auto& [placeholder, draw] : draws_) {
        if (!graph_->is_finished()) break;
        auto share = [](PyObject* object) { return object == nullptr ? Ref<>() : Ref<>::share(object); };
        trace.draws.push_back({placeholder->index, share(draw.method), share(draw.arguments), share(draw.keywords)});
    }
    trace.graph = std::move(graph_);
    trace.attributes = std::move(attributes_);
    trace.is_kept_as_captured = is_kept_as_captured_;
    trace.has_stopped = has_stopped_;
    trace.shape_ticks = shape_ticks_;
    trace.node_ticks = locations_.take_ticks();
}

}  // namespace stator
