/// What differs between the versions of PyTorch, where nothing but the version tells.
#pragma once

namespace stator::torch_room {

/// `quantile(x, 0.5)` makes a tensor of the number and then compares its contents. FakeTensor can't do that
/// before 2.12, so no backend that works with FakeTensor compiles it.
bool fake_quantile_reads_its_number();

}  // namespace stator::torch_room
