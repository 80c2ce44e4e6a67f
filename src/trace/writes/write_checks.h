/// Writes that PyTorch would refuse in the middle of the graph, or that a graph can't make: they break the graph.
#pragma once

#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

class AutogradViews;

/// Breaks the graph if an operation may not write to a tensor. `is_recorded` says that autograd records the operation.
void expect_writable(Tracer& tracer, AutogradViews& views, TensorValue* tensor, bool is_recorded);
/// Breaks the graph and discards the capture if a tensor is a row that iterating over a tensor gave, or a view of one:
/// the program has views of one `unbind` there.
void expect_no_row(const TensorValue* tensor);
/// Breaks the graph if a tensor is the plain tensor of a subclass from outside. The graph has a view of that one: it
/// sees writes through the view, but not changes of metadata.
void expect_no_subclass(Tracer& tracer, const TensorValue* tensor);
/// Breaks the graph if two tensors overlap in their storage without being the same part of it.
void expect_no_partial_overlap(Tracer& tracer, const TensorValue* one, const TensorValue* other);

}  // namespace stator
