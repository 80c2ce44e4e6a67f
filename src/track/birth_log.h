/// Which node was made where. Autograd numbers the nodes that a thread makes, so a list of "from this number on, here"
/// tells for each of them, when its backward runs, the modules in whose forward it was made: without a hook in the
/// graph, and without holding anything of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace stator::track {

class Path;

/// One thread's. A program does the same thing over and over, so what an outermost call did is kept once, and each such
/// call is a number and a pointer.
class BirthLog {
  public:
    /// `outside` is where nodes are made that nothing else is said of.
    explicit BirthLog(const Path* outside) : outside_(outside) {}

    /// From this number on, nodes are made at `path`. Numbers never decrease.
    void mark(std::uint64_t number, const Path* path);
    /// Where the next node is made.
    const Path* last() const { return open_.empty() ? outside_ : open_.back().path; }
    /// An outermost call has ended.
    void close();
    /// Where the node with this number was made.
    const Path* at(std::uint64_t number) const;

    /// How many calls are remembered, and how many different ones.
    std::size_t call_count() const { return calls_.size(); }
    std::size_t pattern_count() const { return patterns_.size(); }

  private:
    struct Mark {
        std::uint64_t number;
        const Path* path;
        bool operator==(const Mark&) const = default;
    };
    /// What one outermost call did, numbers counted from its first.
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
