#include "value/tensor/tensor.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "guard/numpy_numbers.h"
#include "torch/dtypes.h"
#include "torch/fake.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/break.h"
#include "value/builtins/builtin.h"
#include "value/builtins/numpy.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/sequence.h"
#include "value/kinds/undoable.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/attributes.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/known_contents.h"
#include "value/tensor/leaves.h"
#include "value/tensor/tensor_indices.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Whether a value can be the other operand of a tensor operator.
bool is_operand(Value* value) {
    if (value->kind == Kind::Tensor) return true;
    PyObject* object = value->kind == Kind::Constant ? value->object() : nullptr;
    return object != nullptr &&
           (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) || is_numpy_number(object));
}

/// Whether a class does not customize operations.
bool is_plain_class(PyTypeObject* type) {
    return type == torch_room::tensor_class() || type == torch_room::parameter_class();
}

}  // namespace

void TensorValue::realize(Tracer& tracer) {
    if (has_new_data)
        tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor is used after its `data` was assigned");
    if (!is_of_object && !is_plain_class(Py_TYPE(outside)))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a tensor of class " + type_name(Py_TYPE(outside)) + " is used");
    const torch_room::DynamicSizes* dynamic = nullptr;
    try {
        // (That of a wrapper subclass is read with its inner tensors.)
        auto* read =
            tracer.arena().make<torch_room::TensorMeta>(meta != nullptr ? *meta : torch_room::read_meta(outside));
        if (is_of_object && meta == nullptr) read->python_class = torch_room::tensor_class();
        dynamic = make_sizes_dynamic(tracer, this, *read);
        meta = read;
    } catch (const PythonError&) {
        // A view whose base was modified in place, for example: PyTorch raises an error wherever it is used.
        PyErr_Clear();
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "PyTorch raises an error when the metadata of a tensor is read");
    }
    const bool is_nested = (meta->dispatch_keys & torch_room::trait::kNested) != 0 && !torch_room::is_jagged(*meta);
    if (is_nested || torch_room::is_quantized(meta->dtype))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a nested or quantized tensor is used");
    const torch_room::AutogradState state = torch_room::read_autograd_state(outside);
    if (state.is_given_up)
        tracer.break_graph(BreakKind::UnsupportedTensor, "a view is used that autograd no longer tracks");
    if (source->access != Access::Pinned)
        tracer.guard({.kind = GuardKind::Tensor, .source = source, .expected = outside, .dynamic = dynamic});
    // In another call autograd may raise an error for it, also where the result of an operation is not used.
    if (state.is_loose_view) guard_autograd_state(tracer, this);
    node = tracer.recorder().add_input(this);
    if (meta->requires_grad && meta->is_leaf) tracer.modes().note_leaf(this);
}

void guard_autograd_state(Tracer& tracer, TensorValue* tensor) {
    if (tensor->outside != nullptr && tensor->source != nullptr)
        tracer.guard({GuardKind::Autograd, tensor->source, tensor->outside});
}

PyTypeObject* TensorValue::type() const {
    if (outside != nullptr) return Py_TYPE(outside);
    return meta != nullptr && meta->python_class != nullptr ? meta->python_class : torch_room::tensor_class();
}

Outcome TensorValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (modes_see_operators(tracer))
        if (auto answer = attribute_under_modes(tracer, this, name)) return *answer;
    if (Value* known = tensor_attribute(tracer, this, name); known != nullptr) return known;
    PyObject* raw = nullptr;
    Value* attribute = class_attribute(tracer, type(), name, &raw);
    if (raw != nullptr &&
        (PyFunction_Check(raw) || Py_TYPE(raw) == &PyMethodDescr_Type || Py_TYPE(raw) == &PyWrapperDescr_Type))
        return tracer.make<MethodValue>(attribute, this);
    // A C function is no descriptor: the `__torch_function__` of parameters.
    if (raw != nullptr && PyCFunction_CheckExact(raw)) return attribute;
    if (name.get() == interned("__class__")) return tracer.constant(reinterpret_cast<PyObject*>(type()));
    if (raw == nullptr && outside != nullptr && source != nullptr) {
        PyObject* dict = cpython::instance_dict(outside);
        if (DictValue* changed = changed_dict(tracer, dict)) {
            if (Value* own = changed->find(tracer, name)) return own;
            raise_no_attribute(tracer, this, name);
        }
        PyObject* held = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
        Source* holder = tracer.provenance().child(source, Access::InstanceDict, nullptr, 0, dict);
        bool is_new = false;
        Source* place = tracer.provenance().child(holder, Access::DictItem, name, 0, held, &is_new);
        if (is_new) tracer.guard({held != nullptr ? GuardKind::Present : GuardKind::Absent, place});
        if (held != nullptr) return tracer.outside(place, held);
    }
    if (raw == nullptr) {
        for (auto& [own, value] : own_attributes)
            if (own == name.get() && value != nullptr) return value;
        raise_no_attribute(tracer, this, name);
    }
    tracer.break_graph(BreakKind::UnsupportedTensor, "attribute '" + std::string(utf8(name)) + "' of a tensor is read");
}

namespace {

/// Sets an attribute of a result, or deletes it: in the trace, and when the graph has computed the tensor.
void change_attribute_of_result(Tracer& tracer, TensorValue* tensor, Borrowed<> name, Value* value) {
    auto place = std::find_if(tensor->own_attributes.begin(), tensor->own_attributes.end(),
                              [&](const auto& attribute) { return attribute.first == name.get(); });
    if (place == tensor->own_attributes.end()) {
        tensor->own_attributes.emplace_back(tracer.keep(Ref<>::share(name.get())), value);
        tracer.on_undo([tensor] { tensor->own_attributes.pop_back(); });
    } else {
        const auto at = place - tensor->own_attributes.begin();
        tracer.on_undo([tensor, at, before = place->second] { tensor->own_attributes[at].second = before; });
        place->second = value;
    }
    tracer.effects().log({PlanOp::SetAttribute, {tensor, value}, name});
}

/// Whether the real tensor of a result is the object that the program has: rows of an iteration and tensors inside of a
/// transform or a backward pass are made anew.
bool keeps_attributes(Tracer& tracer, const TensorValue* tensor) {
    return tensor->source == nullptr && tensor->outside == nullptr && !tensor->is_row && !tensor->is_gradient &&
           !tracer.recorder().is_in_transform() && !tracer.deferred_graphs().is_open();
}

}  // namespace

void TensorValue::set_own_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (keeps_attributes(tracer, this)) return change_attribute_of_result(tracer, this, name, value);
    DictValue* held = source == nullptr ? nullptr : attributes_to_change(tracer, this);
    if (held == nullptr)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "attribute '" + std::string(utf8(name)) + "' of a tensor is set");
    held->put(tracer, tracer.constant(name), value);
    tracer.effects().log({PlanOp::SetAttribute, {this, value}, name});
}

bool TensorValue::delete_own_attribute(Tracer& tracer, Borrowed<> name) {
    if (source == nullptr) {
        for (auto& [own, value] : own_attributes) {
            if (own != name.get() || value == nullptr) continue;
            change_attribute_of_result(tracer, this, name, nullptr);
            return true;
        }
        return false;
    }
    DictValue* held = attributes_to_change(tracer, this);
    if (held == nullptr || held->take(tracer, tracer.constant(name)) == nullptr) return false;
    tracer.effects().log({PlanOp::SetAttribute, {this, nullptr}, name});
    return true;
}

namespace {

/// `x.data = y`: the plan assigns, after the graph, a `y.data` of now, because operations may change the sizes of y.
/// Nothing in the graph may read x any more. PyTorch raises its own errors for tensors that don't fit.
bool assign_data(Tracer& tracer, TensorValue* tensor, Value* value) {
    const auto* given = cast<TensorValue>(value);
    if (given == nullptr || tensor->is_of_object || given->is_of_object) return false;
    if (given == tensor) return true;  // as `module.to(device)` does where nothing has to move
    if (tensor->source == nullptr) return false;
    const torch_room::TensorMeta &now = *tensor->meta, &then = *given->meta;
    if (now.dtype != then.dtype || now.device != then.device || now.layout != then.layout ||
        now.dispatch_keys != then.dispatch_keys || tensor->view_of != nullptr)
        return false;
    if (tracer.deferred_graphs().is_open() || data_function() == nullptr) return false;
    Value* data = tracer.recorder().emit_function(data_function(), Arguments::of(value));
    tracer.guard_distinct(tensor);
    tracer.guard_distinct(value);
    tracer.effects().log({PlanOp::SetAttribute, {tensor, data}, interned("data")});
    set_undoably(tracer, tensor->has_new_data, true);
    set_undoably(tracer, tensor->realized, false);
    return true;
}

}  // namespace

bool TensorValue::set_kept_attribute(Tracer& tracer, Borrowed<> name, Value* value) {
    if (value == nullptr) return false;
    if (modes_see_operators(tracer))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "an attribute of a tensor is set inside of a torch function mode");
    tracer.realize(this);
    tracer.realize(value);
    if (name.get() == interned("requires_grad") && (value->object() == Py_True || value->object() == Py_False)) {
        set_requires_grad(tracer, this, value->object() == Py_True);
        return true;
    }
    if (name.get() == interned("data")) return assign_data(tracer, this, value);
    if (name.get() != interned("grad")) return false;
    if (value->object() != Py_None) {
        // PyTorch's own error is raised for invalid gradients.
        auto* gradient = cast<TensorValue>(value);
        if (gradient == nullptr || gradient == this || gradient->meta->sizes != meta->sizes ||
            gradient->meta->dtype != meta->dtype || gradient->meta->device != meta->device ||
            gradient->meta->layout != meta->layout)
            return false;
    }
    if (source == nullptr && tracer.deferred_graphs().is_open()) return false;
    set_undoably(tracer, set_gradient, value);
    if (source != nullptr) tracer.effects().log({PlanOp::SetAttribute, {this, value}, name});
    return true;
}

Outcome TensorValue::call(Tracer& tracer, const Arguments& arguments) {
    return Value::call(tracer, arguments);
}

Outcome TensorValue::get_item(Tracer& tracer, Value* key) {
    if (Value* part = item_by_tensors(tracer, this, key)) return part;
    auto [part, rest] = symbolic::select(tracer, this, key);
    if (rest == nullptr) return part;
    return tracer.recorder().emit_function(getitem_function(), Arguments::of(part, rest));
}

void TensorValue::set_item(Tracer& tracer, Value* key, Value* value) {
    if (!symbolic::is(value)) tracer.realize(value);
    auto* tensor = cast<TensorValue>(value);
    // Writing through a view can make its base require grad, which shape inference knows only for `[]` itself.
    if (tensor != nullptr && tensor->meta->requires_grad && !meta->requires_grad) symbolic::realize_all(tracer, key);
    auto [part, rest] = symbolic::select(tracer, this, key);
    if (rest == nullptr) rest = tracer.constant(Py_Ellipsis);
    tracer.recorder().emit_function(setitem_function(), Arguments::of(part, rest, value));
}

std::ptrdiff_t TensorValue::length(Tracer& tracer) {
    if (meta->sizes.empty()) tracer.raise(PyExc_TypeError, "len() of a 0-d tensor");
    return meta->sizes[0].value();
}

bool TensorValue::truth(Tracer& tracer) {
    if (auto known = known_truth(tracer, this)) return *known;
    tracer.break_graph(BreakKind::DataDependent, "a tensor is used as a condition (bool(tensor))");
}

Outcome TensorValue::iterate(Tracer& tracer) {
    if (meta->sizes.empty()) tracer.raise(PyExc_TypeError, "iteration over a 0-d tensor");
    if (meta->prototype != nullptr)
        return operations::iterate(tracer, tracer.recorder().emit_method(interned("unbind"), Arguments::of(this)));
    return tracer.make<ItemsIterator>(&PyTupleIter_Type, tracer.recorder().emit_rows(this));
}

Outcome TensorValue::contains(Tracer& tracer, Value*) {
    tracer.break_graph(BreakKind::DataDependent, "the data of a tensor is searched (value in tensor)");
}

Value* TensorValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    if (!is_operand(other)) return nullptr;
    PyObject* function = operator_function(op, false);
    return reflected ? tracer.recorder().emit_function(function, Arguments::of(other, this))
                     : tracer.recorder().emit_function(function, Arguments::of(this, plain_operand(tracer, other)));
}

Value* TensorValue::in_place(Tracer& tracer, BinaryOperator op, Value* other) {
    if (!is_operand(other)) return nullptr;
    return tracer.recorder().emit_function(operator_function(op, true), Arguments::of(this, other));
}

Value* TensorValue::unary(Tracer& tracer, UnaryOperator op) {
    return tracer.recorder().emit_function(operator_function(op), Arguments::of(this));
}

Outcome TensorValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (!is_operand(other)) return nullptr;
    return tracer.recorder().emit_function(operator_function(op), Arguments::of(this, other));
}

Py_hash_t TensorValue::hash(Tracer& tracer) {
    tracer.guard_distinct(this);
    return static_cast<Py_hash_t>(reinterpret_cast<std::uintptr_t>(this) >> 4);
}

graph::Argument TensorValue::as_argument(Tracer& tracer) {
    tracer.realize(this);
    // Neither FakeTensor nor compilers support them.
    if (torch_room::is_quantized(meta->dtype))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a quantized tensor is used: " + print());
    tracer.recorder().note_tensor_argument(this);
    return graph::Argument::of(node);
}

namespace {

bool is_as_it_came(const TensorValue* tensor) {
    const graph::Node* node = tensor->node;
    return tensor->source != nullptr &&
           (node == nullptr || node->kind == graph::NodeKind::Placeholder || node->kind == graph::NodeKind::Attribute);
}

}  // namespace

int TensorValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    // `x.data` of an input is computed from the input by the plan: a backend may count writes to it as writes to the
    // input.
    if (source == nullptr && view_of != nullptr && is_as_it_came(view_of) && !view_of->has_new_data &&
        node->target == data_function()) {
        int data = plan.add(PlanOp::Call, {view_of->rebuild(plan)}, node->target);
        plan.remember(this, data);
        return data;
    }
    if (source == nullptr && (meta->dispatch_keys & torch_room::trait::kFunctorch) != 0)
        throw Break{BreakKind::Rebuild, "a tensor of a torch.func transform is used outside of the transform", false};
    if (source == nullptr) {
        int made = plan.output(node);
        if (set_gradient == nullptr) return made;
        plan.remember(this, made);
        plan.add(PlanOp::SetAttribute, {made, set_gradient->rebuild(plan)}, interned("grad"));
        return made;
    }
    // An input that an operation returned: the graph returns it too, but the program gets the input object itself.
    if (!is_as_it_came(this) && plan.gives_back_inputs) plan.output(node);
    return source->access == Access::Pinned ? plan.constant(outside) : plan.fetch(source);
}

std::string TensorValue::print() const {
    if (meta == nullptr) return "tensor " + stator::print(*source);
    return "tensor " + torch_room::print(*meta);
}

}  // namespace stator
