/// Long walks over objects that lie anywhere in memory: what will be looked at soon is asked for now.
#pragma once

#include <cstddef>

namespace stator {

constexpr std::ptrdiff_t kLookAhead = 12;

/// The cache line at `address`, which need not be readable.
inline void prefetch(const void* address) {
    __builtin_prefetch(address);
}

/// Calls `ask` for the item that comes `kLookAhead` after `item`, if there is one.
template <class Item, class Ask>
void look_ahead(const Item* item, const Item* end, Ask ask) {
    if (end - item > kLookAhead) ask(item[kLookAhead]);
}

}  // namespace stator
