/// Caches of compiled callables that were freed. A program that compiles the same function anew, in a loop or in each
/// call of a method, gets the entries of the last time: the new callable takes over the cache of the freed one.
///
/// An orphan keeps backends, graphs and code alive, never the objects of the program: they are found by weak references
/// only. There are few, and `reset` frees them. Only functions of imported modules have orphans: the globals of others,
/// which guards keep, have to be freed with them. Guards keep classes as well, and a class that was defined in a
/// function keeps what its methods close over: such an orphan is freed with what was compiled, its subject.
#pragma once

#include <memory>

#include "run/cache.h"

namespace stator::orphans {

/// The callable of this cache is being freed. `subject` is the function that was compiled, or the object whose method
/// it was. May run any code.
void leave(std::unique_ptr<EntryCache> cache, Ref<> subject);

/// Moves the entries of an orphan with the same use and options to a new cache, if there is one; of a closure only if
/// one of the entries matches the frame. From all such orphans it learns what changes between calls. May run any code.
bool take_over(EntryCache& cache, cpython::Frame* frame, const Ref<>& forced_backend);

/// Frees all. Runs any code.
void clear();

}  // namespace stator::orphans
