/// Answers about sizes that change between calls, where there is no rule: the operation runs on FakeTensors whose sizes
/// are symbols of a `ShapeEnv`, filled with what is known so far. Slow: it takes milliseconds.
#pragma once

#include "shape/infer.h"
#include "shape/store.h"

namespace stator::shape {

/// `answer` is right for the sizes of this call. Makes it right for all sizes; what PyTorch compared on the way become
/// relations. False if the operation can't run on symbols, or gives a result that has no such form: then `answer` is
/// unchanged. `kept` receives what the answer points to.
bool generalize(Store& store, const Question& question, Answer& answer, std::vector<Ref<>>& kept);

/// Calls a Python function with a number that changes, as a SymInt. What it compares becomes relations. Throws
/// PythonError.
void decide(Expressions& numbers, const Expression* number, Borrowed<> function);

}  // namespace stator::shape
