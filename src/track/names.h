/// Names of modules, for one tracker: the root by its class, the others by where they are registered below it, as in
/// the `state_dict`. Needs the GIL.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "track/structure.h"

namespace stator::track {

class Names {
  public:
    /// The name that does not depend on the caller: below a known root, else as a root itself. A second
    /// root of a class is `Net#2`; the name of a freed root is used again.
    Ref<> by_itself(const Known& module);
    /// Whether it was called as a root and has a root name.
    bool is_root(const Known& module) const { return root_names_.contains(module.get()); }
    /// The live roots, each with its name.
    std::vector<std::pair<Ref<>, Ref<>>> roots() const;

  private:
    /// The holders of the names `Net`, `Net#2`, ...
    struct RootClass {
        std::string name;
        std::vector<Known> holders;
    };
    Ref<> new_root_name(const Known& module);

    std::vector<RootClass> roots_;
    std::unordered_map<const KnownModule*, Ref<>> root_names_;  // of the holders
};

}  // namespace stator::track
