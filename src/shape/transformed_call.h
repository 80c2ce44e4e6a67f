/// Metadata of the results of operations inside of function transforms (`torch.vmap`, `torch.func.grad`, ...). No rule
/// answers: the operation runs on FakeTensors that functorch has wrapped as it will wrap the real ones, inside of the
/// same levels. So sizes without the batch dimension, strides, `requires_grad` of the level and the transforms' own
/// errors are PyTorch's.
#pragma once

#include "base/arena.h"
#include "shape/fake_call.h"
#include "shape/infer.h"
#include "torch/function_transforms.h"

namespace stator::shape {

struct TransformedCall {
    Answer answer;
    Ref<> returned;  // with FakeTensors in it
};

/// The arena keeps what the answer points to. Throws PythonError if PyTorch rejects the arguments, and `GaveUp`.
TransformedCall infer_in_transform(Arena& arena, torch_room::TransformLevels& levels, const Question& question,
                                   const FakeOf& fake_of);

/// The result of a function that asks for, or changes, the state of functorch: a plain object.
Ref<> call_in_transform(torch_room::TransformLevels& levels, const Question& question, const FakeOf& fake_of);

}  // namespace stator::shape
