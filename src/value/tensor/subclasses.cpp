#include "value/tensor/subclasses.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/kinds/constant.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/made_wrappers.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Guards what a wrapper consists of. `__tensor_flatten__` runs in each check, its inner tensors are read where they
/// are.
void guard_parts(Tracer& tracer, TensorObjectValue* wrapper) {
    PyObject* const flattened = tracer.keep(torch_room::flattened(wrapper->outside));
    tracer.guard({GuardKind::Subclass, wrapper->source, flattened, torch_room::kFlattened});
    for (const Ref<>& name : torch_room::inner_names(wrapper->outside)) {
        Outcome read = operations::get_attribute(tracer, wrapper, name);
        Value* part = read.is_pending() ? nullptr : read.value();
        if (part == nullptr || part->source == nullptr || part->object() == nullptr)
            tracer.break_graph(BreakKind::UnsupportedTensor, "the inner tensor '" + std::string(utf8(name)) +
                                                                 "' of class " + type_name(wrapper->class_) +
                                                                 " is computed when it is read");
        if (part->source->access != Access::Pinned) tracer.guard({GuardKind::Tensor, part->source, part->object()});
        auto* inner = cast<TensorObjectValue>(part);
        if (inner != nullptr && inner->is_wrapper()) guard_parts(tracer, inner);
    }
}

}  // namespace

bool TensorObjectValue::is_wrapper() const {
    return payload != nullptr ? torch_room::prototype_of(*payload->meta) != nullptr
                              : torch_room::is_wrapper_class(class_);
}

void TensorObjectValue::realize(Tracer& tracer) {
    if (source->access != Access::Pinned && torch_room::is_wrapper_class(class_)) {
        try {
            guard_parts(tracer, this);
        } catch (const PythonError&) {
            PyErr_Clear();
            tracer.break_graph(BreakKind::UnsupportedTensor,
                               "the __tensor_flatten__ of class " + type_name(class_) + " can't be guarded");
        }
    }
    auto* tensor = tracer.make<TensorValue>();
    tensor->outside = outside;
    tensor->source = source;
    tensor->is_of_object = true;
    tensor->realized = false;
    tracer.realize(tensor);
    set_undoably(tracer, payload, tensor);
}

Value* TensorObjectValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    Value* own = ObjectValue::own_attribute(tracer, name);
    if (own != nullptr || source != nullptr || is_unfinished() || !is_wrapper()) return own;
    for (auto& [key, part] : parts)
        if (key == name.get()) return part;
    PyObject* dict = cpython::instance_dict_if_made(torch_room::prototype_of(*payload->meta));
    PyObject* held = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
    if (held == nullptr) return nullptr;
    if (is_constant(held)) return tracer.constant(held);
    if (!torch_room::is_tensor(held))
        tracer.break_graph(
            BreakKind::UnsupportedTensor,
            "attribute '" + std::string(utf8(name)) + "' of a new tensor of class " + type_name(class_) + " is read");
    static PyObject* const get_attribute = imported("builtins", "getattr");
    Value* part = tracer.recorder().emit_function(get_attribute,
                                                  Arguments::of(static_cast<Value*>(payload), tracer.constant(name)));
    parts.emplace_back(tracer.keep(Ref<>::share(name.get())), part);
    tracer.on_undo([this] { parts.pop_back(); });
    return part;
}

void TensorObjectValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    // It may be an inner tensor, or part of the context.
    if (!is_unfinished() && is_wrapper())
        tracer.break_graph(BreakKind::UnsupportedTensor, "attribute '" + std::string(utf8(name)) +
                                                             "' of a tensor of class " + type_name(class_) + " is set");
    ObjectValue::set_own_attribute(tracer, name, value);
}

bool TensorObjectValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    if (!is_unfinished() && is_wrapper())
        tracer.break_graph(
            BreakKind::UnsupportedTensor,
            "attribute '" + std::string(utf8(name)) + "' of a tensor of class " + type_name(class_) + " is deleted");
    return ObjectValue::delete_own_attribute(tracer, name);
}

TensorValue* TensorObjectValue::plain(Tracer& tracer) {
    if (has_active_torch_function(tracer, this))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor of class " + type_name(class_) +
                                                             " is an argument of an operation in which Stator does "
                                                             "not inline __torch_function__");
    return tensor(tracer);
}

TensorValue* TensorObjectValue::tensor(Tracer& tracer) {
    tracer.realize(this);
    if (is_unfinished()) make_node(tracer, this);
    return payload;
}

bool TensorObjectValue::truth(Tracer& tracer) {
    return plain(tracer)->truth(tracer);
}

std::ptrdiff_t TensorObjectValue::length(Tracer& tracer) {
    return plain(tracer)->length(tracer);
}

Outcome TensorObjectValue::iterate(Tracer& tracer) {
    return plain(tracer)->iterate(tracer);
}

Outcome TensorObjectValue::get_item(Tracer& tracer, Value* key) {
    return plain(tracer)->get_item(tracer, key);
}

Outcome TensorObjectValue::assign_item(Tracer& tracer, Value* key, Value* value) {
    return plain(tracer)->assign_item(tracer, key, value);
}

Value* TensorObjectValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    return plain(tracer)->binary(tracer, op, unwrapped(tracer, other), reflected);
}

Value* TensorObjectValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    TensorValue* tensor = plain(tracer);
    return with_its_object(tensor->in_place(tracer, op, unwrapped(tracer, other)), Arguments::of(this));
}

Value* TensorObjectValue::unary(Tracer& tracer, UnaryOperator op) {
    return plain(tracer)->unary(tracer, op);
}

Outcome TensorObjectValue::compare(Tracer& tracer, Comparison op, Value* other) {
    return plain(tracer)->compare(tracer, op, unwrapped(tracer, other));
}

graph::Argument TensorObjectValue::as_argument(Tracer& tracer) {
    return plain(tracer)->as_argument(tracer);
}

int TensorObjectValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return rebuild_outside(plan, this);
    static PyObject* const as_subclass =
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::known().tensor_class), "as_subclass");
    if (is_unfinished()) {
        int made = plan.reserve(this);
        plan.add_to(made, PlanOp::Call, {}, maker);
        rebuild_attributes(plan, made, this);
        return made;
    }
    int tensor = payload->rebuild(plan);
    if (is_wrapper()) {
        plan.remember(this, tensor);
        // (The program may have the inner tensors themselves, or have set further attributes.)
        rebuild_attributes(plan, tensor, this);
        return tensor;
    }
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {tensor, plan.constant(reinterpret_cast<PyObject*>(class_))}, as_subclass);
    rebuild_attributes(plan, to, this);
    return to;
}

Value* seen_by_program(Tracer& tracer, TensorValue* tensor) {
    if (torch_room::prototype_of(*tensor->meta) == nullptr) return tensor;
    auto* object = tracer.make<TensorObjectValue>(tensor->meta->python_class);
    object->payload = tensor;
    return object;
}

std::string TensorObjectValue::print() const {
    return type_name(class_) + "(" + (payload == nullptr ? "..." : payload->print()) + ")";
}

}  // namespace stator
