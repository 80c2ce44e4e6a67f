/// Questions without a rule are put to PyTorch: the operation runs on FakeTensors.
#pragma once

#include "base/arena.h"
#include "shape/infer.h"
#include "shape/store.h"

namespace stator::shape {

/// Objects that the answer points to are added to `kept`; its metadata is interned in `store`. Throws `PythonError`
/// with the exception of PyTorch set where it rejects the arguments. Touches no data, no random state and leaves no
/// history.
Answer ask_fake_tensors(Store& store, const Question& question, std::vector<Ref<>>& kept);

}  // namespace stator::shape
