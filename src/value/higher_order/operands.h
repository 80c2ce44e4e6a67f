/// Operands of higher-order operations, and the metadata of their results.
#pragma once

#include <span>
#include <vector>

#include "value/higher_order/subgraph_trace.h"

namespace stator {

/// Nodes as arguments.
std::vector<graph::Argument> as_arguments(std::span<graph::Node* const> nodes);
/// A tuple or list argument of these.
graph::Argument as_container(Tracer& tracer, std::vector<graph::Argument> items,
                             graph::Argument::Kind kind = graph::Argument::Kind::Tuple);
/// Values as arguments.
std::vector<graph::Argument> as_arguments(Tracer& tracer, std::span<Value* const> values);

/// Whether autograd records an operation with these operands.
bool needs_gradient(Tracer& tracer, std::span<const graph::Argument> operands);

/// The metadata of a result of an operation that autograd sees as one node: results require a gradient if an operand
/// does, and have their own memory.
const torch_room::TensorMeta* result_meta(Tracer& tracer, const torch_room::TensorMeta& made, bool needs_gradient);

/// What two subgraphs of one operation take: first what both read, then what each of them reads, with a suffix to its
/// name; sorted by name within each.
SubgraphModule merged_operands(const Subgraph& left, const char* left_suffix, const Subgraph& right,
                               const char* right_suffix);

/// These tensors are the results of an operation from now on. Its subgraph made them, with these metadata.
void give_own_results(Tracer& tracer, graph::Node* operation, std::span<TensorValue* const> results,
                      bool needs_gradient);

/// The items of a tuple or list.
std::vector<Value*> items_of(Tracer& tracer, const SubgraphTrace& trace, Value* value);

}  // namespace stator
