/// Finds the modules in whose forward a node was created. Autograd numbers the nodes that a thread creates, so a list
/// of "from this number on, in this module" is enough when the backward of a node runs: no hook in the graph and no
/// reference to it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace stator::track {

class Path;

/// Of one thread. Programs repeat the same calls, so what an outermost call did is stored once, and each repetition
/// is a number and a pointer.
class BirthLog {
  public:
    /// `outside` is the path of nodes outside of all modules.
    explicit BirthLog(const Path* outside) : outside_(outside) {}

    /// From this number on, nodes are created at `path`. Numbers never decrease.
    void mark(std::uint64_t number, const Path* path);
    /// The path of the next node.
    const Path* last() const { return open_.empty() ? outside_ : open_.back().path; }
    /// An outermost call has ended.
    void close();
    /// The path of the node with this number.
    const Path* at(std::uint64_t number) const;

    /// The number of stored calls, and of different ones.
    std::size_t call_count() const { return calls_.size(); }
    std::size_t pattern_count() const { return patterns_.size(); }

  private:
    struct Mark {
        std::uint64_t number;
        const Path* path;
        bool operator==(const Mark&) const = default;
    };
    /// The marks of one outermost call, numbers relative to its first.
    using Pattern = std::vector<Mark>;
    struct Call {
        std::uint64_t first;
        const Pattern* pattern;
    };

    static const Path* found(const Pattern& marks, std::uint64_t number, const Path* otherwise);

    const Path* outside_;
    Pattern open_;
    std::vector<Call> calls_;
    std::unordered_multimap<std::size_t, std::unique_ptr<Pattern>> patterns_;
};

}  // namespace stator::track
