/// Numbers that the graph reads from tensors or computes from such numbers, and checks on them.
#include <algorithm>

#include "torch/dtypes.h"
#include "trace/recorder/graph_recorder.h"
#include "value/kinds/changing_number.h"
#include "value/tensor/tensor.h"

namespace stator {

namespace {

/// Whether a write to one tensor can't change the other: it is to memory that an operation of the graph made.
bool are_apart(const graph::Node* written, const graph::Node* other) {
    written = memory_of(written);
    const bool is_made = written->kind == graph::NodeKind::Function || written->kind == graph::NodeKind::Method;
    return is_made && written->memory == nullptr && memory_of(other) != written;
}

/// An argument of a call that computes with numbers.
graph::Argument as_number_argument(Tracer& tracer, Value* value) {
    auto* number = cast<ConstantValue>(value);
    if (number == nullptr || !number->is_symbolic()) {
        tracer.realize(value);
        return value->as_argument(tracer);
    }
    symbolic::realize_class(tracer, number);
    return graph::Argument::of(number->node != nullptr ? number->node
                                                       : tracer.recorder().number_node(*number->expression));
}

}  // namespace

/// The program has written to the tensor: numbers that may have been read from its memory are read again.
void GraphRecorder::forget_numbers_of(const TensorValue* written) {
    auto is_outdated = [&](const auto& read) { return !are_apart(written->node, read.first); };
    std::erase_if(data_sizes_.counts, is_outdated);
    std::erase_if(read_numbers_, is_outdated);
}

ConstantValue* GraphRecorder::emit_number(graph::NodeKind kind, Borrowed<> target, const Arguments& arguments,
                                          PyTypeObject* type, Range range) {
    if (deferred_graphs_.is_open() || transforms_.has_levels()) return nullptr;
    tensor_arguments_.clear();
    std::vector<graph::Argument> taken;
    for (Value* value : arguments.positional) taken.push_back(as_number_argument(tracer_, value));
    const bool is_read = kind == graph::NodeKind::Method;
    if (is_read)
        if (auto found = read_numbers_.find(taken[0].node); found != read_numbers_.end()) return found->second;
    expect_no_stop(target, "a number that could not be read in an earlier run of the captured graph");
    views_.check_arguments(tensor_arguments_);
    graph::Node* node = graph_->add(kind, target, std::move(taken));
    node->may_fail = is_read;
    note_lasting(node, false);
    locations_.locate(node);
    ConstantValue* value = unbacked_result(node, type, range);
    if (is_read) read_numbers_.emplace(node->arguments[0].node, value);
    return value;
}

ConstantValue* GraphRecorder::unbacked_result(graph::Node* node, PyTypeObject* type, Range range) {
    const bool is_bool = type == &PyBool_Type;
    const Expression* number = tracer_.numbers().unbacked(type == &PyFloat_Type, is_bool ? Range{0, 1} : range);
    numbers_.note_origin(number, node);
    node->result.kind = graph::Result::Kind::Constant;
    node->result.expression = number;
    node->result.constant = is_bool ? Py_False : graph_->arena().keep(number->hint.object());
    auto* value = tracer_.make<ConstantValue>(node->result.constant);
    value->expression = number;
    value->node = node;
    value->realized = false;
    return value;
}

ConstantValue* GraphRecorder::emit_draw(const Draw& draw) {
    if (deferred_graphs_.is_open()) return nullptr;
    Source* place = tracer_.provenance().child(draw.generator, Access::Drawn, nullptr, static_cast<int>(draws_.size()),
                                               draw.example);
    // (An instruction that was rolled back may have drawn another one here.)
    place->object = draw.example;
    graph::Node* node = add_placeholder(place);
    // Drawn even if nobody uses it.
    node->has_effect = true;
    draws_.push_back({node, draw});
    tracer_.on_undo([this] { draws_.pop_back(); });
    if (tracer_.run_by() == Tracer::RunBy::Compiler) {
        node = numbers_.add_item_of(
            node, PyFloat_CheckExact(draw.example) ? torch_room::dtype::kDouble : torch_room::dtype::kLong);
    }
    return unbacked_result(node, Py_TYPE(draw.example), draw.range);
}

void GraphRecorder::expect_run_by_stator() {
    if (tracer_.run_by() == Tracer::RunBy::Compiler) keep_as_captured();
}

void GraphRecorder::emit_check(Borrowed<> function, const Arguments& arguments) {
    expect_run_by_stator();
    expect_no_stop(function, "a check that failed in an earlier run of the captured graph");
    std::vector<graph::Argument> taken;
    for (Value* value : arguments.positional) taken.push_back(as_number_argument(tracer_, value));
    graph::Node* node = graph_->add(graph::NodeKind::Function, function, std::move(taken));
    node->may_fail = true;
    note_lasting(node, false);
    locations_.locate(node);
}

}  // namespace stator
