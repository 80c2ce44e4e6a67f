#include "value/torch_modes.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "source/query.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

void TorchModes::set(const torch_room::Modes& modes) {
    tracer_.on_undo([this, before = current_] { current_ = before; });
    current_ = modes;
}

void TorchModes::set_directly(const torch_room::Modes& modes) {
    tracer_.on_undo([this, before = are_set_directly_] { are_set_directly_ = before; });
    are_set_directly_ = true;
    set(modes);
}

void TorchModes::set_autocast_nesting(int nesting) {
    tracer_.on_undo([this, before = autocast_nesting_] { autocast_nesting_ = before; });
    autocast_nesting_ = nesting;
}

void TorchModes::set_function_modes(std::vector<Value*> modes) {
    tracer_.on_undo([this, before = function_modes_] { function_modes_ = before; });
    function_modes_ = std::move(modes);
}

void TorchModes::find_function_modes_at_entry() {
    static PyObject* const mode_at = imported("torch._C", "_get_function_stack_at");
    const std::vector<Borrowed<>> active = real_function_modes_.modes();
    for (std::size_t i = 0; i < active.size(); ++i) {
        Source* place = query(tracer_.provenance(), mode_at, checked(PyLong_FromSize_t(i)), active[i]);
        function_modes_at_entry_.push_back(tracer_.outside(place, active[i]));
    }
    function_modes_ = function_modes_at_entry_;
}

void TorchModes::note_leaf(TensorValue* leaf) {
    if (!captures_autograd_) return;
    tracer_.on_undo([this] { leaves_.pop_back(); });
    leaves_.push_back(leaf);
}

void TorchModes::push_context(const EnteredContext& context) {
    tracer_.on_undo([this, before = contexts_] { contexts_ = before; });
    contexts_.push_back(context);
}

void TorchModes::pop_context(Value* manager) {
    for (std::size_t i = contexts_.size(); i-- > 0;) {
        if (contexts_[i].manager != manager) continue;
        EnteredContext context = contexts_[i];
        tracer_.on_undo([this, before = contexts_] { contexts_ = before; });
        contexts_.erase(contexts_.begin() + static_cast<std::ptrdiff_t>(i));
        if (context.leave != nullptr)
            tracer_.recorder()
                .emit_effect(context.leave, Arguments::of(tracer_.make<NodeValue>(context.token)))
                ->is_visible_to_program = context.token->is_visible_to_program;
        torch_room::Modes now = current_;
        if (context.restores == Restores::Autograd) {
            now.grad = context.before.grad;
            now.inference = context.before.inference;
        } else if (context.restores == Restores::Autocast) {
            now.autocast = context.before.autocast;
            now.autocast_cache = context.before.autocast_cache;
        }
        set(now);
        return;
    }
    tracer_.break_graph(BreakKind::UnknownObject,
                        "a context manager is exited that was entered before the captured region");
}

void TorchModes::enable_torch_functions(bool enabled) {
    tracer_.on_undo([this, before = torch_functions_enabled_] { torch_functions_enabled_ = before; });
    torch_functions_enabled_ = enabled;
}

void TorchModes::begin_torch_function() {
    tracer_.on_undo([this] { --open_torch_functions_; });
    ++open_torch_functions_;
}

void TorchModes::end_torch_function(bool enabled_before) {
    tracer_.on_undo([this] { ++open_torch_functions_; });
    --open_torch_functions_;
    enable_torch_functions(enabled_before);
}

void TorchModes::set_indexes_by_tensors(bool indexes) {
    tracer_.on_undo([this, before = indexes_by_tensors_] { indexes_by_tensors_ = before; });
    indexes_by_tensors_ = indexes;
}

void TorchModes::set_runs_in_any_grad_mode(bool runs) {
    tracer_.on_undo([this, before = runs_in_any_grad_mode_] { runs_in_any_grad_mode_ = before; });
    runs_in_any_grad_mode_ = runs;
}

}  // namespace stator
