/// Questions that a guard asks again: `ContextVar.get`, `type.__subclasses__`, a switch of PyTorch that has no other
/// guard. A query is a Python object with a C function and its argument; the attribute `answer` is what the function
/// returns now, so that the answer is a source like any other.
#pragma once

#include "source/source.h"

namespace stator {

/// The source of the answer, and the answer now: empty if the function raises, for which the source is absent. The
/// function has no side effects and runs no code of the program. It is called without arguments if there is none.
struct Answer {
    Source* source;
    Ref<> object;
};
Answer ask(Provenance& provenance, Borrowed<> function, Borrowed<> argument = nullptr);
/// The source of an answer that is known to be `answer`.
Source* query(Provenance& provenance, Borrowed<> function, Borrowed<> argument, Borrowed<> answer);

}  // namespace stator
