/// What differs between the versions of PyTorch, where nothing but the version tells.
#pragma once

namespace stator::torch_room {

/// Before 2.12, `quantile` looks at the numbers `q` that it is asked for. FakeTensor can't do that, so no backend that
/// works with it compiles a quantile.
bool quantile_reads_its_numbers();

/// Before 2.13, PyTorch's own decomposition of `lstm`, which backends compile, gives the states one dimension too many.
bool decomposed_lstm_is_wrong();

/// Since 2.14, the fused kernel of attention on the CPU is also used without a dimension of batches.
bool fused_attention_takes_three_dimensions();

}  // namespace stator::torch_room
