/// The calls of operators that an operation of the program makes. For the files of this room only; it includes
/// PyTorch's headers.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <vector>

#include "torch/calls/prepared_calls.h"

namespace stator::torch_room {

/// What the innermost observer of this thread has seen since a step began.
struct CallObserver::Observed {
    static constexpr std::size_t kNone = ~std::size_t{0};
    struct Call {
        c10::OperatorHandle operation;
        std::vector<c10::IValue> inputs;
        std::vector<c10::IValue> outputs;
        bool has_ended = false;
        // Which operators it calls depends on nothing but the metadata of its arguments, and it does nothing else.
        // Those follow it here.
        bool is_composite = false;
        bool is_understood = true;  // the calls inside a composite one
        // The binding called it where autograd does not see it, and has made another tensor of its result afterwards.
        bool is_below_autograd = false;
        std::size_t parent = kNone;
    };
    std::vector<Call> calls;  // in the order of their beginnings
    bool is_understood = true;

    // The open calls are those up to `open`, and so many inside of it that are not recorded.
    std::size_t open = kNone;
    int unrecorded = 0;
    /// How many calls an operator with a kernel of its own has made: nobody asks for them. Telling PyTorch so takes as
    /// long as being told of a few of them.
    int unasked = 0;
    static constexpr int kFewUnasked = 3;
    Observed* outer = nullptr;
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    bool with_grad = true;

    void start(const at::RecordFunction& function);
    void end(const at::RecordFunction& function);
    void ask_again();
    void begin();
};

/// Whether a composite operator calls the same operators for arguments of all sizes, and gives them no size.
bool chooses_without_sizes(const c10::OperatorHandle& operation, const std::vector<c10::IValue>& inputs);

}  // namespace stator::torch_room
