/// How much is left of the thread's stack. Values can be nested as deeply as memory allows, or in themselves, and what
/// walks them recurses.
#pragma once

#include <stdexcept>

namespace stator {

/// Less is left than any call into Python or PyTorch should be made with.
bool is_stack_low();

struct NestedTooDeeply : std::runtime_error {
    NestedTooDeeply() : std::runtime_error("objects are nested too deeply") {}
};

}  // namespace stator
