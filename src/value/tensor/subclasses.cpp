#include "value/tensor/subclasses.h"

#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/undoable.h"
#include "value/protocol/operations.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

void TensorObjectValue::realize(Tracer& tracer) {
    auto* tensor = tracer.make<TensorValue>();
    tensor->outside = outside;
    tensor->source = source;
    tensor->is_of_object = true;
    tensor->realized = false;
    tracer.realize(tensor);
    set_undoably(tracer, payload, tensor);
}

TensorValue* TensorObjectValue::plain(Tracer& tracer) {
    if (has_active_torch_function(tracer, this))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor of class " + type_name(class_) +
                                                             " is an argument of an operation in which Stator does "
                                                             "not inline __torch_function__");
    tracer.realize(this);
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
    int tensor = payload->rebuild(plan);
    int to = plan.reserve(this);
    plan.add_to(to, PlanOp::Call, {tensor, plan.constant(reinterpret_cast<PyObject*>(class_))}, as_subclass);
    rebuild_attributes(plan, to, this);
    return to;
}

std::string TensorObjectValue::print() const {
    return type_name(class_) + "(" + (payload == nullptr ? "..." : payload->print()) + ")";
}

}  // namespace stator
