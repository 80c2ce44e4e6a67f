/// Answers questions without a rule by running the operation on FakeTensors.
#pragma once

#include "base/arena.h"
#include "shape/infer.h"
#include "shape/store.h"

namespace stator::shape {

/// Objects that the answer points to are added to `kept`; its metadata is interned in `store`. Throws `PythonError`
/// with PyTorch's exception set if PyTorch rejects the arguments. Reads no data, leaves the random state unchanged and
/// records no history.
Answer infer_with_fake_tensors(Store& store, const Question& question, std::vector<Ref<>>& kept);

/// Whether it is a query that a FakeTensor answers with the same plain value as the real tensor, because it reads only
/// metadata. Others would expose the fake: its identity, its memory, its base.
bool asks_for_metadata(const Question& question);

}  // namespace stator::shape
