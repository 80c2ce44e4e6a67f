#include "value/tensor/optimizers.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "torch/dtypes.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/builtins/registry.h"
#include "value/effect_log.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

TensorValue* as_tensor(Tracer& tracer, Value* value) {
    if (value == nullptr || value->kind != Kind::Tensor) return nullptr;
    tracer.realize(value);
    return static_cast<TensorValue*>(value);
}

/// Whether `self + value * over / by` has the same bits as one operation and as three: on the CPU it is rounded after
/// each step.
bool is_computed_in_steps(Tracer& tracer, const Arguments& arguments) {
    const TensorValue* self = as_tensor(tracer, arguments.positional[0]);
    if (self == nullptr) return false;
    torch_room::Dtype dtype = self->meta->dtype;
    if (dtype != torch_room::dtype::kFloat && dtype != torch_room::dtype::kDouble) return false;
    if (self->meta->device.kind != torch_room::DeviceKind{}) return false;
    for (Value* operand : arguments.positional) {
        const TensorValue* tensor = as_tensor(tracer, operand);
        if (tensor == nullptr || tensor->meta->dtype != dtype) return false;
    }
    return true;
}

/// `addcdiv` with a tensor as `value`, whose data it would read; null if `value` is not a tensor.
Value* add_quotient(Tracer& tracer, const Arguments& arguments, const char* add) {
    const TensorValue* number = as_tensor(tracer, arguments.keyword("value"));
    bool is_number = number != nullptr && number->meta->sizes.empty() && !number->meta->requires_grad &&
                     torch_room::is_floating(number->meta->dtype);
    if (!is_number || arguments.positional.size() != 3 || arguments.count() != 4 ||
        !is_computed_in_steps(tracer, arguments))
        return nullptr;
    Value* scaled = tracer.recorder().emit_method(interned("mul"),
                                                  Arguments::of(arguments.positional[1], arguments.keyword("value")));
    Value* quotient = tracer.recorder().emit_method(interned("div"), Arguments::of(scaled, arguments.positional[2]));
    return tracer.recorder().emit_method(interned(add), Arguments::of(arguments.positional[0], quotient));
}

Outcome addcdiv_function(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch", "addcdiv");
    Value* result = add_quotient(tracer, arguments, "add");
    return result != nullptr ? result : tracer.recorder().emit_function(function, arguments);
}

Outcome addcdiv_method(Tracer& tracer, const Arguments& arguments) {
    Value* result = add_quotient(tracer, arguments, "add");
    return result != nullptr ? result : tracer.recorder().emit_method(interned("addcdiv"), arguments);
}

Outcome addcdiv_in_place(Tracer& tracer, const Arguments& arguments) {
    Value* result = add_quotient(tracer, arguments, "add_");
    return result != nullptr ? result : tracer.recorder().emit_method(interned("addcdiv_"), arguments);
}

std::vector<Value*> items_of(Tracer& tracer, Value* list) {
    tracer.realize(list);
    SequenceValue* sequence = as_sequence(list);
    return sequence == nullptr ? std::vector<Value*>() : sequence->all(tracer);
}

/// `torch._foreach_addcdiv_` with its scalars in a tensor, whose data it would read: replaced by operations on each
/// tensor. False if those would not compute the same bits.
bool add_quotients(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 4 || !arguments.keywords.empty()) return false;
    const TensorValue* numbers = as_tensor(tracer, arguments.positional[3]);
    std::vector<Value*> lists[3];
    for (std::size_t i = 0; i < 3; ++i) lists[i] = items_of(tracer, arguments.positional[i]);
    const std::size_t count = lists[0].size();
    bool is_list = numbers != nullptr && numbers->meta->sizes.size() == 1 && !numbers->meta->requires_grad &&
                   torch_room::is_floating(numbers->meta->dtype) &&
                   numbers->meta->sizes[0] == torch_room::Dim(static_cast<std::int64_t>(count));
    if (!is_list || lists[1].size() != count || lists[2].size() != count) return false;
    std::vector<Arguments> steps;
    for (std::size_t i = 0; i < count; ++i) {
        steps.push_back(Arguments::of(lists[0][i], lists[1][i], lists[2][i]));
        if (!is_computed_in_steps(tracer, steps.back())) return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        Value* place = tracer.integer(static_cast<std::int64_t>(i));
        Value* number =
            tracer.recorder().emit_function(getitem_function(), Arguments::of(arguments.positional[3], place));
        steps[i].keywords.push_back({interned("value"), number});
        add_quotient(tracer, steps[i], "add_");
    }
    return true;
}

Outcome foreach_addcdiv_in_place(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch", "_foreach_addcdiv_");
    if (add_quotients(tracer, arguments)) return tracer.none();
    return tracer.recorder().emit_function(function, arguments);
}

/// A whole step of an optimizer in one operation: it writes to lists that may be empty, for which aot_autograd fails,
/// and takes numbers that change with every step.
Outcome steps_at_once(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "an optimizer uses a fused step (fused=True)");
}

/// `torch._C._group_tensors_by_device_and_dtype`, which decides which tensors one foreach operation can take together.
Outcome group_tensors(Tracer& tracer, const Arguments& arguments) {
    auto give_up = [&tracer]() {
        tracer.break_graph(BreakKind::UnknownFunction, "an optimizer groups tensors of several devices or dtypes");
    };
    if (arguments.positional.size() != 2 || !arguments.keywords.empty()) give_up();
    Ref<> with_indices = arguments.positional[1]->as_constant(tracer);
    SequenceValue* given = as_sequence(arguments.positional[0]);
    if (given == nullptr || !with_indices || !PyBool_Check(with_indices.get())) give_up();
    tracer.realize(given);
    std::vector<Value*> lists;
    const TensorValue* first = nullptr;
    std::size_t count = 0;
    for (Value* item : given->all(tracer)) {
        SequenceValue* list = as_sequence(item);
        if (list == nullptr) give_up();
        tracer.realize(list);
        std::vector<Value*> tensors = list->all(tracer);
        for (Value* each : tensors) {
            const TensorValue* tensor = as_tensor(tracer, each);
            if (first == nullptr) first = tensor;
            // The order of several groups is known only to the function itself.
            if (tensor == nullptr || tensor->meta->dtype != first->meta->dtype ||
                tensor->meta->device != first->meta->device)
                give_up();
        }
        if (lists.empty()) count = tensors.size();
        if (count == 0 || (tensors.size() != count && !tensors.empty())) give_up();
        lists.push_back(make_list(tracer, std::move(tensors)));
    }
    if (first == nullptr) give_up();
    std::vector<Value*> indices;
    if (with_indices.get() == Py_True)
        for (std::size_t i = 0; i < count; ++i) indices.push_back(tracer.fresh(checked(PyLong_FromSize_t(i))));
    Value* key = stator::make_tuple(tracer, {tracer.fresh(torch_room::device_object(first->meta->device)),
                                             tracer.constant(torch_room::dtype_object(first->meta->dtype))});
    Value* group =
        stator::make_tuple(tracer, {make_list(tracer, std::move(lists)), make_list(tracer, std::move(indices))});
    auto* groups = tracer.make<DictValue>();
    groups->insert(tracer, key, group);
    return groups;
}

/// Whether the program has changed nothing yet that the state of an optimizer may depend on.
bool is_as_at_entry(Tracer& tracer) {
    return tracer.effects().empty() && tracer.modes().current() == tracer.modes().at_entry() &&
           std::ranges::none_of(tracer.recorder().graph().nodes(), &graph::Node::has_effect);
}

}  // namespace

void make_optimizer_state(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    static PyObject* const make_state = imported("stator.optimizers", "make_state");
    constexpr std::size_t kFirstList = 2;  // after the optimizer and the group
    if (arguments.positional.size() < kFirstList || !arguments.keywords.empty() || !is_as_at_entry(tracer)) return;
    PyObject* optimizer = arguments.positional[0]->object();
    if (optimizer == nullptr) return;
    Ref<> lists = checked(PyLong_FromSize_t(arguments.positional.size() - kFirstList));
    Ref<> was_missing = checked(PyObject_CallFunctionObjArgs(make_state, function, optimizer, lists.get(), nullptr));
    if (was_missing.get() == Py_True) throw StartAgain{"the state of an optimizer was made"};
}

// --- operations that need another form in a graph

void register_optimizing(Handlers& handlers) {
    auto* tensor_class = reinterpret_cast<PyObject*>(torch_room::known().tensor_class);
    handlers.add(checked(PyObject_GetAttrString(tensor_class, "addcdiv_")).get(), addcdiv_in_place);
    handlers.add(checked(PyObject_GetAttrString(tensor_class, "addcdiv")).get(), addcdiv_method);
    handlers.add("torch", "addcdiv", addcdiv_function);
    handlers.add("torch", "_foreach_addcdiv_", foreach_addcdiv_in_place);
    handlers.add("torch._C", "_group_tensors_by_device_and_dtype", group_tensors);
    for (const char* name : {"_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"})
        handlers.add("torch", name, steps_at_once);
}

}  // namespace stator
