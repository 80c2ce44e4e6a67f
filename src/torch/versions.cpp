#include "torch/versions.h"

#include <torch/headeronly/version.h>

namespace stator::torch_room {

bool fake_quantile_reads_its_number() {
    return TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12;
}

}  // namespace stator::torch_room
