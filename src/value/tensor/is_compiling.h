/// Programs that ask whether they are being compiled, and do something else then.
#pragma once

#include "value/value.h"

namespace stator {

/// The answer to the function that runs: it is, as with torch.compile, except for the functions of libraries listed in
/// `compiling.cpp`. A yes is remembered, because the program may fail for it where it would not have failed otherwise.
Value* answer_compiling(Tracer& tracer);

/// Whether a program was told so since this was asked last, in this thread.
bool took_compiling_answer();

/// While it lives, another trace of this thread is under way: one that runs code, which is traced now.
class OuterTraceAside {
  public:
    OuterTraceAside();
    ~OuterTraceAside();
    OuterTraceAside(const OuterTraceAside&) = delete;
    OuterTraceAside& operator=(const OuterTraceAside&) = delete;

  private:
    bool was_told_;
};

}  // namespace stator
