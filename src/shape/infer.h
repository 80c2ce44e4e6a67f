/// Metadata of the results of operations. Answered from a cache, otherwise by a rule in C++, otherwise by running the
/// operation on FakeTensors; each question is answered once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "graph/node.h"
#include "number/expressions.h"
#include "torch/meta.h"

namespace stator::shape {

class Store;

/// Sizes that depend on the data of tensors, of one trace.
struct DataSizes {
    Expressions& numbers;
    /// Whether operations are captured whose results have such sizes.
    bool are_captured = false;
    /// How many elements of a tensor are not zero: indexing two tensors with one mask gives equal sizes. Valid until
    /// anything is written to.
    std::unordered_map<const graph::Node*, Dim> counts = {};
    /// How often an answer was about this very question, so that no other may use it.
    std::size_t uses = 0;
};

/// An operation as the program called it. Arguments that are nodes carry their `result`.
struct Question {
    graph::NodeKind kind = graph::NodeKind::Function;  // Function or Method
    Borrowed<> target;                                 // the callable, or the method's name
    std::span<const graph::Argument> arguments;
    std::span<const graph::KeywordArgument> keywords;
    /// Where answers are kept that are about sizes which change between calls: such sizes are those of one trace. Null
    /// in a trace without any.
    const std::shared_ptr<Store>* dynamic_answers = nullptr;
    /// Null where no size may depend on data.
    DataSizes* data_sizes = nullptr;
    /// The tensors by whose identity PyTorch knows the ragged size of jagged tensors that the operation makes, and that
    /// size.
    std::vector<std::pair<const graph::Node*, Dim>> ragged_sources = {};
};

enum class Status : std::uint8_t {
    Ok,
    DataDependent,  // the result depends on the data of tensors
    Unsupported,    // unknown: no fake implementation, a subclass, a result that is not a tensor, ...
};

/// An argument whose metadata the operation changes: `requires_grad_`, `resize_`, `t_`, an in-place operation that
/// makes it require grad.
struct MetadataChange {
    int argument;
    const torch_room::TensorMeta* meta;
};

/// Tensor arguments are numbered in order of appearance: positional ones, then keywords, containers flattened; a node
/// that appears twice counts at its first appearance.
struct Answer {
    Status status = Status::Ok;
    graph::Result result;
    /// Tensor arguments that the operation writes to.
    std::vector<int> written;
    std::vector<MetadataChange> changed_metadata;
    /// The argument that the result (or each part of it) is a view of, or -1. Unset if the result is the argument
    /// itself: see `result.same_as_argument`.
    int view_of = -1;
    /// Instead, if parts of the result are views of different arguments: one for each part. Otherwise empty.
    std::vector<int> views_of;
    /// Draws random numbers: must run as often, and in the same order, as in the program.
    bool random = false;
    /// Has effects other than writing to its arguments.
    bool side_effect = false;
    /// Whether PyTorch raises for some data of the arguments.
    bool may_fail = false;
    std::string reason;  // if the status is not Ok

    bool is_view() const { return view_of >= 0 || !views_of.empty(); }
    bool mutates() const { return !written.empty() || !changed_metadata.empty(); }
    /// Whether the node has to stay even if its result is unused.
    bool has_effect() const { return mutates() || random || side_effect; }
};

/// Answers under the current state (grad mode, inference mode, autocast, default dtype and device: see
/// `torch_room::WithModes`). Throws `PythonError` with PyTorch's exception set if PyTorch rejects the arguments. What
/// the answer points to stays valid as long as the arena lives.
const Answer& infer(Arena& arena, const Question& question);

inline const Answer& infer(Arena& arena, const graph::Node& node) {
    return infer(arena, {node.kind, node.target, node.arguments, node.keywords});
}

/// Clears the cache. Existing answers stay valid for their arenas.
void forget_answers();

/// How questions were answered so far, for reports.
struct Counts {
    std::uint64_t hits = 0;
    std::uint64_t rules = 0;
    std::uint64_t fallbacks = 0;
    std::uint64_t uncached = 0;  // fallbacks that no later question can reuse
};
const Counts& counts();

/// `f32[8, 4]`, `(f32[8], i64[8])`, `view of 0: f32[4]`.
std::string print(const Answer& answer);

// For tests and measurements: only one way.

enum class Way : std::uint8_t { Any, RuleOnly, FallbackOnly };
/// Null if `RuleOnly` finds no rule, or if `FallbackOnly` has no answer for all sizes. Ways other than `Any` neither
/// read nor fill the cache.
const Answer* infer_by(Arena& arena, const Question& question, Way way);

}  // namespace stator::shape
