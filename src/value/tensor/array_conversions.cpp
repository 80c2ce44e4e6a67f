/// Tensors made of numpy arrays, and arrays made of tensors.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/arrays.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/builtins/arrays.h"
#include "value/builtins/builtin.h"
#include "value/builtins/registry.h"
#include "value/recorder.h"
#include "value/tensor/constructions.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

[[noreturn]] void refuse(Tracer& tracer, const std::string& reason) {
    tracer.break_graph(BreakKind::UnknownFunction, reason);
}

/// A tensor over the memory of an array: another object with each call.
Value* tensor_over(Tracer& tracer, ArrayValue* array) {
    return tracer.recorder().emit_method(interned("detach"), Arguments::of(array->payload));
}

/// The array among the arguments; null if there is none and the call is like any other.
ArrayValue* array_argument(Tracer& tracer, const Arguments& arguments) {
    auto* array = arguments.positional.empty() ? nullptr : cast<ArrayValue>(arguments.positional[0]);
    if (array == nullptr) return nullptr;
    tracer.realize(array);
    expect_arrays_are_traced(tracer);
    if (array->is_scalar) refuse(tracer, "a tensor is made of a numpy scalar that the graph computes");
    return array;
}

/// PyTorch warns of read-only arrays, once in a process.
void expect_no_warning(Tracer& tracer, const ArrayValue* array) {
    if (array->source != nullptr && !array->is_writeable) refuse(tracer, "PyTorch warns of a read-only array");
}

Outcome from_numpy(Tracer& tracer, const Arguments& arguments) {
    ArrayValue* array = arguments.count() == 1 ? array_argument(tracer, arguments) : nullptr;
    if (array == nullptr) refuse(tracer, "torch.from_numpy is called with anything but one array");
    expect_no_warning(tracer, array);
    return tensor_over(tracer, array);
}

/// `torch.as_tensor`, `torch.asarray`: shares the memory of the array unless another dtype or device is wanted.
template <const char* kName>
Outcome as_tensor(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch", kName);
    ArrayValue* array = array_argument(tracer, arguments);
    if (array == nullptr) return tracer.recorder().emit_function(function, arguments);
    expect_no_warning(tracer, array);
    for (const Keyword& keyword : arguments.keywords)
        if (utf8(keyword.name) != "dtype" && utf8(keyword.name) != "device")
            refuse(tracer, "a tensor is made of a numpy array with unusual arguments");
    if (arguments.count() == 1) return tensor_over(tracer, array);
    Arguments given = arguments;
    given.positional[0] = tensor_over(tracer, array);
    return tracer.recorder().emit_function(function, given);
}

/// `torch.tensor`: a copy.
Outcome make_tensor(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch", "tensor");
    ArrayValue* array = array_argument(tracer, arguments);
    if (array == nullptr)
        if (Value* stacked = stacked_numbers(tracer, arguments)) return stacked;
    if (array == nullptr) return tracer.recorder().emit_function(function, arguments);
    if (arguments.count() == 1) return tracer.recorder().emit_method(interned("clone"), Arguments::of(array->payload));
    Arguments given = arguments;
    given.positional[0] = array->payload;
    for (const Keyword& keyword : arguments.keywords)
        if (utf8(keyword.name) != "dtype" && utf8(keyword.name) != "device")
            refuse(tracer, "a tensor is made of a numpy array with unusual arguments");
    if (given.positional.size() > 1) refuse(tracer, "a tensor is made of a numpy array with unusual arguments");
    given.keywords.push_back({interned("copy"), tracer.boolean(true)});
    return tracer.recorder().emit_method(interned("to"), given);
}

constexpr char kAsTensor[] = "as_tensor", kAsArray[] = "asarray";

/// `tensor.numpy()`: an array over the memory of the tensor.
Outcome to_numpy(Tracer& tracer, const Arguments& arguments) {
    auto* tensor = arguments.positional.size() == 1 ? cast<TensorValue>(arguments.positional[0]) : nullptr;
    if (tensor == nullptr || arguments.keywords.size() > 1)
        refuse(tracer, "the method numpy() of a tensor is called with unusual arguments");
    expect_arrays_are_traced(tracer);
    tracer.realize(tensor);
    bool is_forced = false;
    if (!arguments.keywords.empty()) {
        Value* force = arguments.keyword("force");
        if (force != nullptr) tracer.realize(force);
        if (force == nullptr || (force->object() != Py_True && force->object() != Py_False))
            refuse(tracer, "the method numpy() of a tensor is called with unusual arguments");
        is_forced = force->object() == Py_True;
    }
    constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
    const torch_room::TensorMeta& meta = *tensor->meta;
    const bool records = meta.requires_grad && tracer.modes().current().grad;
    if (meta.layout != torch_room::Layout{} || !torch_room::has_array_dtype(meta.dtype) ||
        (meta.dispatch_keys & kViews) != 0 || tensor->is_gradient)
        refuse(tracer, "the method numpy() of a tensor is called that is unlike any numpy array");
    if (!is_forced && (records || torch_room::device_name(meta.device) != "cpu"))
        tracer.break_graph(BreakKind::OperationFails, "the method numpy() raises for this tensor");
    auto call = [&](const char* method, const Arguments& given) {
        return cast<TensorValue>(tracer.recorder().emit_method(interned(method), given));
    };
    TensorValue* view = is_forced || meta.requires_grad ? call("detach", Arguments::of(tensor))
                                                        : call("view_as", Arguments::of(tensor, tensor));
    if (is_forced) view = call("cpu", Arguments::of(view));
    return make_array(tracer, view);
}

}  // namespace

void register_arrays(Handlers& handlers) {
    handlers.add("torch", "from_numpy", from_numpy);
    handlers.add("torch", "as_tensor", as_tensor<kAsTensor>);
    handlers.add("torch", "asarray", as_tensor<kAsArray>);
    handlers.add("torch", "tensor", make_tensor);
    register_constructions(handlers);
    Ref<> method =
        checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::known().tensor_class), "numpy"));
    handlers.add(method.get(), to_numpy);
}

}  // namespace stator
