/// Autocast as the program sees it.
#pragma once

#include "torch/meta.h"
#include "value/tracer.h"

namespace stator {

/// The device type that functions of autocast take as a string.
torch_room::DeviceKind autocast_device(Tracer& tracer, Borrowed<> name);

}  // namespace stator
