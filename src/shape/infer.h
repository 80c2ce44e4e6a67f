/// What comes out of an operation: metadata in, metadata out. Answered from a cache, else by a rule in C++, else by
/// running the operation on FakeTensors; each question is answered once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/ref.h"
#include "graph/node.h"
#include "torch/meta.h"

namespace stator::shape {

/// An operation as the program called it. Arguments that are nodes carry their `result`.
struct Question {
    graph::NodeKind kind = graph::NodeKind::Function;  // Function or Method
    Borrowed<> target;                                 // the callable, or the method's name
    std::span<const graph::Argument> arguments;
    std::span<const graph::KeywordArgument> keywords;
};

enum class Status : std::uint8_t {
    Ok,
    DataDependent,  // what comes out depends on the contents of tensors
    Unsupported,    // nobody can say: no fake implementation, a subclass, a result that is no tensor, ...
};

/// An argument whose metadata is another after the operation: `requires_grad_`, `resize_`, `t_`, an in-place operation
/// that brings in a gradient.
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
    /// The argument that the result (or each part of it) is a view of, or -1. Unset where the result is the argument
    /// itself: `result.same_as_argument` says that.
    int view_of = -1;
    /// Instead of that, where parts of the result are views of different arguments: for each part. Else empty.
    std::vector<int> views_of;
    /// Draws random numbers: must run as often, and in the same order, as the program says.
    bool random = false;
    /// Does something besides computing its result and writing to its arguments.
    bool side_effect = false;
    /// Whether PyTorch refuses for some contents of the arguments.
    bool may_fail = false;
    std::string reason;  // where the status is not Ok

    bool is_view() const { return view_of >= 0 || !views_of.empty(); }
    bool mutates() const { return !written.empty() || !changed_metadata.empty(); }
    /// A node that has to stay even if nobody uses its result.
    bool has_effect() const { return mutates() || random || side_effect; }
};

/// Answers under the state in force (grad mode, inference mode, autocast, default dtype and device: see
/// `torch_room::WithModes`). Throws `PythonError` with PyTorch's own exception set for arguments that PyTorch rejects.
/// What the answer points to stays valid as long as the arena lives.
const Answer& infer(Arena& arena, const Question& question);

inline const Answer& infer(Arena& arena, const graph::Node& node) {
    return infer(arena, {node.kind, node.target, node.arguments, node.keywords});
}

/// Forgets all answers. Those handed out stay valid for their arenas.
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

// For tests and measurements: one way alone.

enum class Way : std::uint8_t { Any, RuleOnly, FallbackOnly };
/// Null where `RuleOnly` finds no rule. Ways other than `Any` neither read nor fill the cache.
const Answer* infer_by(Arena& arena, const Question& question, Way way);

}  // namespace stator::shape
