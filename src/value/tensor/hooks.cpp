/// A hook on an input is registered by the plan after the graph: the autograd engine reads it in the backward pass
/// only. A hook on an intermediate tensor is registered by a node, because a backend may restructure the graph. Such a
/// backend traces the hook when it compiles, so the hook must have no side effects: it is traced here first, to check
/// that and to guard what it reads. If the graph can't hold the hook object, it holds the traced graph.
#include "value/tensor/hooks.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "effect/plan.h"
#include "torch/known.h"
#include "value/deferred_graph.h"
#include "value/effect_log.h"
#include "value/kinds/constant.h"
#include "value/kinds/dict.h"
#include "value/kinds/function.h"
#include "value/kinds/partial.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/protocol/reachable.h"
#include "value/recorder.h"
#include "value/tensor/computing_functions.h"
#include "value/tensor/tensor.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* handle_class() {
    static auto* const type = imported_class("torch.utils.hooks", "RemovableHandle");
    return type;
}

/// The handle that registering a hook returned.
struct HandleValue final : Value {
    HandleValue(TensorValue* tensor, Value* hook, PyObject* method)
        : Value(Kind::Context), tensor(tensor), hook(hook), method(method) {}

    TensorValue* tensor;
    Value* hook;
    PyObject* method;  // `register_hook` or a similar method; null if a node registers the hook

    PyTypeObject* type() const override { return handle_class(); }
    bool truth(Tracer&) override { return true; }
    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override;
    int rebuild(PlanBuilder& plan) override {
        if (method == nullptr)
            throw Break{BreakKind::Rebuild,
                        "the handle of a hook on an intermediate tensor is still used after the captured region"};
        return rebuild_by_call(plan, this, method, std::vector<Value*>{tensor, hook});
    }
    std::string print() const override { return "handle of a hook on " + tensor->print(); }
};

/// `handle.remove`.
struct RemoveValue final : Value {
    explicit RemoveValue(HandleValue* handle) : Value(Kind::Context), handle(handle) {}
    HandleValue* handle;

    PyTypeObject* type() const override { return &PyMethod_Type; }
    Outcome call(Tracer& tracer, const Arguments& arguments) override {
        static PyObject* const remove = method_of_class(handle_class(), "remove");
        if (arguments.count() != 0)
            tracer.break_graph(BreakKind::UnknownObject, "the remove() of a hook handle is called with arguments");
        tracer.effects().log({PlanOp::Call, {handle}, remove});
        return tracer.none();
    }
    std::string print() const override { return "remove of " + handle->print(); }
};

Outcome HandleValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (name.get() == interned("__class__")) return tracer.constant(reinterpret_cast<PyObject*>(type()));
    if (name.get() == interned("remove") && method != nullptr) return tracer.make<RemoveValue>(this);
    tracer.break_graph(BreakKind::UnknownObject, "an attribute of a hook handle other than remove is read");
}

[[noreturn]] void refuse(Tracer& tracer, const std::string& why) {
    tracer.break_graph(BreakKind::UnsupportedTensor, why);
}

/// Whether an object or a part of it is mutable, so that a copy can't replace it.
bool can_change(PyObject* object) {
    if (PyList_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) || PyByteArray_Check(object))
        return true;
    if (!PyTuple_Check(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (can_change(PyTuple_GET_ITEM(object, i))) return true;
    return false;
}

/// Whether all values are immutable constants; the objects are then in `constants`.
bool all_constant(Tracer& tracer, const std::vector<Value*>& values, std::vector<Ref<>>& constants) {
    for (Value* value : values) {
        constants.push_back(value->as_constant(tracer));
        if (!constants.back() || can_change(constants.back().get())) return false;
    }
    return true;
}

/// The cell for a closure variable of a function; empty if its contents may change.
Ref<> real_cell(Tracer& tracer, const CellValue* cell, Cells cells) {
    if (cell->source != nullptr && cell->outside != nullptr) {
        tracer.guard({GuardKind::Identity, cell->source, cell->outside});
        return Ref<>::share(cell->outside);
    }
    if (cells == Cells::Outside || cell->source != nullptr || !cell->is_settled()) return nullptr;
    tracer.realize(cell->contents);
    if (cell->contents->kind == Kind::PythonModule) return checked(PyCell_New(cell->contents->object()));
    Ref<> constant = cell->contents->as_constant(tracer);
    return constant && !can_change(constant.get()) ? checked(PyCell_New(constant.get())) : Ref<>();
}

Ref<> made_function(Tracer& tracer, FunctionValue* function, Cells in_closure) {
    bool is_plain = function->set_name == nullptr && function->set_qualname == nullptr &&
                    function->attributes.empty() && function->own_dict == nullptr;
    std::vector<Value*> values = function->defaults;
    for (const Keyword& keyword : function->keyword_defaults) values.push_back(keyword.value);
    std::vector<Ref<>> constants;
    if (!is_plain || !all_constant(tracer, values, constants)) return nullptr;
    Ref<> made = checked(PyFunction_New(reinterpret_cast<PyObject*>(function->code), function->globals));
    if (!function->closure.empty()) {
        Ref<> cells = checked(PyTuple_New(static_cast<Py_ssize_t>(function->closure.size())));
        for (std::size_t i = 0; i < function->closure.size(); ++i) {
            Ref<> cell = real_cell(tracer, function->closure[i], in_closure);
            if (!cell) return nullptr;
            PyTuple_SET_ITEM(cells.get(), i, cell.release());
        }
        checked(PyFunction_SetClosure(made.get(), cells.get()));
    }
    const std::size_t positional = function->defaults.size();
    if (positional > 0) {
        Ref<> defaults = checked(PyTuple_New(static_cast<Py_ssize_t>(positional)));
        for (std::size_t i = 0; i < positional; ++i) PyTuple_SET_ITEM(defaults.get(), i, constants[i].release());
        checked(PyFunction_SetDefaults(made.get(), defaults.get()));
    }
    if (!function->keyword_defaults.empty()) {
        Ref<> defaults = checked(PyDict_New());
        for (std::size_t i = 0; i < function->keyword_defaults.size(); ++i)
            checked(
                PyDict_SetItem(defaults.get(), function->keyword_defaults[i].name, constants[positional + i].get()));
        checked(PyFunction_SetKwDefaults(made.get(), defaults.get()));
    }
    return made;
}

}  // namespace

bool is_immutable_constant(Tracer& tracer, Value* value) {
    Ref<> constant = value->as_constant(tracer);
    return constant && !can_change(constant.get());
}

Ref<> real_hook(Tracer& tracer, Value* hook, Cells cells) {
    if (hook->source != nullptr && hook->object() != nullptr) {
        tracer.guard({GuardKind::Identity, hook->source, hook->object()});
        return Ref<>::share(hook->object());
    }
    if (auto* function = cast<FunctionValue>(hook); function != nullptr && function->outside == nullptr)
        return made_function(tracer, function, cells);
    auto* partial = cast<ObjectValue>(hook);
    if (partial == nullptr || partial->outside != nullptr || !is_partial_class(partial->class_) ||
        partial->own_dict != nullptr || partial->attributes.size() != 3)
        return nullptr;
    Value *function = nullptr, *arguments = nullptr, *keywords = nullptr;
    for (auto& [name, value] : partial->attributes) {
        if (name == interned("func")) function = value;
        if (name == interned("args")) arguments = value;
        if (name == interned("keywords")) keywords = value;
    }
    Ref<> bound = real_hook(tracer, function, cells);
    Ref<> given = arguments->as_constant(tracer), named = keywords->as_constant(tracer);
    if (!bound || !given || !named || can_change(given.get())) return nullptr;
    Ref<> values = checked(PyDict_Values(named.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.get()); ++i)
        if (can_change(PyList_GET_ITEM(values.get(), i))) return nullptr;
    Ref<> all = checked(PyTuple_New(PyTuple_GET_SIZE(given.get()) + 1));
    PyTuple_SET_ITEM(all.get(), 0, bound.release());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i)
        PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(given.get(), i)));
    return checked(PyObject_Call(reinterpret_cast<PyObject*>(partial->class_), all.get(), named.get()));
}

namespace {

/// The state that a hook may mutate: everything that it references, and values stored in outside objects.
std::vector<const Value*> reachable_by_hook(Tracer& tracer, Value* hook) {
    std::vector<const Value*> roots{hook};
    for (const Effect& effect : tracer.effects().entries())
        roots.insert(roots.end(), effect.from.begin(), effect.from.end());
    std::optional<std::vector<const Value*>> found = reachable(std::move(roots));
    if (!found) refuse(tracer, "a hook on an intermediate tensor references objects that Stator has no model of");
    return *std::move(found);
}

/// Traces the hook with a placeholder for the gradient, into a separate graph.
Task hook_inside(Tracer& tracer, TensorValue* tensor, Value* hook) {
    static PyObject* const stand_in = imported("torch", "empty_like");
    static PyObject* const registration = imported("stator.hooks", "RegisterHook");
    static PyObject* const traced_registration = imported("stator.hooks", "RegisterTracedHook");
    const std::vector<const Value*> before = reachable_by_hook(tracer, hook);
    const std::size_t effects = tracer.effects().size(), nodes = tracer.recorder().graph().size();
    const torch_room::Modes modes = tracer.modes().current();
    tracer.deferred_graphs().begin(DeferredGraph::Kind::Backward);
    torch_room::Modes in_backward = modes;
    in_backward.grad = false;
    tracer.modes().set(in_backward);
    auto* gradient = static_cast<TensorValue*>(tracer.recorder().emit_function(stand_in, Arguments::of(tensor)));
    gradient->is_gradient = true;
    bool raises = false;
    Value* result = nullptr;
    try {
        result = co_await operations::call(tracer, hook, Arguments::of(gradient));
    } catch (const Raised&) {
        raises = true;
    }
    if (raises) refuse(tracer, "a hook on an intermediate tensor raises an exception");
    tracer.modes().set(modes);
    bool has_effect = tracer.effects().size() != effects || reachable_by_hook(tracer, hook) != before;
    for (std::size_t i = nodes; i < tracer.recorder().graph().size(); ++i)
        has_effect |= tracer.recorder().graph().at(i)->has_effect;
    if (has_effect) refuse(tracer, "Unsafe side effect: a hook on an intermediate tensor has side effects");
    const std::vector<const Value*> own = reachable({hook}).value();
    for (const Value* value : own)
        if (const auto* cell = cast<CellValue>(value);
            cell != nullptr && cell->source == nullptr && !cell->is_settled())
            tracer.break_graph(
                BreakKind::ReadInBackward,
                "a hook on an intermediate tensor captures a variable that may change before the backward pass");
    tracer.realize(result);
    if (result->kind != Kind::Tensor && result->object() != Py_None)
        refuse(tracer, "a hook on an intermediate tensor returns a " + result->print());
    TensorValue* const inputs[] = {gradient};
    Value* const outputs[] = {result};
    DeferredGraph deferred = tracer.deferred_graphs().end(inputs, outputs);
    // The hook itself reads what is there when the backward pass comes, if Stator runs the graph and the hook reads no
    // tensors, which a backend that traces it would not know.
    Ref<> real = deferred.reads.empty() ? real_hook(tracer, hook) : Ref<>();
    if (!deferred.rereads.empty() && (!real || tracer.run_by() == Tracer::RunBy::Compiler))
        tracer.break_graph(BreakKind::ReadInBackward, "a hook on an intermediate tensor reads " + deferred.rereads +
                                                          ", which may change before the backward pass");
    PyObject* maker = real ? registration : traced_registration;
    PyObject* registers = tracer.keep(checked(PyObject_CallOneArg(maker, real ? real.get() : deferred.runner)));
    Arguments arguments = Arguments::of(tensor);
    arguments.positional.insert(arguments.positional.end(), deferred.reads.begin(), deferred.reads.end());
    tracer.recorder().emit_effect(registers, arguments);
    co_return tracer.make<HandleValue>(tensor, hook, nullptr);
}

/// The program's own hook as the target of a node that registers it, if it only computes.
PyObject* own_registration(Tracer& tracer, Value* hook, const std::string& name) {
    static PyObject* const registration = imported("stator.hooks", "RegisterHook");
    auto* function = cast<FunctionValue>(hook);
    if (function == nullptr) refuse(tracer, name + " is no function");
    expect_only_computes(tracer, function, {name, /*is_called_later=*/true});
    Ref<> real = real_hook(tracer, hook, Cells::Settled);
    if (!real) refuse(tracer, name + " captures values that may change");
    return tracer.keep(checked(PyObject_CallOneArg(registration, real.get())));
}

/// Inside of a function transform the node registers the program's own hook, at once: what the transform computes
/// depends on it.
Value* hook_in_transform(Tracer& tracer, TensorValue* tensor, Value* hook) {
    PyObject* registers = own_registration(tracer, hook, "a hook on a tensor inside of a torch.func transform");
    tracer.recorder().emit_transform(registers, Arguments::of(tensor));
    return tracer.make<HandleValue>(tensor, hook, nullptr);
}

/// Whether a class replaces what operations on tensors do. (Most wrapper subclasses have PyTorch's function that does
/// nothing.)
bool has_own_torch_function(PyTypeObject* type) {
    static PyObject* const name = interned("__torch_function__");
    static PyObject* const disabled = imported("torch._C", "_disabled_torch_function_impl");
    PyObject* const own = cpython::lookup_in_mro(type, name);
    return own != disabled && own != cpython::lookup_in_mro(torch_room::known().tensor_class, name);
}

/// A hook on a result of a wrapper subclass gets a gradient of such a class, which only PyTorch can make.
Value* hook_on_wrapper(Tracer& tracer, TensorValue* tensor, Value* hook) {
    const std::string name = "a hook on a result of class " + type_name(tensor->meta->python_class);
    if (tracer.deferred_graphs().is_open()) refuse(tracer, name + " in a backward pass or a higher-order operation");
    // (A compiler traces the hook where the `__torch_function__` of subclasses is switched off.)
    if (tracer.run_by() == Tracer::RunBy::Compiler && has_own_torch_function(tensor->meta->python_class))
        refuse(tracer, name + ", which has a __torch_function__");
    tracer.recorder().emit_effect(own_registration(tracer, hook, name), Arguments::of(tensor));
    return tracer.make<HandleValue>(tensor, hook, nullptr);
}

enum class When { Gradient, Accumulated };

template <When kWhen>
Outcome method_register_hook(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const method =
        method_of_class(torch_room::known().tensor_class,
                        kWhen == When::Gradient ? "register_hook" : "register_post_accumulate_grad_hook");
    auto* tensor = arguments.positional.empty() ? nullptr : cast<TensorValue>(arguments.positional[0]);
    Value* hook = arguments.positional.size() == 2 ? arguments.positional[1] : arguments.keyword("hook");
    if (tensor == nullptr || hook == nullptr || arguments.count() != 2) refuse(tracer, "a hook is registered");
    tracer.realize(tensor);
    tracer.realize(hook);
    if (!tensor->meta->requires_grad) refuse(tracer, "a hook is registered on a tensor that does not require grad");
    tracer.recorder().expect_history(tensor);
    guard_autograd_state(tracer, tensor);
    // The hooks of a leaf input do not depend on the graph. The history of any other tensor may change until the plan
    // runs.
    if (tensor->source != nullptr && tensor->meta->is_leaf &&
        (tensor->node->kind == graph::NodeKind::Placeholder || tensor->node->kind == graph::NodeKind::Attribute)) {
        auto* handle = tracer.make<HandleValue>(tensor, hook, method);
        tracer.effects().log({PlanOp::Call, {tensor, hook}, method, handle});
        return handle;
    }
    if (tensor->source != nullptr || kWhen == When::Accumulated)
        refuse(tracer, "a hook is registered on an input that is not a leaf");
    if (tensor->is_row) refuse(tracer, "a hook is registered on a tensor obtained by iterating over another tensor");
    if (tracer.recorder().is_in_transform()) return hook_in_transform(tracer, tensor, hook);
    if (tensor->meta->prototype != nullptr) return hook_on_wrapper(tracer, tensor, hook);
    return tracer.start(hook_inside(tracer, tensor, hook));
}

}  // namespace

void register_tensor_hooks(Handlers& handlers) {
    auto add = [&](const char* name, Handler handler) {
        Ref<> method = Ref<>::steal(method_of_class(torch_room::known().tensor_class, name));
        handlers.add(method.get(), handler);
    };
    add("register_hook", method_register_hook<When::Gradient>);
    add("register_post_accumulate_grad_hook", method_register_hook<When::Accumulated>);
}

}  // namespace stator
