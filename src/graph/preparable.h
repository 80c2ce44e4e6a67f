/// Which operations may be replaced by the calls of operators that they were seen to make.
#pragma once

#include "base/ref.h"
#include "graph/node.h"

namespace stator::graph {

/// From `Function` on it is in Python.
enum class Preparable : std::uint8_t {
    No,
    /// A binding of PyTorch: parses its arguments and calls one operator.
    Binding,
    /// Indexing: which operators it calls may depend on sizes too.
    Indexing,
    /// A function of `torch.nn.functional` or `torch.functional`, in Python.
    Function,
    /// One of those that make the same calls whatever the sizes are, and give them no size.
    Forwarding,
    /// `embedding`, which is one of those only without an index of padding and without a norm.
    Embedding,
    /// `einsum`. The order of three or more factors is looked for by another library, as its settings say.
    Products,
};

/// By the target of a function or the name of a method, called with tensors and plain constants.
Preparable preparable(NodeKind kind, Borrowed<> target);

/// None, numbers, strings, dtypes, devices and the like, and sequences and slices of these: an operation reads nothing
/// else of them than their value.
bool is_plain_constant(Borrowed<> constant);

/// Whether indexing with this key makes the same calls for tensors of all sizes, and gives them no size.
bool makes_same_views(Borrowed<> key);

/// Counts the warnings that Python code gives, in all threads, as long as it lives.
class WarningCount {
  public:
    WarningCount();
    ~WarningCount();
    WarningCount(const WarningCount&) = delete;
    WarningCount& operator=(const WarningCount&) = delete;

    bool any() const;

  private:
    std::size_t before_;
};

}  // namespace stator::graph
