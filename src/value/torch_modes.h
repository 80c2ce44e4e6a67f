/// The modes of PyTorch as the program has set them up to the current instruction: gradients, inference, autocast, and
/// whether `__torch_function__` is enabled.
#pragma once

#include <span>
#include <vector>

#include "graph/node.h"
#include "torch/function_modes.h"
#include "torch/global_state.h"
#include "torch/settings.h"
#include "value/value.h"

namespace stator {

struct TensorValue;

class TorchModes {
  public:
    explicit TorchModes(Tracer& tracer) : tracer_(tracer), current_(torch_room::current_modes()), at_entry_(current_) {}

    const torch_room::Modes& current() const { return current_; }
    /// The modes when the trace began.
    const torch_room::Modes& at_entry() const { return at_entry_; }
    void set(const torch_room::Modes& modes);
    /// The same for a mode of autocast that the program sets itself, outside of a context: the graph leaves it set.
    void set_directly(const torch_room::Modes& modes);
    bool are_set_directly() const { return are_set_directly_; }
    /// How often `autocast_increment_nesting` was called more often than `autocast_decrement_nesting`.
    int autocast_nesting() const { return autocast_nesting_; }
    void set_autocast_nesting(int nesting);
    /// The program reads a setting of autocast, which needs a guard even while autocast is off.
    void rely_on_autocast() { reads_autocast_ = true; }
    bool reads_autocast() const { return reads_autocast_; }
    /// A call of numpy is a node, which never raises floating-point errors.
    void rely_on_numpy_errors() { reads_numpy_errors_ = true; }
    bool reads_numpy_errors() const { return reads_numpy_errors_; }

    /// The settings when the trace began. Functions of PyTorch that change them are called while tracing, so that the
    /// current ones are those of the program; the end of the trace restores them.
    const torch_room::Settings& settings_at_entry() const { return kept_settings_.before(); }

    /// Whether calls of autograd (`torch.autograd.grad`, `backward()`) are captured: `trace_autograd_ops` of
    /// torch._dynamo's settings.
    bool captures_autograd() const { return captures_autograd_; }
    void set_captures_autograd(bool captures) { captures_autograd_ = captures; }
    /// The tensors that were leaves with `requires_grad` when the program first used or made them, in that order.
    const std::vector<TensorValue*>& leaves() const { return leaves_; }
    void note_leaf(TensorValue* leaf);

    // --- contexts that the graph enters and leaves

    /// The modes that a context restores when it is left. The others stay as the program has set them.
    enum class Restores : std::uint8_t { Nothing, Autograd, Autocast };
    struct EnteredContext {
        Value* manager;
        PyObject* enter;     // `enter(manager)` enters the real context, if the graph breaks inside of it
        PyObject* leave;     // leaves it in the graph; takes the result of `token`
        graph::Node* token;  // the node that entered it
        torch_room::Modes before;
        Restores restores;
    };
    void push_context(const EnteredContext& context);
    /// Leaves a context that was entered in the trace. Breaks the graph if it was entered before.
    void pop_context(Value* manager);
    const std::vector<EnteredContext>& contexts() const { return contexts_; }

    // --- `__torch_function__` (see tensor/torch_function.h)

    bool torch_functions_enabled() const { return torch_functions_enabled_; }
    void enable_torch_functions(bool enabled);
    /// Inside a `__torch_function__` the graph can't break: C code of PyTorch has called it.
    bool is_in_torch_function() const { return open_torch_functions_ > 0; }
    void begin_torch_function();
    void end_torch_function(bool enabled_before);

    // --- modes with `__torch_function__` that are entered (see tensor/function_modes.h)

    /// The outermost one first. PyTorch's own stack is empty while the trace runs, but for a default device that was
    /// active when it began.
    const std::vector<Value*>& function_modes() const { return function_modes_; }
    bool has_function_modes() const { return !function_modes_.empty(); }
    void set_function_modes(std::vector<Value*> modes);
    /// Those that were active when the trace began, if one of them is the program's own.
    const std::vector<Value*>& function_modes_at_entry() const { return function_modes_at_entry_; }
    void find_function_modes_at_entry();

    /// Whether a tensor as an index never is the number that it holds: `TransformGetItemToIndex`, the mode in which
    /// PyTorch runs the functions of flex_attention.
    bool indexes_by_tensors() const { return indexes_by_tensors_; }
    void set_indexes_by_tensors(bool indexes);

    // --- deferred graphs

    /// Whether the deferred graph under capture may run with or without gradients.
    bool runs_in_any_grad_mode() const { return runs_in_any_grad_mode_; }
    void set_runs_in_any_grad_mode(bool runs);

  private:
    Tracer& tracer_;
    torch_room::Modes current_, at_entry_;
    bool are_set_directly_ = false;
    int autocast_nesting_ = 0;
    torch_room::WithoutFunctionModes real_function_modes_{torch_room::has_function_modes_of_program()};
    std::vector<Value*> function_modes_, function_modes_at_entry_;
    bool reads_autocast_ = false;
    bool reads_numpy_errors_ = false;
    torch_room::KeepSettings kept_settings_;
    std::vector<EnteredContext> contexts_;
    bool torch_functions_enabled_ = torch_room::are_torch_functions_enabled();
    int open_torch_functions_ = 0;
    bool indexes_by_tensors_ = false;
    bool runs_in_any_grad_mode_ = false;
    bool captures_autograd_ = false;
    std::vector<TensorValue*> leaves_;
};

}  // namespace stator
