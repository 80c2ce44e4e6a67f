/// What a graph does that can't be undone if it fails later on. A frame whose graph failed behind such an operation is
/// left at the operation that failed (run/failed_graph.cpp), so what the program holds there must not be gone by then.
#include <algorithm>

#include "base/python_error.h"
#include "base/stack_room.h"
#include "effect/plan.h"
#include "trace/interpreter.h"
#include "value/break.h"

namespace stator {

void Interpreter::note_lasting(graph::Node* node, bool is_lasting) {
    if (is_lasting && !has_lasting_) {
        has_lasting_ = true;
        on_undo([this] { has_lasting_ = false; });
    }
    node->is_lasting = is_lasting;
    // (What a C function calls can't be left where it stands.)
    if (has_lasting_ && node->may_fail && opaque_tasks_ == 0 && !later_ && !stop_) node->held = held_by_program();
}

const std::vector<graph::Node*>* Interpreter::held_by_program() {
    PlanBuilder plan;
    auto hold = [&](Value* value) {
        if (value == nullptr || value == null_) return;
        try {
            value->rebuild(plan);
        } catch (const Break&) {
        } catch (const NestedTooDeeply&) {
        } catch (const PythonError&) {
            PyErr_Clear();
        }
    };
    // What stands above the instruction that would be executed for real is gone by then.
    for (std::size_t depth = 0; depth < std::min(mark_.depth, frames_.size()); ++depth) {
        if (frames_[depth]->is_task) {
            hold(static_cast<TaskFrame&>(*frames_[depth]).task.promise().continuation.value);
            continue;
        }
        auto& frame = static_cast<BytecodeFrame&>(*frames_[depth]);
        for (Value* value : frame.slots) hold(value);
        for (Value* value : frame.stack) hold(value);
        hold(frame.held);
        hold(frame.function);
        hold(frame.generator);
    }
    for (const Effect& effect : effects_) {
        hold(effect.result);
        if (effect.result == nullptr)
            for (Value* value : effect.from) hold(value);
    }
    hold(handled_exception_);
    for (Value* value : handled_around_) hold(value);
    auto* held = graph_->arena().make<std::vector<graph::Node*>>();
    for (const void* output : plan.outputs()) {
        auto* node = static_cast<graph::Node*>(const_cast<void*>(output));
        held->push_back(node);
        // A row that leaves the graph is made again, from what it is a row of.
        if (auto row = rows_.find(node); row != rows_.end()) held->push_back(row->second.base);
    }
    return held;
}

}  // namespace stator
