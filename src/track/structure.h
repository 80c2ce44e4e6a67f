/// Which module is registered where. Found by walking the modules, kept from one tracker to the next, and compared with
/// the modules themselves when it is used. Nothing here keeps a module alive. Everything needs the GIL.
///
/// Compiled wrappers (`torch.compile`, `stator.compile`) are replaced by the module in
/// them.
#pragma once

#include <cstdint>
#include <memory>
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

/// A known module. Identity is by this object, because the address of a freed module may be reused.
struct KnownModule {
    Ref<> weak;
    std::vector<Registration> registered;  // as found; may be out of date
    std::uint64_t walk = 0;                // the last walk that visited it, 0 if none did

    /// The module, null if it was freed.
    Ref<> module() const;
    bool is(Borrowed<> object) const { return module().get() == object.get(); }
};
using Known = std::shared_ptr<KnownModule>;

Known know(Borrowed<> module);
/// Finds everything that is registered below `root`, again if it is out of date.
void learn(const Known& root);

/// The name of `module` below `ancestor`, such as `layers.0`; the shortest if there are several, the first of those.
/// Null if it is not registered there now, or was not found there yet.
Ref<> name_below(const Known& ancestor, const Known& module);

/// What is registered in a module, in order: key and module.
std::vector<std::pair<Ref<>, Ref<>>> children_of(Borrowed<> module);

/// The module that a call of `module` is attributed to: the wrapped module, if it is the wrapper of `torch.compile`,
/// whose call is a module call around that of the module, which may not happen at all; null
/// if it is a graph that a compiler made; else itself.
Ref<> called_by(Borrowed<> module);

}  // namespace stator::track
