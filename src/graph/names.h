/// Names for nodes, as `torch.fx` gives them: from the target, in snake case, unique, never a keyword or a builtin.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/ref.h"

namespace stator::graph {

/// What `torch.fx.Graph._target_to_str` says: `add` for `operator.add`, `l_x_` for a placeholder `L_x_`.
std::string name_of_target(Borrowed<> target);

/// `torch.fx.graph._Namespace`: the same names for the same requests in the same order.
class Names {
  public:
    /// A name like `candidate` that was not given before.
    std::string create(std::string_view candidate);

    /// How far each base name was counted: what `torch.fx` needs to go on where this left off.
    const std::unordered_map<std::string, long>& counts() const { return counts_; }

  private:
    std::unordered_set<std::string> used_;
    std::unordered_map<std::string, long> counts_;
};

/// True if a variable may not have this name: keywords, builtins and what `torch.fx` puts into the globals of its code.
bool is_reserved_name(const std::string& name);

}  // namespace stator::graph
