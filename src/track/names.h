/// What modules are called: the root by its class, the others by where they are registered below it, as in the
/// `state_dict`. Nothing here keeps a module alive. Everything needs the interpreter's lock.
///
/// Wrappers that compile a module (`torch.compile`, `stator.compile`) have no name: the module in them stands in their
/// place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ref.h"

namespace stator::track {

struct KnownModule;

/// A module is the attribute `key` of another one.
struct Registration {
    std::weak_ptr<KnownModule> parent;
    Ref<> key;
};

/// A module that was seen. It is its own identity: the address of a module that is gone may be another's by now.
struct KnownModule {
    Ref<> weak;
    std::vector<Registration> registered;  // as found; they may be out of date
    Ref<> root_name;                       // null if it was never called as a root
    std::uint64_t walk = 0;                // the last walk that came by

    /// The module, null if it is gone.
    Ref<> module() const;
    bool is(Borrowed<> object) const { return module().get() == object.get(); }
};
using Known = std::shared_ptr<KnownModule>;

class Names {
  public:
    Known know(Borrowed<> module);
    /// Finds everything that is registered below `root`, again if need be.
    void learn(const Known& root);

    /// The name of `module` below `ancestor`, such as `layers.0`; the shortest if there are several, the first of
    /// those. Null if it is not registered there now.
    Ref<> below(const KnownModule& ancestor, const Known& module) const;
    /// The name that does not depend on who calls: below a root that is known, else as a root of its own. A second
    /// root of a class is `Net#2`, and the name of one that is gone is free again.
    Ref<> by_itself(const Known& module);

    /// The live roots, each with its name.
    std::vector<std::pair<Ref<>, Ref<>>> roots() const;

  private:
    Ref<> new_root_name(Borrowed<> module, const Known& known);
    void forget_the_gone();

    /// Who has the names `Net`, `Net#2`, ...
    struct RootClass {
        std::string name;
        std::vector<std::weak_ptr<KnownModule>> holders;
    };

    std::unordered_map<PyObject*, Known> known_;
    std::vector<RootClass> roots_;
    std::uint64_t walks_ = 0;
    std::size_t sweep_at_ = 256;
};

/// What is registered in a module, in order: key and module, wrappers taken off.
std::vector<std::pair<Ref<>, Ref<>>> children_of(Borrowed<> module);
/// The one under this key; null if there is none.
Ref<> child_of(Borrowed<> module, Borrowed<> key);

/// The module inside of wrappers that compile it, else itself.
Ref<> unwrapped(Borrowed<> module);
/// `torch.compile`'s wrapper, whose call is a module call of its own around that of the module in it.
bool is_transparent(Borrowed<> module);

}  // namespace stator::track
