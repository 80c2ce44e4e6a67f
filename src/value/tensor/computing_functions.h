/// Functions of the program that PyTorch calls while the graph runs, or in the backward pass: hooks, and the methods of
/// a `torch.autograd.Function` inside of a function transform. The real function is called, apart from the trace, so it
/// must be a function of its arguments alone: it must neither change anything nor read what the program may change.
#pragma once

#include <string>
#include <vector>

#include "value/kinds/function.h"
#include "value/tracer.h"

namespace stator {

/// How such a function is called.
struct ComputingFunction {
    std::string name;  // for messages
    /// It is called after the captured region, in a backward pass: numbers that it reads may have changed by then.
    bool is_called_later = false;
    /// Its first argument is a context (`ctx`), which it may write to.
    bool has_context = false;
    /// Classes of `torch.autograd.Function` that it may apply: those that have been looked at, and new ones, which the
    /// caller has to look at.
    std::vector<Value*>* applied = nullptr;
};

/// Breaks the graph unless the function only computes (python/stator/computing.py). What it reads is guarded.
void expect_only_computes(Tracer& tracer, FunctionValue* function, const ComputingFunction& how);

}  // namespace stator
