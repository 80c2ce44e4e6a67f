#include "value/tensor/constructions.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "source/query.h"
#include "torch/dtypes.h"
#include "torch/global_state.h"
#include "torch/names.h"
#include "value/kinds/array.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyObject* torch_tensor() {
    static PyObject* const function = imported("torch", "tensor");
    return function;
}

/// A tensor without dimensions on the CPU whose number can be copied; null for anything else.
TensorValue* number_in_tensor(Tracer& tracer, Value* value) {
    // (A number that is read from a tensor stays a number.)
    if (value->kind != Kind::Tensor && value->kind != Kind::Array) return nullptr;
    tracer.realize(value);
    auto* array = cast<ArrayValue>(value);
    auto* tensor = array != nullptr && array->is_scalar ? array->payload : cast<TensorValue>(value);
    if (tensor == nullptr) return nullptr;
    tracer.realize(tensor);
    const torch_room::TensorMeta& meta = *tensor->meta;
    const bool is_plain = meta.sizes.empty() && !meta.requires_grad && meta.layout == torch_room::Layout{} &&
                          torch_room::device_name(meta.device) == "cpu";
    // A numpy scalar of class float64 is a Python float, and gives a tensor of the default dtype.
    const bool is_float = array != nullptr && torch_room::is_floating(meta.dtype);
    return is_plain && !is_float ? tensor : nullptr;
}

/// Whether converting the stacked numbers does the same as converting each of them: no overflow that PyTorch rejects.
bool converts_alike(torch_room::Dtype from, torch_room::Dtype to) {
    if (from == to) return true;
    if (torch_room::is_floating(from)) return torch_room::is_floating(to);
    return !torch_room::is_complex(from) && torch_room::dtype_name(to) == "torch.int64";
}

}  // namespace

Value* stacked_numbers(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const stack = imported("torch", "stack");
    SequenceValue* sequence = arguments.positional.size() == 1 ? as_sequence(arguments.positional[0]) : nullptr;
    Value* dtype = arguments.keyword("dtype");
    if (sequence == nullptr || arguments.keywords.size() > (dtype == nullptr ? 0U : 1U)) return nullptr;
    torch_room::Device device;
    if (torch_room::default_device(&device)) return nullptr;
    // A copy of a number has no tangent, and a tensor that a transform has wrapped has no number.
    if (torch_room::is_in_dual_level() || tracer.recorder().is_in_transform()) return nullptr;
    tracer.realize(sequence);
    std::vector<Value*> tensors;
    for (Value* item : sequence->all(tracer)) {
        TensorValue* tensor = number_in_tensor(tracer, item);
        if (tensor == nullptr) return nullptr;
        if (!tensors.empty() && cast<TensorValue>(tensors[0])->meta->dtype != tensor->meta->dtype) return nullptr;
        tensors.push_back(tensor);
    }
    if (tensors.empty()) return nullptr;
    const torch_room::Dtype from = cast<TensorValue>(tensors[0])->meta->dtype;
    auto to = dtype == nullptr || dtype->object() == Py_None ? from : torch_room::as_dtype(dtype->object());
    if (!to || !converts_alike(from, *to)) return nullptr;
    Value* stacked = tracer.recorder().emit_function(stack, Arguments::of(make_list(tracer, std::move(tensors))));
    if (*to == from) return stacked;
    return tracer.recorder().emit_method(interned("to"), Arguments::of(stacked, dtype));
}

namespace {

struct LegacyClass {
    const char* name;
    const char* dtype;
};
constexpr LegacyClass kLegacyClasses[] = {
    {"FloatTensor", "float32"}, {"DoubleTensor", "float64"}, {"HalfTensor", "float16"}, {"BFloat16Tensor", "bfloat16"},
    {"LongTensor", "int64"},    {"IntTensor", "int32"},      {"ShortTensor", "int16"},  {"CharTensor", "int8"},
    {"ByteTensor", "uint8"},    {"BoolTensor", "bool"},
};

/// A tensor on the CPU with the numbers of a list. With sizes it would be memory that nobody has written.
Outcome legacy_tensor_of(Tracer& tracer, const char* name, PyObject* dtype, const Arguments& arguments) {
    static PyObject* const cpu = checked(PyObject_CallFunction(imported("torch", "device"), "s", "cpu")).release();
    const bool is_list = arguments.count() == 1 && arguments.positional.size() == 1 &&
                         as_sequence(arguments.positional[0]) != nullptr &&
                         arguments.positional[0]->type() != torch_size_class();
    if (!is_list)
        tracer.break_graph(BreakKind::UnknownFunction,
                           std::string("torch.") + name + " is called with something other than a list");
    Arguments given = arguments;
    given.keywords.push_back({interned("dtype"), tracer.constant(dtype)});
    if (Value* stacked = stacked_numbers(tracer, given)) return stacked;
    given.keywords.push_back({interned("device"), tracer.constant(cpu)});
    return tracer.recorder().emit_function(torch_tensor(), given);
}

/// `torch.LongTensor([1, 2])`
template <std::size_t kClass>
Outcome legacy_tensor(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const dtype = imported("torch", kLegacyClasses[kClass].dtype);
    return legacy_tensor_of(tracer, kLegacyClasses[kClass].name, dtype, arguments);
}

template <std::size_t... kClasses>
void register_legacy_classes(Handlers& handlers, std::index_sequence<kClasses...>) {
    (handlers.add("torch", kLegacyClasses[kClasses].name, legacy_tensor<kClasses>), ...);
}

/// `torch._shape_as_tensor`: the sizes as a tensor.
Outcome shape_as_tensor(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const int64 = imported("torch", "int64");
    static PyObject* const cpu = checked(PyObject_CallFunction(imported("torch", "device"), "s", "cpu")).release();
    auto* tensor = arguments.count() == 1 && arguments.positional.size() == 1
                       ? cast<TensorValue>(arguments.positional[0])
                       : nullptr;
    if (tensor == nullptr)
        tracer.break_graph(BreakKind::UnknownFunction, "torch._shape_as_tensor is called with unusual arguments");
    tracer.realize(tensor);
    Arguments given = Arguments::of(size_values(tracer, tensor->meta->sizes, &PyTuple_Type));
    given.keywords = {{interned("dtype"), tracer.constant(int64)}, {interned("device"), tracer.constant(cpu)}};
    return tracer.recorder().emit_function(torch_tensor(), given);
}

}  // namespace

Outcome tensor_of_default_class(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const device_of_class = imported("torch._C", "_get_default_device");
    static PyObject* const default_dtype = imported("torch", "get_default_dtype");
    // (`torch.set_default_tensor_type` may have chosen one on another device.)
    Answer device = ask(tracer.provenance(), device_of_class);
    Value* name = device.object ? tracer.outside(device.source, device.object.get()) : nullptr;
    if (name != nullptr) tracer.realize(name);
    if (name == nullptr || !PyUnicode_Check(name->object()) ||
        PyUnicode_CompareWithASCIIString(name->object(), "cpu") != 0)
        tracer.break_graph(BreakKind::UnknownFunction, "torch.Tensor is called where it makes tensors on a device");
    PyObject* dtype = tracer.keep(checked(PyObject_CallNoArgs(default_dtype)));
    return legacy_tensor_of(tracer, "Tensor", dtype, arguments);
}

void register_constructions(Handlers& handlers) {
    register_legacy_classes(handlers, std::make_index_sequence<std::size(kLegacyClasses)>());
    handlers.add("torch", "_shape_as_tensor", shape_as_tensor);
}

}  // namespace stator
