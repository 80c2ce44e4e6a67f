#include "value/tensor/function_modes.h"

#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/known.h"
#include "value/builtins/registry.h"
#include "value/deferred_graph.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/sequence.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tensor/stand_ins.h"
#include "value/tensor/torch_function.h"

namespace stator {

namespace {

PyTypeObject* device_context_class() {
    static auto* const held = imported_class("torch.utils._device", "DeviceContext");
    return held;
}

/// The functions that take a default device: those that create tensors.
bool creates_tensors(PyObject* function) {
    static PyObject* const constructors = [] {
        Ref<> list = Ref<>::steal(imported("torch.utils._device", "_device_constructors"));
        return checked(PyObject_CallNoArgs(list.get())).release();
    }();
    const int found = PySet_Contains(constructors, function);
    if (found < 0) PyErr_Clear();
    return found == 1;
}

/// Whether a Python function of PyTorch hands its calls to modes, by `handle_torch_function`.
bool calls_modes(PyObject* function) {
    static PyObject* const overridable = [] {
        Ref<> overrides = Ref<>::steal(imported("torch.overrides", "get_testing_overrides"));
        return checked(PyObject_CallNoArgs(overrides.get())).release();
    }();
    const int found = PyDict_Contains(overridable, function);
    if (found < 0) PyErr_Clear();
    return found == 1;
}

std::vector<Value*> without_innermost(Tracer& tracer) {
    std::vector<Value*> rest = tracer.modes().function_modes();
    rest.pop_back();
    return rest;
}

/// A call that C code of PyTorch makes, or that it would make, where `modes` are entered.
Task call_where(Tracer& tracer, std::vector<Value*> modes, Value* callee, Arguments arguments) {
    const std::vector<Value*> before = tracer.modes().function_modes();
    const bool was_enabled = tracer.modes().torch_functions_enabled();
    tracer.modes().begin_torch_function();
    tracer.modes().set_function_modes(std::move(modes));
    Value* result = nullptr;
    try {
        result = co_await operations::call(tracer, callee, arguments);
    } catch (const Raised&) {
        tracer.modes().set_function_modes(before);
        tracer.modes().end_torch_function(was_enabled);
        throw;
    }
    tracer.modes().set_function_modes(before);
    tracer.modes().end_torch_function(was_enabled);
    co_return result;
}

/// Calls `__torch_function__` of the innermost mode.
Task call_mode(Tracer& tracer, Arguments arguments) {
    Value* method = co_await operations::get_attribute(tracer, tracer.modes().function_modes().back(),
                                                       interned("__torch_function__"));
    std::vector<Value*> rest = without_innermost(tracer);
    Value* result = co_await tracer.start(call_where(tracer, std::move(rest), method, std::move(arguments)));
    if (result->object() == Py_NotImplemented)
        tracer.break_graph(BreakKind::UnsupportedTensor, "a torch function mode returns NotImplemented");
    co_return result;
}

/// What PyTorch passes to the mode for a call of a C function; nothing if it does not call the mode.
std::optional<Arguments> passed_to_mode(Tracer& tracer, PyObject* function, const Arguments& arguments) {
    static PyObject* const seen = imported("stator.torch_functions", "seen_by_mode");
    if (has_tensor_object(arguments))
        tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor subclass is used inside of a torch function mode");
    StandIns stand_ins(tracer);
    const StandIns::Call call = stand_ins.call_with(arguments);
    Ref<> handed =
        Ref<>::steal(PyObject_CallFunctionObjArgs(seen, function, call.positional.get(), call.keywords.get(), nullptr));
    if (!handed) {
        PyErr_Clear();
        tracer.break_graph(BreakKind::OperationFails,
                           "PyTorch rejects the arguments of an operation inside of a torch function mode");
    }
    if (handed.get() == Py_None) return std::nullopt;
    Ref<> types = checked(PyObject_GetAttrString(handed.get(), "types"));
    return Arguments::of(stand_ins.passed(handed, tracer.constant(tracer.keep(std::move(types)))));
}

Value* device_of(Tracer& tracer, Value* mode) {
    tracer.realize(mode);
    Value* device = mode->own_attribute(tracer, interned("device"));
    if (device == nullptr)
        tracer.break_graph(BreakKind::UnknownObject, "the device of a torch.utils._device.DeviceContext is not known");
    tracer.realize(device);
    return device;
}

/// The arguments of a function that creates tensors, with the default device.
Arguments with_device(Tracer& tracer, const Arguments& arguments, Value* mode) {
    Arguments given = arguments;
    for (Keyword& keyword : given.keywords) {
        if (keyword.name != interned("device")) continue;
        tracer.realize(keyword.value);
        if (keyword.value->object() == Py_None) keyword.value = device_of(tracer, mode);
        return given;
    }
    given.keywords.push_back({interned("device"), device_of(tracer, mode)});
    return given;
}

}  // namespace

bool is_default_device(const Value* mode) {
    return mode->type() == device_context_class();
}

std::optional<Outcome> call_under_modes(Tracer& tracer, Value* function, const Arguments& arguments) {
    Value* innermost = tracer.modes().function_modes().back();
    if (is_default_device(innermost)) {
        const bool creates = creates_tensors(function->object());
        if (!creates && !modes_see_operators(tracer)) return std::nullopt;
        Arguments given = creates ? with_device(tracer, arguments, innermost) : arguments;
        return tracer.start(call_where(tracer, without_innermost(tracer), function, std::move(given)));
    }
    std::optional<Arguments> passed = passed_to_mode(tracer, function->object(), arguments);
    if (!passed) return std::nullopt;
    return tracer.start(call_mode(tracer, std::move(*passed)));
}

std::optional<Outcome> call_python_under_modes(Tracer& tracer, FunctionValue* function, const Arguments& arguments) {
    const torch_room::Role role = torch_room::role_of(function->outside);
    const bool sees_operators = modes_see_operators(tracer);
    if (role == torch_room::Role::TensorMethod) {
        if (!sees_operators) return std::nullopt;
        return tracer.push_call(function, arguments);
    }
    if (role != torch_room::Role::InGraph) return std::nullopt;
    if (torch_room::is_marked_in_graph(function->outside))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a function marked allow_in_graph is called inside of a torch function mode");
    if (!sees_operators && calls_modes(function->outside) && !creates_tensors(function->outside))
        return tracer.start(call_where(tracer, {}, function, arguments));
    return tracer.push_call(function, arguments);
}

std::optional<Outcome> attribute_under_modes(Tracer& tracer, Value* tensor, Borrowed<> name) {
    static PyObject* const get_attribute = imported("builtins", "getattr");
    PyObject* raw = cpython::lookup_in_mro(torch_room::known().tensor_class, name);
    if (raw == nullptr || Py_TYPE(raw) != &PyGetSetDescr_Type || PyDescr_TYPE(raw) == &PyBaseObject_Type)
        return std::nullopt;
    std::optional<Arguments> passed =
        passed_to_mode(tracer, get_attribute, Arguments::of(tensor, tracer.constant(name)));
    if (!passed) return std::nullopt;
    return tracer.start(call_mode(tracer, std::move(*passed)));
}

void expect_no_function_modes(Tracer& tracer, const char* what) {
    if (tracer.modes().has_function_modes())
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string(what) + " inside of a torch function mode");
}

// --- handlers
// ----------------------------------------------------------------------------------------------------------

namespace {

/// A default device that was active when the trace began is on PyTorch's own stack, and active in the graph.
void expect_known_modes(Tracer& tracer) {
    if (torch_room::has_function_modes())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch function modes are entered or left, and a default device was set before");
    // (Then the mode is not among those of the trace.)
    if (tracer.modes().indexes_by_tensors())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "torch function modes are entered or left, or asked for, inside of TransformGetItemToIndex");
}

void push(Tracer& tracer, Value* mode) {
    expect_known_modes(tracer);
    static PyTypeObject* const disabled = imported_class("torch._C", "DisableTorchFunction");
    if (std::ranges::any_of(tracer.modes().contexts(),
                            [](const auto& context) { return context.manager->type() == disabled; }))
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a torch function mode is entered where __torch_function__ is disabled");
    if (tracer.deferred_graphs().is_open() || tracer.recorder().is_in_transform())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a torch function mode is entered in a backward pass, a transform, or a function of a "
                           "higher-order operation");
    std::vector<Value*> modes = tracer.modes().function_modes();
    modes.push_back(mode);
    tracer.modes().set_function_modes(std::move(modes));
}

Value* pop(Tracer& tracer) {
    expect_known_modes(tracer);
    if (!tracer.modes().has_function_modes())
        tracer.break_graph(BreakKind::UnsupportedTensor, "a torch function mode is left that was not entered");
    Value* mode = tracer.modes().function_modes().back();
    tracer.modes().set_function_modes(without_innermost(tracer));
    return mode;
}

Outcome push_mode(Tracer& tracer, const Arguments& arguments) {
    push(tracer, arguments.positional.at(0));
    return tracer.none();
}

Outcome pop_mode(Tracer& tracer, const Arguments&) {
    return pop(tracer);
}

Outcome count_modes(Tracer& tracer, const Arguments&) {
    expect_known_modes(tracer);
    return tracer.integer(static_cast<std::int64_t>(tracer.modes().function_modes().size()));
}

Outcome mode_at(Tracer& tracer, const Arguments& arguments) {
    expect_known_modes(tracer);
    Value* place = arguments.positional.at(0);
    tracer.realize(place);
    const std::vector<Value*>& modes = tracer.modes().function_modes();
    const Py_ssize_t index = place->object() != nullptr ? PyLong_AsSsize_t(place->object()) : -1;
    PyErr_Clear();
    if (index < 0 || static_cast<std::size_t>(index) >= modes.size())
        tracer.break_graph(BreakKind::UnknownFunction, "a torch function mode is asked for that is not there");
    return modes[static_cast<std::size_t>(index)];
}

Outcome has_modes(Tracer& tracer, const Arguments&) {
    return tracer.boolean(tracer.modes().has_function_modes() || torch_room::has_function_modes());
}

/// `with torch.device(...)` enters a `DeviceContext`, without its `__enter__`.
Task enter_device(Tracer& tracer, Value* device) {
    Value* mode = co_await operations::call(
        tracer, tracer.constant(reinterpret_cast<PyObject*>(device_context_class())), Arguments::of(device));
    push(tracer, mode);
    co_return device;
}

Outcome enter_default_device(Tracer& tracer, const Arguments& arguments) {
    expect_known_modes(tracer);
    return tracer.start(enter_device(tracer, arguments.positional.at(0)));
}

Outcome leave_default_device(Tracer& tracer, const Arguments&) {
    pop(tracer);
    return tracer.none();
}

/// Where the program has entered no default device, PyTorch is asked.
Outcome get_default_device(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch", "get_default_device");
    const std::vector<Value*>& modes = tracer.modes().function_modes();
    if (modes_see_operators(tracer)) {
        Value* asked = tracer.outside(tracer.provenance().pinned(function), function);
        tracer.realize(asked);
        return tracer.push_call(cast<FunctionValue>(asked), arguments);
    }
    auto innermost = std::find_if(modes.rbegin(), modes.rend(), is_default_device);
    if (innermost == modes.rend()) return tracer.fresh(checked(PyObject_CallNoArgs(function)));
    Ref<> device = device_of(tracer, *innermost)->as_constant(tracer);
    Ref<> index = device ? checked(PyObject_GetAttrString(device.get(), "index")) : Ref<>();
    Ref<> type = device ? checked(PyObject_GetAttrString(device.get(), "type")) : Ref<>();
    if (!device || (index.get() == Py_None && utf8(type) != "cpu" && utf8(type) != "meta"))
        tracer.break_graph(BreakKind::UnknownFunction, "the default device is read, whose index is not known");
    return tracer.fresh(std::move(device));
}

}  // namespace

void register_function_modes(Handlers& handlers) {
    handlers.add("torch._C", "_push_on_torch_function_stack", push_mode);
    handlers.add("torch._C", "_pop_torch_function_stack", pop_mode);
    handlers.add("torch._C", "_len_torch_function_stack", count_modes);
    handlers.add("torch._C", "_get_function_stack_at", mode_at);
    handlers.add("torch._C", "_is_torch_function_mode_enabled", has_modes);
    handlers.add("torch", "get_default_device", get_default_device);
    handlers.add_method(torch_room::known().device_class, "__enter__", enter_default_device);
    handlers.add_method(torch_room::known().device_class, "__exit__", leave_default_device);
}

}  // namespace stator
