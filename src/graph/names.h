/// Names for nodes, as `torch.fx` creates them: from the target, in snake case, unique, never a keyword or a builtin.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ref.h"
#include "source/source.h"

namespace stator::graph {

/// The result of `torch.fx.Graph._target_to_str`: `add` for `operator.add`, `l_x_` for a placeholder `L_x_`.
std::string name_of_target(Borrowed<> target);

/// Targets and names of placeholders, one after the other. In a deep model they are as long as their paths, and
/// neighbours share long prefixes.
class PathNames {
  public:
    void go_to(const PathText& path);
    const std::string& target() const { return target_; }  // `L_x_`
    const std::string& name() const { return name_; }      // `l_x_`

  private:
    struct Piece {
        const PathText* text;
        std::size_t target_end, name_end;
    };
    std::vector<Piece> pieces_;
    std::unordered_map<const PathText*, std::size_t> places_;  // in `pieces_`
    std::string target_, name_;
};

/// `torch.fx.graph._Namespace`: the same names for the same requests in the same order.
class Names {
  public:
    /// A name like `wanted` that was not given before.
    std::string create(std::string_view wanted);
    /// The same if `wanted` is a legal name.
    std::string create_like(std::string candidate);

    /// What is known of a base name: `add` of `add_12`.
    struct Base {
        long count = 0;  // the number that was given last; `torch.fx` continues from it
        bool is_reserved = false;
        bool is_used = false;  // the base itself is a name that was given
    };
    /// Finds texts without making strings of them.
    struct HashText {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    using Bases = std::unordered_map<std::string, Base, HashText, std::equal_to<>>;
    const Bases& bases() const { return bases_; }

  private:
    Base& base_of(std::string_view text);

    std::unordered_set<std::string> used_;
    Bases bases_;
};

/// Whether a variable can't have this name: keywords, builtins and the globals of code that `torch.fx` generates.
bool is_reserved_name(const std::string& name);

}  // namespace stator::graph
