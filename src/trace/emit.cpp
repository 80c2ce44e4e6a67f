/// Operations of the program becoming nodes of the graph, and the end of a trace.
#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "shape/infer.h"
#include "shape/number_arguments.h"
#include "torch/kept_state.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "trace/injected_error.h"
#include "trace/interpreter.h"
#include "value/builtins/numpy.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/tensor/known_contents.h"
#include "value/tensor/tensor.h"

namespace stator {

const graph::Location* Interpreter::current_location() {
    // A frame that waits stays at its line, and so do all below it: only those above a known one are to be done.
    std::size_t first = frames_.size();
    const graph::Location* outer = nullptr;
    while (first > 0) {
        if (!frames_[first - 1]->is_task) {
            auto& frame = static_cast<BytecodeFrame&>(*frames_[first - 1]);
            if (frame.location != nullptr && frame.location->line == frame.line()) {
                outer = frame.location;
                break;
            }
            if (frame.location != nullptr) {
                outer = frame.location->caller;
                --first;
                break;
            }
        }
        --first;
    }
    for (; first < frames_.size(); ++first) {
        if (frames_[first]->is_task) continue;
        auto& frame = static_cast<BytecodeFrame&>(*frames_[first]);
        if (frame.location != nullptr && frame.location->line == frame.line()) continue;
        PyCodeObject* code = graph_->arena().keep(Ref<PyCodeObject>::share(frame.function->code));
        frame.location = graph_->arena().make<graph::Location>(code, frame.line(), outer);
        outer = frame.location;
    }
    return outer;
}

const graph::ModulePath* Interpreter::current_modules() const {
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame)
        if (!(*frame)->is_task) return static_cast<BytecodeFrame*>(*frame)->modules;
    return nullptr;
}

const graph::ModulePath* Interpreter::modules_for(FunctionValue* function, const Arguments& arguments) {
    const graph::ModulePath* around = current_modules();
    if (function->outside == nullptr || function->outside != torch_room::known().module_call) return around;
    Value* module = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (module == nullptr || module->source == nullptr) return around;
    int earlier = module_calls_[module->source]++;
    on_undo([this, source = module->source] { --module_calls_[source]; });
    PyTypeObject* type = graph_->arena().keep(Ref<PyTypeObject>::share(module->type()));
    return graph_->arena().make<graph::ModulePath>(path_text(*module->source, *graph_->texts()), type, around,
                                                   module->object(), earlier);
}

std::vector<graph::Argument> Interpreter::arguments_of(const Arguments& arguments,
                                                       std::vector<graph::KeywordArgument>* keywords) {
    tensor_arguments_.clear();
    integer_arguments_.clear();
    std::vector<graph::Argument> positional;
    positional.reserve(arguments.positional.size());
    for (Value* value : arguments.positional) {
        if (value->kind != Kind::Constant) realize(value);  // a constant knows when it has to be
        positional.push_back(value->as_argument(*this));
    }
    keywords->reserve(arguments.keywords.size());
    for (const Keyword& keyword : arguments.keywords) {
        if (keyword.value->kind != Kind::Constant) realize(keyword.value);
        keywords->push_back({keyword.name, keyword.value->as_argument(*this)});
    }
    if (later_)
        for (TensorValue* tensor : tensor_arguments_) later_->read.emplace_back(tensor->node, tensor);
    return positional;
}

Value* Interpreter::value_of(graph::Node* node, const graph::Result& result, std::span<TensorValue* const> tensors) {
    switch (result.kind) {
        case graph::Result::Kind::None:
            return none();
        case graph::Result::Kind::Constant:
            return fresh(Ref<>::share(result.constant));
        case graph::Result::Kind::Tensor: {
            auto* tensor = make<TensorValue>();
            tensor->node = node;
            tensor->meta = result.tensor;
            return tensor;
        }
        case graph::Result::Kind::Tuple:
        case graph::Result::Kind::List: {
            std::vector<Value*> items;
            for (std::size_t i = 0; i < result.items.size(); ++i) {
                const graph::Result& part = result.items[i];
                if (part.same_as_argument >= 0) {
                    items.push_back(tensors[static_cast<std::size_t>(part.same_as_argument)]);
                    continue;
                }
                if (part.kind == graph::Result::Kind::Constant || part.kind == graph::Result::Kind::None) {
                    items.push_back(value_of(node, part, tensors));
                    continue;
                }
                PyObject* index = graph_->arena().keep(checked(PyLong_FromSize_t(i)));
                graph::Node* item = graph_->add(graph::NodeKind::Function, getitem_function(),
                                                {graph::Argument::of(node), graph::Argument::of_constant(index)});
                item->result = part;
                item->location = node->location;
                item->modules = node->modules;
                items.push_back(value_of(item, part, tensors));
            }
            if (result.kind == graph::Result::Kind::List) return make_list(*this, std::move(items));
            return stator::make_tuple(*this, std::move(items), result.type != nullptr ? result.type : &PyTuple_Type);
        }
    }
    return none();
}

namespace {

std::int64_t count_of(const torch_room::TensorMeta& meta) {
    std::int64_t count = 1;
    for (torch_room::Dim size : meta.sizes) count *= size.value();
    return count;
}

/// As those of an expanded tensor do, or of windows that overlap. It may say so in vain for unusual strides.
bool has_shared_elements(const torch_room::TensorMeta& meta) {
    std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride and size
    for (std::size_t i = 0; i < meta.strides.size(); ++i) {
        if (meta.sizes[i].value() == 0) return false;
        if (meta.sizes[i].value() > 1) dimensions.emplace_back(meta.strides[i].value(), meta.sizes[i].value());
    }
    std::ranges::sort(dimensions);
    std::int64_t end = 0;  // of what the dimensions before reach
    for (auto [stride, size] : dimensions) {
        if (stride <= end) return true;
        end += stride * (size - 1);
    }
    return false;
}

const TensorValue* base_of(const TensorValue* tensor) {
    while (tensor->view_of != nullptr) tensor = tensor->view_of;
    return tensor;
}

/// Whether two tensors lie in the same storage, in places that are neither the same nor apart. PyTorch refuses some of
/// that, in the middle of the graph.
bool overlaps_in_part(const TensorValue* one, const TensorValue* other) {
    if (one == other || base_of(one) != base_of(other)) return false;
    const torch_room::TensorMeta &left = *one->meta, &right = *other->meta;
    if (left.storage_offset == right.storage_offset && left.sizes == right.sizes && left.strides == right.strides)
        return false;
    auto end = [](const torch_room::TensorMeta& meta) {
        std::int64_t last = meta.storage_offset.value();
        for (std::size_t i = 0; i < meta.sizes.size(); ++i)
            last += (meta.sizes[i].value() - 1) * meta.strides[i].value();
        return last + 1;
    };
    return left.storage_offset.value() < end(right) && right.storage_offset.value() < end(left);
}

}  // namespace

void Interpreter::note_rows(TensorValue* base, const std::vector<Value*>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
        auto* row = static_cast<TensorValue*>(rows[i]);
        row->is_row = true;
        const graph::Node* first = static_cast<TensorValue*>(rows[0])->node;
        rows_.emplace(row->node, Row{base->node, first, i, modes_.grad, base->meta->requires_grad});
        on_undo([this, node = row->node] { rows_.erase(node); });
    }
}

void Interpreter::expect_no_row(const TensorValue* tensor) {
    for (; tensor != nullptr; tensor = tensor->view_of)
        if (tensor->is_row)
            throw Break{BreakKind::OperationFails, "an operation writes to a row that iterating gave", false};
}

/// The graph has a view of a tensor of another class: what is written is seen through it, but not what it becomes.
void Interpreter::expect_no_object(const TensorValue* tensor) {
    if (base_of(tensor)->is_of_object)
        break_graph(BreakKind::UnsupportedTensor, "an operation writes to a tensor of a class of the program's own");
}

/// Whether PyTorch refuses to write to a tensor, because of gradients. It would do so in the middle of the graph.
bool Interpreter::is_protected(TensorValue* tensor, bool is_recorded) {
    // The write itself may be fine, but what the program does next with a view that autograd gives up is not.
    for (TensorValue* base = tensor; base != nullptr; base = base->view_of) {
        if (base->outside == nullptr || !base->meta->requires_grad) continue;
        if (torch_room::read_autograd_state(base->outside).is_loose_view) return true;
        // A write behind autograd's back to an input: aot_autograd puts other values into it.
        if (modes_.grad && base != tensor && !tensor->meta->requires_grad) return true;
        guard_autograd_state(*this, base);
    }
    if (!is_recorded) return false;
    for (; tensor != nullptr; tensor = tensor->view_of) {
        if (tensor->refuses_writes || (tensor->meta->requires_grad && tensor->meta->is_leaf)) return true;
        if (tensor->outside != nullptr) {
            if (torch_room::read_autograd_state(tensor->outside).refuses_writes) return true;
            guard_autograd_state(*this, tensor);
        }
        // Autograd knows nothing of what was detached.
        if (tensor->view_of != nullptr && tensor->view_of->meta->requires_grad && !tensor->meta->requires_grad)
            return false;
    }
    return false;
}

void Interpreter::note_write(const TensorValue* tensor, bool is_recorded) {
    const TensorValue* base = base_of(tensor);
    if (base->source == nullptr) return;
    bool is_known = std::ranges::find(written_, base) != written_.end();
    std::optional<std::size_t> bytes = is_known ? 0 : torch_room::bytes_to_keep(base->outside);
    on_undo([this, known = written_.size(), bytes = bytes_written_, lasts = has_lasting_] {
        written_.resize(known);
        bytes_written_ = bytes;
        has_lasting_ = lasts;
    });
    if (!is_known) written_.push_back(base);
    bytes_written_ += bytes.value_or(0);
    if (!bytes || bytes_written_ > torch_room::kMostKept || (is_recorded && torch_room::shares_history(base->outside)))
        has_lasting_ = true;
}

void Interpreter::note_recorded_write(const TensorValue* tensor) {
    // aot_autograd writes to the input behind its compiled function, which may have saved that very input for the
    // backward pass; and it takes what was detached for a view of the input, without a history of its own.
    if (base_of(tensor)->source != nullptr && run_by_ == RunBy::Compiler) keep_as_captured();
}

/// Where a graph writes to an input that requires a gradient, or does so from then on, and gives back another one that
/// it has written to, aot_autograd puts values into the wrong input.
bool Interpreter::may_give_back_inputs() const {
    return std::ranges::none_of(written_, [](const TensorValue* tensor) { return tensor->meta->requires_grad; });
}

void Interpreter::note_view(Value* view, TensorValue* base) {
    if (auto* tensor = cast<TensorValue>(view)) {
        tensor->view_of = base;
        tensor->node->memory = memory_of(base->node);
        if (!modes_.grad) tensor->refuses_writes = true;
        note_autograd_view(tensor, base);
    } else if (SequenceValue* several = as_sequence(view)) {
        for (Value* item : several->items) {
            note_view(item, base);
            if (auto* tensor = cast<TensorValue>(item)) {
                tensor->refuses_writes = true;
                note_autograd_view(tensor, base);
            }
        }
    }
}

bool Interpreter::is_to_stop(Borrowed<> target, bool is_part) {
    // (What is taken out of the graph again counts for nothing.)
    if (!stop_ || later_ || graph_->size() != stop_->serial) return false;
    has_stopped_ = target == stop_->target || (is_part && Py_TYPE(target.get()) == Py_TYPE(stop_->target));
    // Nothing of the instruction may have been seen that will be executed for real.
    for (std::size_t i = mark_.graph_size; i < graph_->size(); ++i)
        if (graph_->at(i)->is_seen) has_stopped_ = false;
    return true;
}

namespace {

/// A leaf of autograd's graph: its gradient is the program's to ask for, so no backend may take it for a result.
bool makes_leaf(const graph::Result& result) {
    if (result.kind == graph::Result::Kind::Tensor)
        return result.same_as_argument < 0 && result.tensor->requires_grad && result.tensor->is_leaf;
    return std::ranges::any_of(result.items, makes_leaf);
}

/// What takes data in whatever form it comes: to these a number of numpy has a dtype.
bool looks_at_classes(graph::NodeKind kind, Borrowed<> target) {
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

/// `detach_`, which PyTorch refuses for views.
bool is_detach_in_place(graph::NodeKind kind, Borrowed<> target) {
    static PyObject* function = [] {
        Ref<> torch = checked(PyImport_ImportModule("torch"));
        return checked(PyObject_GetAttrString(torch.get(), "detach_")).release();
    }();
    if (kind != graph::NodeKind::Method) return target.get() == function;
    return PyUnicode_Check(target.get()) && PyUnicode_CompareWithASCIIString(target.get(), "detach_") == 0;
}

}  // namespace

Value* Interpreter::emit(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments,
                         shape::AnyNumber takes_any) {
    std::vector<graph::KeywordArgument> keywords;
    takes_any_ = takes_any;
    if (looks_at_classes(kind, target)) {
        for (Value* value : arguments.positional) expect_no_numpy_number(*this, value);
        for (const Keyword& keyword : arguments.keywords) expect_no_numpy_number(*this, keyword.value);
    }
    if (takes_any != shape::AnyNumber::None) float_use_ = float_use(kind, target, arguments);
    std::vector<graph::Argument> positional = arguments_of(arguments, &keywords);
    if (!shape::is_view_by_sizes(kind, target, positional)) settle_offsets(kind, target);
    // Tensors are numbered by first appearance.
    std::vector<TensorValue*> tensors;
    for (TensorValue* tensor : tensor_arguments_) {
        bool seen = false;
        for (TensorValue* before : tensors) seen = seen || before->node == tensor->node;
        if (!seen) tensors.push_back(tensor);
    }
    std::size_t mark = graph_->size();
    STATOR_CHECK(mark != failing_node, "an error that was asked for");
    if (is_to_stop(target)) break_graph(BreakKind::OperationFails, "an operation fails for the values that it gets");
    if (is_detach_in_place(kind, target) && !tensors.empty() && tensors[0]->view_of != nullptr) {
        if (run_by_ == RunBy::Compiler) keep_as_captured();
        break_graph(BreakKind::OperationFails, "a view is detached in place");
    }
    keep_refused_views(tensors);
    graph::Node* node = graph_->add(kind, target, std::move(positional), std::move(keywords));
    const shape::Answer* answer = nullptr;
    try {
        TimedScope timed(shape_ticks_);
        torch_room::WithModes modes(modes_);
        answer = &shape::infer(graph_->arena(), *node);
    } catch (const PythonError&) {
        graph_->truncate(mark);
        TakenError error = TakenError::take();
        for (TensorValue* tensor : tensors) expect_no_row(tensor);
        Ref<> text = Ref<>::steal(PyObject_Str(error.exception()));
        PyErr_Clear();
        // Without data PyTorch may reject arguments in other words than with: the real operation has to say it.
        break_graph(BreakKind::OperationFails, "an operation raises " + type_name(Py_TYPE(error.exception().get())) +
                                                   ": " + std::string(text ? utf8(text.get()) : "?"));
    }
    // An assignment to items writes to a part of the tensor only: mostly to where the value was just computed.
    for (int written : answer->written)
        for (TensorValue* other : tensors)
            if (answer->status == shape::Status::Ok && target.get() != setitem_function() &&
                overlaps_in_part(tensors.at(static_cast<std::size_t>(written)), other)) {
                graph_->truncate(mark);
                break_graph(BreakKind::OperationFails, "an operation writes to memory that it reads in another place");
            }
    bool is_recorded =
        modes_.grad && std::ranges::any_of(tensors, [](TensorValue* one) { return one->meta->requires_grad; });
    for (int written : answer->written) {
        if (answer->status != shape::Status::Ok) break;
        TensorValue* tensor = tensors.at(static_cast<std::size_t>(written));
        expect_no_row(tensor);
        expect_own(tensor);
        expect_no_object(tensor);
        expect_not_recomputed(tensor);
        if (has_shared_elements(*tensor->meta)) {
            graph_->truncate(mark);
            break_graph(BreakKind::OperationFails, "an operation writes to a tensor whose elements share memory");
        }
        if (is_protected(tensor, is_recorded)) {
            graph_->truncate(mark);
            keep_view_for_write(tensor);
            break_graph(
                BreakKind::OperationFails,
                "an operation writes to a leaf that requires a gradient, or to a view that autograd can't follow");
        }
    }
    for (const shape::MetadataChange& change : answer->changed_metadata) {
        expect_own(tensors.at(static_cast<std::size_t>(change.argument)));
        expect_no_object(tensors.at(static_cast<std::size_t>(change.argument)));
        const torch_room::TensorMeta& before = *tensors.at(static_cast<std::size_t>(change.argument))->meta;
        if (arguments.keyword("out") == nullptr || before.sizes == change.meta->sizes || count_of(before) == 0)
            continue;
        graph_->truncate(mark);
        break_graph(BreakKind::OperationFails, "an operation gives its `out` another size");
    }
    if (answer->status != shape::Status::Ok) {
        graph_->truncate(mark);
        if (answer->status == shape::Status::DataDependent)
            if (auto known = with_known_integers(*this, kind, target, arguments))
                return emit(kind, target, *known, takes_any);
        break_graph(
            answer->status == shape::Status::DataDependent ? BreakKind::DataDependent : BreakKind::UnsupportedTensor,
            answer->reason);
    }
    if (!answer->is_view() && makes_leaf(answer->result)) {
        graph_->truncate(mark);
        break_graph(BreakKind::UnsupportedTensor, "a tensor that requires a gradient is made by itself");
    }
    node->result = answer->result;
    node->has_effect = answer->has_effect();
    node->is_random = answer->random;
    node->may_fail = answer->may_fail;
    auto is_outside = [&](int argument) {
        return base_of(tensors.at(static_cast<std::size_t>(argument)))->source != nullptr;
    };
    bool is_lasting = answer->side_effect ||
                      std::ranges::any_of(answer->changed_metadata, is_outside, &shape::MetadataChange::argument);
    node->is_seen = answer->random || is_lasting || std::ranges::any_of(answer->written, is_outside);
    for (int argument : answer->written) {
        note_write(tensors.at(static_cast<std::size_t>(argument)), is_recorded);
        note_write_to_views(tensors.at(static_cast<std::size_t>(argument)));
        if (is_recorded) note_recorded_write(tensors.at(static_cast<std::size_t>(argument)));
    }
    note_lasting(node, is_lasting);
    node->location = current_location();
    node->modules = current_modules();
    note_offset(node, answer->is_view() || answer->result.same_as_argument >= 0);
    for (const shape::MetadataChange& change : answer->changed_metadata) {
        TensorValue* changed = tensors.at(static_cast<std::size_t>(change.argument));
        on_undo([changed, before = changed->meta] { changed->meta = before; });
        changed->meta = change.meta;
    }
    if (int same = answer->result.same_as_argument; same >= 0) {
        // The operation gives back its argument: one object for the program, from now on known by the newer node.
        TensorValue* tensor = tensors.at(static_cast<std::size_t>(same));
        // (Nothing was written to it: to what comes after a part that is taken out, it is what it was.)
        if (later_ && predates_later(tensor->node)) return tensor;
        on_undo([tensor, node = tensor->node, meta = tensor->meta] {
            tensor->node = node;
            tensor->meta = meta;
        });
        node->memory = memory_of(tensor->node);
        note_same_view(tensor->node, node);
        tensor->node = node;
        tensor->meta = answer->result.tensor;
        return tensor;
    }
    Value* value = value_of(node, node->result, tensors);
    if (answer->view_of >= 0) note_view(value, tensors.at(static_cast<std::size_t>(answer->view_of)));
    if (SequenceValue* several = answer->views_of.empty() ? nullptr : as_sequence(value))
        for (std::size_t i = 0; i < several->items.size(); ++i)
            if (int base = answer->views_of[i]; base >= 0)
                note_view(several->items[i], tensors.at(static_cast<std::size_t>(base)));
    return value;
}

Value* Interpreter::emit_function(Borrowed<> function, const Arguments& arguments) {
    return emit(graph::NodeKind::Function, function, arguments, any_number(graph::NodeKind::Function, function));
}

Value* Interpreter::emit_method(Borrowed<> name, const Arguments& arguments) {
    return emit(graph::NodeKind::Method, name, arguments, any_number(graph::NodeKind::Method, name));
}

graph::Node* Interpreter::emit_effect(Borrowed<> function, const Arguments& arguments) {
    std::vector<graph::KeywordArgument> keywords;
    takes_any_ = shape::AnyNumber::None;
    std::vector<graph::Argument> positional = arguments_of(arguments, &keywords);
    graph::Node* node = graph_->add(graph::NodeKind::Function, function, std::move(positional), std::move(keywords));
    node->has_effect = true;
    node->is_seen = true;
    node->location = current_location();
    node->modules = current_modules();
    return node;
}

void Interpreter::emit_switch(Borrowed<> function, const Arguments& arguments) {
    for (std::size_t i = graph_->size(); i-- > (later_ ? later_->start : 0);) {
        graph::Node* last = graph_->at(i);
        if (last->kind == graph::NodeKind::Placeholder) continue;
        if (last->target == function.get() && !last->has_effect) continue;  // cancelled before
        if (last->target != function.get()) break;
        last->has_effect = false;
        on_undo([last] { last->has_effect = true; });
        return;
    }
    emit_effect(function, arguments)->is_seen = false;  // of what fails, the modes are put back
}

graph::Node* Interpreter::add_placeholder(Source* source) {
    graph::Node* node = graph_->add(graph::NodeKind::Placeholder, nullptr, {});
    node->path = path_text(*source, *graph_->texts());
    node->modules = current_modules();
    inputs_.push_back(source);
    input_nodes_.push_back(node);
    on_undo([this] {
        inputs_.pop_back();
        input_nodes_.pop_back();
    });
    return node;
}

namespace {

bool is_module(const Source& source) {
    return PyObject_TypeCheck(source.object, torch_room::known().module_class);
}

/// What `meta["tensor_dict"]` of a module's own tensor says: its memory stays where it is, most likely.
PyObject* meta_of_static() {
    static PyObject* const meta =
        checked(Py_BuildValue("{s{ss}}", "tensor_dict", "_dynamo_static_input_type", "unguarded")).release();
    return meta;
}

/// An attribute of a module that was not registered.
bool is_plain_attribute(const Source& source) {
    return source.access == Access::DictItem && source.parent->access == Access::InstanceDict &&
           is_module(*source.parent->parent);
}

bool is_held_by_module(const Source& source) {
    if (source.access != Access::DictItem || source.parent->access != Access::DictItem) return false;
    const Source& holder = *source.parent;
    bool has_name = holder.key == interned("_parameters") || holder.key == interned("_buffers");
    return has_name && holder.parent->access == Access::InstanceDict;
}

}  // namespace

graph::Node* Interpreter::add_attribute(TensorValue* tensor) {
    // The graph has the tensor itself: another one there is another graph.
    guard({GuardKind::Identity, tensor->source, tensor->outside});
    std::string wanted = identifier(*path_text(*tensor->source, *graph_->texts()));
    while (!wanted.empty() && wanted.back() == '_') wanted.pop_back();
    std::string name = attribute_names_.create(wanted);
    Ref<> target = checked(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    graph::Node* node = graph_->add(graph::NodeKind::Attribute, target.get(), {});
    node->location = current_location();
    node->modules = current_modules();
    attributes_.push_back({name, Ref<>::share(tensor->outside)});
    on_undo([this] { attributes_.pop_back(); });
    return node;
}

graph::Node* Interpreter::input(TensorValue* tensor) {
    // (The graph gets a view of one of another class.)
    bool is_attribute = registers_attributes_ && is_held_by_module(*tensor->source) && !tensor->is_of_object;
    graph::Node* node = is_attribute ? add_attribute(tensor) : add_placeholder(tensor->source);
    if (is_held_by_module(*tensor->source) || is_plain_attribute(*tensor->source)) node->extra_meta = meta_of_static();
    node->result.kind = graph::Result::Kind::Tensor;
    node->result.tensor = graph_->arena().make<torch_room::TensorMeta>(*tensor->meta);
    return node;
}

Trace Interpreter::take_trace() {
    Trace trace;
    std::unordered_map<const graph::Node*, Source*> sources;
    for (std::size_t i = 0; i < inputs_.size(); ++i) sources.emplace(input_nodes_[i], inputs_[i]);
    for (graph::Node* node : graph_->nodes()) {
        if (!graph_->is_finished()) break;  // nothing was captured
        if (node->kind != graph::NodeKind::Placeholder) break;
        trace.inputs.push_back(sources.at(node));
    }
    // Two numbers may well be one object.
    for (Source* source : trace.inputs)
        if (!PyLong_CheckExact(source->object) && !PyFloat_CheckExact(source->object)) trace.distinct.push_back(source);
    add_distinct(trace.distinct);
    for (std::size_t i = 0; i < trace.inputs.size(); ++i)
        if (std::ranges::find(written_, trace.inputs[i], &TensorValue::source) != written_.end())
            trace.written.push_back(i);
    trace.graph = std::move(graph_);
    trace.guards = std::move(guards_);
    trace.plan = std::move(plan_);
    trace.fetched = std::move(fetched_);
    trace.attributes = std::move(attributes_);
    trace.end = end_;
    trace.report = report_;
    trace.modes = modes_;
    trace.reads_autocast = reads_autocast_;
    trace.is_kept_as_captured = is_kept_as_captured_;
    trace.told_compiling = told_compiling_;
    trace.inlined_torch_compile = followed_compiled_by_torch_;
    trace.has_stopped = has_stopped_;
    trace.mismatched_calls = std::move(mismatched_calls_);
    trace.instructions = instructions_;
    trace.decoding_seconds = decoding_seconds_;
    trace.shape_ticks = shape_ticks_;
    trace.arena = std::move(owned_arena_);
    return trace;
}

}  // namespace stator
