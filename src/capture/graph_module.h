/// Turns a traced graph into the `torch.fx.GraphModule` for a backend.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "capture/symbols.h"
#include "capture/undo.h"
#include "trace/trace.h"

namespace stator {

struct GraphModule {
    Ref<> module;    // empty if the graph has no operations, or if nobody reads it
    Ref<> captured;  // the graph itself where nobody reads it as a module; else empty
    /// The program uses nothing of the graph: a backend sees it, and no call runs it.
    bool is_in_vain = false;
    std::size_t nodes = 0;
    std::size_t calls = 0;                  // those nodes that compute something
    std::vector<Ref<>> inputs;              // as the graph receives them in this call
    std::vector<std::uint32_t> of_classes;  // those that are plain views of tensor subclasses
    std::vector<std::size_t> written;       // those that it writes to
    /// Those with dynamic sizes, by the graph, which `module` holds; null for others.
    std::vector<const torch_room::TensorMeta*> dynamic;
    std::vector<std::string> numbers;            // those that are numbers, as `s0`; empty for others
    std::vector<std::uint32_t> wrapped_numbers;  // numbers that it gets as tensors
    std::vector<DrawnInput> draws;               // random numbers
    std::vector<std::string> symbol_paths;       // sources of the symbols of the trace
    std::vector<std::size_t> marked_symbols;     // those that the user has marked as dynamic
    Undo undo;
    bool is_visible_to_program = false;
    bool has_custom_operations = false;
    /// It neither draws random numbers nor has effects that the program could see.
    bool is_pure = false;
    bool has_lstm = false;
    bool has_wrappers = false;  // tensors of wrapper subclasses (torch/wrappers.h) whose `__torch_function__` is traced
    bool enters_hooks = false;  // hooks on saved tensors (value/tensor/saved_tensors.h)
    bool has_jagged = false;    // jagged tensors (torch/jagged.h), which are wrappers too
    /// It has numbers or sizes that depend on the data of tensors.
    bool depends_on_data = false;

    std::vector<PyObject*> borrowed_inputs() const;
    /// A number as an example input: a SymInt that is created when the backend uses it.
    Ref<> number_example(std::size_t input) const;
    /// A FakeTensor as an example input, in the mode of the module; empty if PyTorch can't create one.
    Ref<> fake_example(std::size_t input) const;
};

/// Who gets the graph: something in Python, or a runner alone, which needs no module if it reads no attributes of it
/// and no symbols have to be described.
enum class GraphReader : std::uint8_t { Python, Runner };

/// Takes the graph of the trace. Throws PythonError.
GraphModule make_graph_module(Trace& trace, GraphReader reader);

}  // namespace stator
