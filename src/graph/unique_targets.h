/// Targets of placeholders, which are the parameters of the code that `torch.fx` generates.
#pragma once

#include <string>
#include <unordered_set>

namespace stator::graph {

/// Two paths of one graph may have the same identifier: `d["a.b"]` and `d["a_b"]`, items of a dict whose keys are
/// tensors.
class UniqueTargets {
  public:
    /// What has to follow a target for it to differ from those before, as with torch._dynamo; empty if it does.
    std::string suffix(const std::string& target) {
        if (taken_.insert(target).second) return "";
        int number = 0;
        while (!taken_.insert(target + "_" + std::to_string(number)).second) ++number;
        return "_" + std::to_string(number);
    }

  private:
    std::unordered_set<std::string> taken_;
};

}  // namespace stator::graph
