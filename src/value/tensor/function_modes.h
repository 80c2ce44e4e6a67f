/// Modes with `__torch_function__` (`torch.overrides.TorchFunctionMode`, `with torch.device(...)`) that the program
/// enters, or that were active when the trace began. PyTorch's own stack is empty while the trace runs: `TorchModes`
/// has the modes as values. A call that PyTorch would hand to the innermost mode is a call of its `__torch_function__`,
/// which is traced like any other function of the program; meanwhile that mode is not on the stack. The plan puts
/// PyTorch's stack into the state that the program has reached.
#pragma once

#include <algorithm>
#include <optional>

#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

struct FunctionValue;

bool is_default_device(const Value* mode);

/// Whether a mode is entered that sees operators, methods and attributes of tensors: any but a default device, which
/// only matters to functions that create tensors.
inline bool modes_see_operators(Tracer& tracer) {
    return tracer.modes().has_function_modes() &&
           !std::ranges::all_of(tracer.modes().function_modes(), is_default_device);
}

/// Calls a C function or method of PyTorch where modes are entered. Nothing if none of them would see the call.
std::optional<Outcome> call_under_modes(Tracer& tracer, Value* function, const Arguments& arguments);
/// The same for a Python function of PyTorch, which calls the mode itself. Nothing for any other function.
std::optional<Outcome> call_python_under_modes(Tracer& tracer, FunctionValue* function, const Arguments& arguments);
/// `tensor.name` for an attribute that C code computes; nothing for any other attribute.
std::optional<Outcome> attribute_under_modes(Tracer& tracer, Value* tensor, Borrowed<> name);

/// Breaks the graph where modes are entered: what follows runs when, or where, they are not active.
void expect_no_function_modes(Tracer& tracer, const char* what);

}  // namespace stator
