/// Differences between versions of PyTorch that only the version number tells.
#pragma once

namespace stator::torch_room {

/// Before 2.12, `quantile` reads the data of `q`. FakeTensor can't do that, so backends based on it can't compile a
/// quantile.
bool quantile_reads_its_numbers();

/// Before 2.13, PyTorch's decomposition of `lstm`, which backends compile, returns states with one dimension too many.
bool decomposed_lstm_is_wrong();

/// Since 2.14, the fused attention kernel on the CPU also supports inputs without a batch dimension.
bool fused_attention_takes_three_dimensions();

}  // namespace stator::torch_room
