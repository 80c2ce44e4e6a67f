/// The options of `stator.compile` for a callable.
#pragma once

#include <optional>

#include "base/ref.h"
#include "source/dynamic_policy.h"

namespace stator {

struct CompileOptions {
    Ref<> backend;  // backend(graph_module, example_inputs) -> callable
    bool fullgraph = false;
    bool registers_attributes = false;  // parameters and buffers become attributes of the graph module
    DynamicShapes dynamic_shapes = DynamicShapes::Automatic;
    std::optional<long> recompile_limit;  // in place of the setting
    Ref<> listener;                       // called with the report of every capture; may be empty
    Ref<> before_capture;                 // called before every capture; may be empty
    Ref<> guard_filter;                   // decides which guards are checked; may be empty
    bool is_isolated = false;             // other callables do not use its entries: `isolate_recompiles=True`
    long region = -1;                     // the number that torch gave to such a callable
};

}  // namespace stator
