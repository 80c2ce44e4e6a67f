#include "value/tensor/leaves.h"

#include "base/imported.h"
#include "base/names.h"
#include "torch/dtypes.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/rebuilding.h"
#include "value/recorder.h"
#include "value/tensor/function_transforms.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const char* why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, why);
}

}  // namespace

void expect_leaf_is_kept(Tracer& tracer, const char* what) {
    // (Where autograd is captured, leaves are kept if their gradients are computed in the graph: tensor/gradients.h.)
    if (tracer.run_by() == Tracer::RunBy::Stator || tracer.modes().captures_autograd()) return;
    if (!tracer.wants_one_graph()) refuse(tracer, what);
    tracer.recorder().keep_as_captured();
}

namespace {

/// aot_autograd traces the call under a transform of functorch, which has to allow it.
void emit_requires_grad(Tracer& tracer, TensorValue* tensor, const Arguments& arguments) {
    static PyObject* const allow = imported("torch._C", "_functorch.set_inplace_requires_grad_allowed");
    const bool is_traced = tracer.run_by() == Tracer::RunBy::Compiler && tensor->source == nullptr;
    auto emit_allowed = [&](bool allowed) {
        if (!is_traced) return;
        tracer.recorder().emit_effect(allow, Arguments::of(tracer.boolean(allowed)))->is_visible_to_program = false;
    };
    emit_allowed(true);
    tracer.recorder().emit_method(interned("requires_grad_"), arguments);
    emit_allowed(false);
}

}  // namespace

void set_requires_grad(Tracer& tracer, TensorValue* tensor, bool wanted) {
    expect_no_transform(tracer, "requires_grad_()");
    if (tensor->meta->requires_grad == wanted) return;
    guard_autograd_state(tracer, tensor);
    // (PyTorch raises for these, so the program has to run the call.)
    if (wanted && !torch_room::can_have_grad(tensor->meta->dtype))
        refuse(tracer, "a tensor that is neither floating point nor complex is to require grad");
    if (!wanted && !tensor->meta->is_leaf) refuse(tracer, "a tensor with a history is to require no grad");
    if (tracer.deferred_graphs().is_open())
        refuse(tracer, "a backward pass or a checkpointed function changes requires_grad of a tensor");
    // (A write to the base of a view may give the view a history later on.)
    const bool is_view = tensor->view_of != nullptr && !tensor->is_detached;
    if (is_view || tensor->is_row || tensor->is_of_object)
        refuse(tracer, "requires_grad of a view or of a tensor subclass is changed");
    if (tensor->source != nullptr && tracer.run_by() == Tracer::RunBy::Compiler) {
        if (!tracer.wants_one_graph())
            refuse(tracer, "requires_grad of an input is changed inside a function that a backend compiles");
        tracer.recorder().keep_as_captured();
    }
    expect_leaf_is_kept(tracer, "requires_grad of a tensor is changed inside a function that a backend compiles");
    Arguments arguments = Arguments::of(static_cast<Value*>(tensor));
    if (!wanted) arguments.positional.push_back(tracer.boolean(false));
    emit_requires_grad(tracer, tensor, arguments);
    if (wanted) tracer.modes().note_leaf(tensor);
}

TensorValue* make_parameter(Tracer& tracer, TensorValue* data) {
    expect_no_transform(tracer, "the creation of a parameter");
    if (!torch_room::can_have_grad(data->meta->dtype))
        refuse(tracer, "a parameter is created that is neither floating point nor complex");
    if (tracer.deferred_graphs().is_open() || data->is_row || data->is_of_object)
        refuse(tracer, "a parameter is created in a backward pass, in a checkpointed function or of an unusual tensor");
    expect_leaf_is_kept(tracer, "a parameter is created inside a function that a backend compiles");
    auto* const parameter = reinterpret_cast<PyObject*>(torch_room::parameter_class());
    auto* made =
        cast<TensorValue>(tracer.recorder().emit_function(parameter, Arguments::of(static_cast<Value*>(data))));
    if (made == nullptr || made->type() != torch_room::parameter_class() || !made->meta->requires_grad)
        refuse(tracer, "a parameter is created of a tensor for which FakeTensor has none");
    made->view_of = data;
    made->is_detached = true;
    tracer.modes().note_leaf(made);
    return made;
}

namespace {

Outcome method_requires_grad(Tracer& tracer, const Arguments& arguments) {
    auto* self = arguments.positional.empty() ? nullptr : cast<TensorValue>(arguments.positional[0]);
    Value* wanted = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("requires_grad");
    if (wanted == nullptr && arguments.count() == 1) wanted = tracer.boolean(true);
    Ref<> constant = wanted == nullptr || arguments.count() > 2 ? Ref<>() : wanted->as_constant(tracer);
    if (self == nullptr || !constant || !PyBool_Check(constant.get()))
        refuse(tracer, "requires_grad_ is called with an argument that is not a constant bool");
    tracer.realize(self);
    set_requires_grad(tracer, self, constant.get() == Py_True);
    return self;
}

}  // namespace

void register_leaves(Handlers& handlers) {
    Ref<> method = Ref<>::steal(method_of_class(torch_room::known().tensor_class, "requires_grad_"));
    handlers.add(method.get(), method_requires_grad);
}

}  // namespace stator
