/// Higher-order operations of PyTorch (`torch.ops.higher_order`): operations that run functions. Those that are
/// captured become nodes of the graph, with the functions as subgraphs.
#pragma once

#include <optional>

#include "value/tracer.h"

namespace stator {

class Handlers;

/// Whether instances of a class are higher-order operations.
bool is_higher_order_operation(PyTypeObject* type);
/// Calls one; nothing if it is not captured.
std::optional<Outcome> call_higher_order(Tracer& tracer, PyObject* operation, const Arguments& arguments);

/// Registers the functions of PyTorch that call them.
void register_higher_order(Handlers& handlers);
void register_flex_attention(Handlers& handlers);

// The operations, each in a file of its family.
Outcome call_cond(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_wrap(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_wrap_with_grad_mode(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_strict_mode(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_hints_wrapper(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_base_operation(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_map(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_scan(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_associative_scan(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_flex_attention(Tracer& tracer, PyObject* operation, const Arguments& arguments);
Outcome call_while_loop(Tracer& tracer, PyObject* operation, const Arguments& arguments);

/// A call of a function that is marked by `torch.compiler.nested_compile_region`.
Outcome call_nested_region(Tracer& tracer, const Arguments& arguments);

}  // namespace stator
