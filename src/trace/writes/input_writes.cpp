#include "trace/writes/input_writes.h"

#include <algorithm>
#include <optional>

#include "torch/kept_state.h"
#include "torch/tensor.h"
#include "value/recorder.h"

namespace stator {

void InputWrites::note(const TensorValue* tensor, bool is_recorded) {
    const TensorValue* base = base_of(tensor);
    if (base->source == nullptr) return;
    bool is_known = std::ranges::find(written_, base) != written_.end();
    std::optional<std::size_t> bytes = is_known ? 0 : torch_room::bytes_to_keep(base->outside);
    tracer_.on_undo([this, known = written_.size(), bytes = bytes_written_, lasts = has_lasting_] {
        written_.resize(known);
        bytes_written_ = bytes;
        has_lasting_ = lasts;
    });
    if (!is_known) written_.push_back(base);
    bytes_written_ += bytes.value_or(0);
    if (!bytes || bytes_written_ > torch_room::kMostKept || (is_recorded && torch_room::shares_history(base->outside)))
        has_lasting_ = true;
    // aot_autograd writes to the input after its compiled function, which may have saved that input for the backward
    // pass. And it takes a detached view of the input for a view without a history of its own.
    if (is_recorded && tracer_.run_by() == Tracer::RunBy::Compiler) tracer_.recorder().keep_as_captured();
}

void InputWrites::note_lasting() {
    if (has_lasting_) return;
    has_lasting_ = true;
    tracer_.on_undo([this] { has_lasting_ = false; });
}

bool InputWrites::may_give_back_inputs() const {
    return std::ranges::none_of(written_, [](const TensorValue* tensor) { return tensor->meta->requires_grad; });
}

}  // namespace stator
