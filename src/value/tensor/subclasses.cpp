#include "value/tensor/subclasses.h"

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/fake.h"
#include "torch/jagged.h"
#include "torch/known.h"
#include "torch/remade_wrappers.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/kinds/constant.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/jagged_tensors.h"
#include "value/tensor/made_wrappers.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

namespace {

TensorValue* outside_tensor(Tracer& tracer, Source* source, PyObject* outside) {
    auto* tensor = tracer.make<TensorValue>();
    tensor->outside = outside;
    tensor->source = source;
    tensor->realized = false;
    return tensor;
}

using torch_room::DynamicSizes;
using torch_room::Prototype;
using torch_room::TensorMeta;

TensorMeta meta_of_wrapper(Tracer& tracer, TensorObjectValue* wrapper, TensorValue* tensor);

/// An inner tensor, where it is. Breaks the graph if it is not an attribute like any other.
Value* part_of(Tracer& tracer, TensorObjectValue* wrapper, Borrowed<> name) {
    Value* part = torch_room::is_jagged_class(wrapper->class_) ? kept_part(tracer, wrapper, name) : nullptr;
    if (part == nullptr) {
        Outcome read = operations::get_attribute(tracer, wrapper, name);
        part = read.is_pending() ? nullptr : read.value();
    }
    const bool is_there = part != nullptr && part->source != nullptr && part->object() != nullptr;
    if (!is_there || !torch_room::is_tensor(part->object()))
        tracer.break_graph(BreakKind::UnsupportedTensor, "the inner tensor '" + std::string(utf8(name)) +
                                                             "' of class " + type_name(wrapper->class_) +
                                                             " is computed when it is read");
    return part;
}

/// The metadata of an inner tensor, which are guarded.
TensorMeta meta_of_part(Tracer& tracer, Value* part) {
    TensorValue* tensor = outside_tensor(tracer, part->source, part->object());
    TensorMeta meta = torch_room::read_meta(part->object());
    auto* wrapper = cast<TensorObjectValue>(part);
    if (wrapper != nullptr && wrapper->is_wrapper()) {
        tensor->is_of_object = true;
        meta = meta_of_wrapper(tracer, wrapper, tensor);
    }
    TensorMeta changing = meta;
    const DynamicSizes* dynamic = make_sizes_dynamic(tracer, tensor, changing);
    tracer.guard({.kind = GuardKind::Tensor, .source = part->source, .expected = part->object(), .dynamic = dynamic});
    return changing;
}

/// The metadata of a wrapper from outside, with the sizes of this call, and what it consists of, with sizes that
/// change. Guards that: `__tensor_flatten__` runs in each check, the inner tensors are read where they are.
TensorMeta meta_of_wrapper(Tracer& tracer, TensorObjectValue* wrapper, TensorValue* tensor) {
    TensorMeta meta = torch_room::read_meta(wrapper->outside);
    Prototype prototype{torch_room::fake_wrapper(torch_room::fake_mode_of_thread(), wrapper->outside)};
    const bool is_remade =
        torch_room::is_jagged_class(wrapper->class_) || torch_room::gives_back_its_class(prototype.fake);
    if (!is_remade) tracer.recorder().keep_as_captured();  // a compiler would call the base class
    meta.prototype = tracer.keep(torch_room::make_prototype(prototype));
    if (wrapper->source->access == Access::Pinned) return meta;
    tracer.guard({GuardKind::Flattened, wrapper->source, tracer.keep(torch_room::flattened(wrapper->outside))});
    // Its symbols come before those of the inner tensors, as in torch._dynamo.
    TensorMeta all = meta;
    make_sizes_dynamic(tracer, tensor, all);
    for (const Ref<>& name : torch_room::inner_names(wrapper->outside)) {
        Value* part = part_of(tracer, wrapper, name);
        prototype.parts.emplace_back(name, meta_of_part(tracer, part));
        if (PyObject* inner = prototype.parts.back().second.prototype) prototype.kept.push_back(Ref<>::share(inner));
    }
    if (torch_room::is_jagged_class(wrapper->class_))
        all.sizes = meta.sizes = sizes_of_jagged(tracer, wrapper, meta, prototype.parts);
    // (Where no size changes, the FakeTensors say it all.)
    bool changes = all.is_dynamic();
    for (const auto& [name, part] : prototype.parts) changes = changes || part.is_dynamic();
    if (changes) meta.prototype = tracer.keep(torch_room::make_prototype(std::move(prototype)));
    return meta;
}

}  // namespace

namespace {

/// What is in the dict or in a slot of an instance; empty if there is nothing.
Ref<> stored_attribute(PyObject* instance, Borrowed<> name) {
    PyObject* slot = cpython::lookup_in_mro(Py_TYPE(instance), name);
    if (slot != nullptr && Py_TYPE(slot) == &PyMemberDescr_Type) {
        Ref<> held = Ref<>::steal(PyObject_GenericGetAttr(instance, name));
        if (!held) PyErr_Clear();
        return held;
    }
    PyObject* dict = cpython::instance_dict_if_made(instance);
    PyObject* held = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
    return Ref<>::share(held);
}

}  // namespace

bool TensorObjectValue::is_wrapper() const {
    return payload != nullptr ? payload->meta->prototype != nullptr : torch_room::is_wrapper_class(class_);
}

void TensorObjectValue::realize(Tracer& tracer) {
    TensorValue* tensor = outside_tensor(tracer, source, outside);
    tensor->is_of_object = true;
    if (torch_room::is_wrapper_class(class_)) {
        try {
            tensor->meta = tracer.arena().make<TensorMeta>(meta_of_wrapper(tracer, this, tensor));
        } catch (const PythonError&) {
            PyErr_Clear();
            tracer.break_graph(BreakKind::UnsupportedTensor,
                               "the __tensor_flatten__ of class " + type_name(class_) + " can't be guarded");
        }
    }
    tracer.realize(tensor);
    set_undoably(tracer, payload, tensor);
}

Value* TensorObjectValue::own_attribute(Tracer& tracer, Borrowed<> name) {
    if (torch_room::is_jagged_class(class_))
        if (Value* known = own_attribute_of_jagged(tracer, this, name)) return known;
    Value* own = ObjectValue::own_attribute(tracer, name);
    if (own != nullptr || source != nullptr || is_unfinished() || !is_wrapper()) return own;
    for (auto& [key, part] : parts)
        if (key == name.get()) return part;
    const Prototype& prototype = torch_room::prototype_of(*payload->meta);
    for (auto& [key, number] : prototype.numbers)
        if (key.get() == name.get()) return size_value(tracer, number);
    PyObject* const instance = (prototype.symbolic ? prototype.symbolic : prototype.fake).get();
    const Ref<> kept = stored_attribute(instance, name);
    PyObject* const held = kept.get();
    if (held == nullptr) return nullptr;
    if (is_constant(held)) return tracer.fresh(Ref<>::share(held));
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
        std::vector<std::int32_t> taken;
        for (Value* value : layout) taken.push_back(value->rebuild(plan));
        plan.add_to(made, PlanOp::Call, std::move(taken), maker);
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
    if (tensor->meta->prototype == nullptr) return tensor;
    auto* object = tracer.make<TensorObjectValue>(tensor->meta->python_class);
    object->payload = tensor;
    return object;
}

std::string TensorObjectValue::print() const {
    return type_name(class_) + "(" + (payload == nullptr ? "..." : payload->print()) + ")";
}

}  // namespace stator
