/// Operations whose effects can't be undone if the graph fails after them. The frame is then left at the operation that
/// failed (run/failed_graph.cpp), so the graph must not have freed the results that the program holds there.
#include <algorithm>

#include "base/python_error.h"
#include "base/stack_room.h"
#include "effect/plan.h"
#include "trace/recorder/graph_recorder.h"
#include "value/break.h"
#include "value/effect_log.h"

namespace stator {

void GraphRecorder::note_lasting(graph::Node* node, bool is_lasting) {
    if (is_lasting) writes_.note_lasting();
    node->is_lasting = is_lasting;
    // (A frame can't be left inside of a call from C code.)
    bool can_leave = stack_.opaque_tasks == 0 && !deferred_graphs_.is_open() && !stop_;
    if (writes_.has_lasting() && node->may_fail && can_leave) node->held = held_by_program();
}

/// The nodes whose results the program holds when the current instruction starts.
const std::vector<graph::Node*>* GraphRecorder::held_by_program() {
    PlanBuilder plan;
    auto hold = [&](Value* value) {
        if (value == nullptr || value == stack_.null) return;
        try {
            value->rebuild(plan);
        } catch (const Break&) {
        } catch (const NestedTooDeeply&) {
        } catch (const PythonError&) {
            PyErr_Clear();
        }
    };
    // The frames above the instruction that the program will execute are gone by then.
    for (std::size_t depth = 0; depth < std::min(stack_.start.depth, stack_.frames.size()); ++depth) {
        if (stack_.frames[depth]->is_task) {
            hold(static_cast<TaskFrame&>(*stack_.frames[depth]).task.promise().continuation.value);
            continue;
        }
        auto& frame = static_cast<BytecodeFrame&>(*stack_.frames[depth]);
        for (Value* value : frame.slots) hold(value);
        for (Value* value : frame.stack) hold(value);
        hold(frame.held);
        hold(frame.function);
        hold(frame.generator);
    }
    for (const Effect& effect : tracer_.effects().entries()) {
        hold(effect.result);
        if (effect.result == nullptr)
            for (Value* value : effect.from) hold(value);
    }
    hold(stack_.handled_exception);
    for (Value* value : stack_.handled_around) hold(value);
    auto* held = graph_->arena().make<std::vector<graph::Node*>>();
    for (const void* output : plan.outputs()) {
        auto* node = static_cast<graph::Node*>(const_cast<void*>(output));
        held->push_back(node);
        // A row that leaves the graph is made again, from the tensor that it is a row of.
        if (graph::Node* base = rows_.base_of_row(node)) held->push_back(base);
    }
    return held;
}

}  // namespace stator
