/// Which module is registered where. Found by walking the modules, kept from one tracker to the next, and compared with
/// the modules themselves when it is used. Nothing here keeps a module alive. Everything needs the interpreter's lock.
///
/// Wrappers that compile a module (`torch.compile`, `stator.compile`) are looked through: the module in them stands in
/// their place.
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

/// A module that was seen. It is its own identity: the address of a module that is gone may be another's by now.
struct KnownModule {
    Ref<> weak;
    std::vector<Registration> registered;  // as found; they may be out of date
    std::uint64_t walk = 0;                // the last walk that came by, 0 if none did

    /// The module, null if it is gone.
    Ref<> module() const;
    bool is(Borrowed<> object) const { return module().get() == object.get(); }
};
using Known = std::shared_ptr<KnownModule>;

Known know(Borrowed<> module);
/// Finds everything that is registered below `root`, again if need be.
void learn(const Known& root);

/// The name of `module` below `ancestor`, such as `layers.0`; the shortest if there are several, the first of those.
/// Null if it is not registered there now, or was not found there yet.
Ref<> name_below(const Known& ancestor, const Known& module);

/// What is registered in a module, in order: key and module.
std::vector<std::pair<Ref<>, Ref<>>> children_of(Borrowed<> module);

/// What is called when PyTorch tells of a call of `module`: the module that it wraps, if it is `torch.compile`'s
/// wrapper, whose call is a module call of its own around that of the module, if that is called at all; nothing (null)
/// if it is a graph that a compiler made; else itself.
Ref<> called_by(Borrowed<> module);

}  // namespace stator::track
