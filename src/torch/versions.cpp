#include "torch/versions.h"

#include <torch/headeronly/version.h>

namespace stator::torch_room {

namespace {

constexpr bool is_before(int major, int minor) {
    return TORCH_VERSION_MAJOR < major || (TORCH_VERSION_MAJOR == major && TORCH_VERSION_MINOR < minor);
}

}  // namespace

bool quantile_reads_its_numbers() {
    return is_before(2, 12);
}

bool decomposed_lstm_is_wrong() {
    return is_before(2, 13);
}

bool fused_attention_takes_three_dimensions() {
    return !is_before(2, 14);
}

}  // namespace stator::torch_room
