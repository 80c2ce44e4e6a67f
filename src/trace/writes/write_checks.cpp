#include "trace/writes/write_checks.h"

#include <algorithm>
#include <vector>

#include "torch/tensor.h"
#include "trace/recorder/autograd_views.h"
#include "trace/writes/input_writes.h"
#include "value/torch_modes.h"

namespace stator {

namespace {

/// Whether elements of the tensor share memory, as those of an expanded tensor or of overlapping windows. May be true
/// for unusual strides without shared memory.
bool has_shared_elements(const torch_room::TensorMeta& meta) {
    std::vector<std::pair<Dim, Dim>> dimensions;  // stride and size
    for (std::size_t i = 0; i < meta.strides.size(); ++i) {
        if (known_equal(meta.sizes[i], 0)) return false;
        if (!known_less(meta.sizes[i], 2)) dimensions.emplace_back(meta.strides[i], meta.sizes[i]);
    }
    std::ranges::sort(dimensions, {}, [](const auto& one) { return std::pair(one.first.hint(), one.second.hint()); });
    Dim end = 0;  // the last offset that the dimensions so far reach
    for (auto [stride, size] : dimensions) {
        if (!typically_less(end, stride)) return true;
        end += stride * (size - 1);
    }
    return false;
}

bool depends_on_data(const torch_room::TensorMeta& meta) {
    auto is_unbacked = [](Dim dim) { return dim.is_unbacked(); };
    return meta.storage_offset.is_unbacked() || std::ranges::any_of(meta.sizes, is_unbacked) ||
           std::ranges::any_of(meta.strides, is_unbacked);
}

bool overlaps_in_part(const TensorValue* one, const TensorValue* other) {
    if (one == other || base_of(one) != base_of(other)) return false;
    const torch_room::TensorMeta &left = *one->meta, &right = *other->meta;
    // PyTorch raises when the graph runs.
    if (depends_on_data(left) || depends_on_data(right)) return false;
    if (left.storage_offset == right.storage_offset && left.sizes == right.sizes && left.strides == right.strides)
        return false;
    auto end = [](const torch_room::TensorMeta& meta) {
        Dim last = meta.storage_offset;
        for (std::size_t i = 0; i < meta.sizes.size(); ++i) last += (meta.sizes[i] - 1) * meta.strides[i];
        return last + 1;
    };
    return left.storage_offset < end(right) && right.storage_offset < end(left);
}

/// Whether a tensor from outside, or one that it is a view of, does not allow writes whether they are recorded or not.
/// Guards the autograd state of those that do.
bool is_protected_outside(Tracer& tracer, TensorValue* tensor) {
    for (TensorValue* base = tensor; base != nullptr; base = base->view_of) {
        if (base->outside == nullptr || !base->meta->requires_grad) continue;
        // PyTorch may allow the write, but autograd raises when the program uses the view afterwards.
        if (torch_room::read_autograd_state(base->outside).is_loose_view) return true;
        // A write to an input that autograd does not record: aot_autograd puts other values into it.
        if (tracer.run_by() == Tracer::RunBy::Compiler && tracer.modes().current().grad && base != tensor &&
            !tensor->meta->requires_grad)
            return true;
        guard_autograd_state(tracer, base);
    }
    return false;
}

/// Whether PyTorch refuses to write to a tensor in an operation that autograd records.
bool refuses_recorded_write(Tracer& tracer, TensorValue* tensor) {
    for (; tensor != nullptr; tensor = tensor->view_of) {
        if (tensor->refuses_writes || (tensor->meta->requires_grad && tensor->meta->is_leaf)) return true;
        if (tensor->outside != nullptr) {
            if (torch_room::read_autograd_state(tensor->outside).refuses_writes) return true;
            guard_autograd_state(tracer, tensor);
        }
        // Autograd does not know that it is a view.
        if (tensor->is_detached) return false;
        if (tensor->view_of != nullptr && tensor->view_of->meta->requires_grad && !tensor->meta->requires_grad)
            return false;
    }
    return false;
}

}  // namespace

void expect_writable(Tracer& tracer, AutogradViews& views, TensorValue* tensor, bool is_recorded) {
    if (has_shared_elements(*tensor->meta))
        tracer.break_graph(
            BreakKind::OperationFails,
            "an in-place operation on a tensor whose elements alias each other (e.g. from expand); clone it first");
    if (!is_protected_outside(tracer, tensor) && !(is_recorded && refuses_recorded_write(tracer, tensor))) return;
    views.check_refused_write(tensor);
    tracer.break_graph(BreakKind::OperationFails,
                       "an in-place operation on a leaf that requires grad, or on a view that autograd can't track");
}

void expect_no_row(const TensorValue* tensor) {
    for (; tensor != nullptr; tensor = tensor->view_of)
        if (tensor->is_row)
            throw Break{BreakKind::OperationFails,
                        "an in-place operation on a tensor obtained by iterating over another tensor", false};
}

void expect_no_subclass(Tracer& tracer, const TensorValue* tensor) {
    const TensorValue* base = base_of(tensor);
    auto is_wrapper = [](const TensorValue* value) { return value->meta->prototype != nullptr; };
    // A wrapper that the program has made of tensors shares memory with all of them.
    if ((base->is_of_object && !is_wrapper(base)) || (is_wrapper(tensor) && !is_wrapper(base)))
        tracer.break_graph(BreakKind::UnsupportedTensor, "an in-place operation on a tensor subclass");
}

void expect_no_partial_overlap(Tracer& tracer, const TensorValue* one, const TensorValue* other) {
    if (overlaps_in_part(one, other))
        tracer.break_graph(BreakKind::OperationFails,
                           "an operation writes to memory that partly overlaps another of its arguments");
}

}  // namespace stator
