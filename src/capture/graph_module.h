/// Turns a traced graph into the `torch.fx.GraphModule` for a backend.
#pragma once

#include <string>
#include <vector>

#include "base/ref.h"
#include "capture/number_inputs.h"
#include "capture/undo.h"
#include "trace/trace.h"

namespace stator {

struct GraphModule {
    Ref<> module;  // empty if the graph has no operations
    std::size_t nodes = 0;
    std::vector<Ref<>> inputs;              // as the graph receives them in this call
    std::vector<std::uint32_t> of_classes;  // those that are plain views of tensor subclasses
    std::vector<std::size_t> written;       // those that it writes to
    std::vector<std::string> paths;         // of the numbers among them; empty for tensors
    Undo undo;
    bool is_visible_to_program = false;
    bool has_custom_operations = false;
    /// It neither draws random numbers nor has effects that the program could see.
    bool is_pure = false;
    bool has_lstm = false;

    std::vector<PyObject*> borrowed_inputs() const;
};

/// Takes the graph of the trace. Throws PythonError.
GraphModule make_graph_module(Trace& trace);

/// A FakeTensor in the mode of a graph module, for backends that want fake examples; empty if PyTorch can't create one.
Ref<> make_fake_example(Borrowed<> module, PyObject* input);

}  // namespace stator
