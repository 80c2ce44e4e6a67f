/// The remaining size of the thread's stack. Values can be nested deeply, or contain themselves, and visiting them
/// recurses.
#pragma once

#include <stdexcept>

namespace stator {

/// Whether too little is left for a call into Python or PyTorch.
bool is_stack_low();

struct NestedTooDeeply : std::runtime_error {
    NestedTooDeeply() : std::runtime_error("objects are nested too deeply") {}
};

}  // namespace stator
