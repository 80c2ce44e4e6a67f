#include "value/tensor/attributes.h"

#include <unordered_map>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/jagged.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/builtins/builtin.h"
#include "value/kinds/constant.h"
#include "value/kinds/function.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/function_transforms.h"
#include "value/tensor/gradients.h"
#include "value/tensor/jagged_tensors.h"
#include "value/tensor/known_contents.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

PyObject* data_function() {
    static PyObject* function = find_imported("torch._C._autograd", "_get_data_attr").release();
    return function;
}

namespace {

using torch_room::TensorMeta;

Dim elements_of(Tracer& tracer, const TensorMeta& meta) {
    if (torch_room::is_jagged(meta)) return count_of_jagged(tracer, meta);
    Dim count = 1;
    for (Dim size : meta.sizes) count *= size;
    return count;
}

Value* count_of(Tracer& tracer, const TensorMeta& meta) {
    return size_value(tracer, elements_of(tracer, meta));
}

bool is_on(const TensorMeta& meta, const char* device) {
    std::string name = torch_room::device_name(meta.device);
    return name.substr(0, name.find(':')) == device;
}

bool has_layout(const TensorValue& tensor, const char* name) {
    Ref<> text = checked(PyObject_Str(torch_room::layout_object(tensor.meta->layout)));
    return utf8(text.get()) == name;
}

/// `x.T`, `x.real`, ...: operations in the form of attributes. torch._dynamo records them as `getattr(x, "T")`.
Value* operation(Tracer& tracer, TensorValue* tensor, const char* name) {
    static PyObject* getattr = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
    return tracer.recorder().emit_function(getattr, Arguments::of(tensor, tracer.constant(interned(name))));
}

/// The gradient of an outside tensor: another outside tensor, or None.
Value* gradient(Tracer& tracer, TensorValue* tensor) {
    if (tensor->set_gradient != nullptr) return tensor->set_gradient;
    if (tensor->outside == nullptr || tensor->source == nullptr) {
        tracer.recorder().expect_history(tensor);
        if (tensor->meta->is_leaf) return tracer.none();
        tracer.break_graph(BreakKind::UnsupportedTensor, ".grad of an intermediate tensor is read");
    }
    // Each later call would call the subclass's `__torch_function__` for it.
    if (tensor->is_of_object)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           ".grad of a tensor of class " + type_name(Py_TYPE(tensor->outside)) + " is read");
    // And so would the modes of the program, which are active while later calls check guards.
    if (!tracer.modes().function_modes_at_entry().empty())
        tracer.break_graph(BreakKind::UnsupportedTensor, ".grad of a tensor is read inside of a torch function mode");
    Ref<> held = checked(PyObject_GetAttrString(tensor->outside, "grad"));
    return tracer.outside(tracer.provenance().child(tensor->source, Access::Member, interned("grad"), 0, held.get()),
                          held.get());
}

Value* is_leaf(Tracer& tracer, TensorValue* tensor) {
    tracer.recorder().expect_history(tensor);
    guard_autograd_state(tracer, tensor);
    return tracer.boolean(tensor->meta->is_leaf);
}

/// Whether a captured `torch.autograd.Function` created the tensor's history (autograd_function.cpp).
bool has_custom_history(const TensorValue* tensor) {
    static PyObject* const target = imported("stator.custom_gradients", "AttachBackward");
    const graph::Node* node = tensor->node;
    if (node->target != getitem_function() || node->arguments[0].kind != graph::Argument::Kind::Node) return false;
    PyObject* from = node->arguments[0].node->target;
    return from != nullptr && PyObject_TypeCheck(from, reinterpret_cast<PyTypeObject*>(target));
}

/// Whether `Module._call_impl`, or its inner function, runs: it needs the node for non-full backward hooks.
bool is_wanted_for_backward_hooks(Tracer& tracer) {
    auto* call_impl = reinterpret_cast<PyFunctionObject*>(torch_room::known().module_call_impl);
    auto* running = reinterpret_cast<PyObject*>(tracer.running_function()->code);
    if (running == call_impl->func_code) return true;
    PyObject* constants = reinterpret_cast<PyCodeObject*>(call_impl->func_code)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
        if (PyTuple_GET_ITEM(constants, i) == running) return true;
    return false;
}

Value* gradient_function(Tracer& tracer, TensorValue* tensor) {
    tracer.recorder().expect_history(tensor);
    guard_autograd_state(tracer, tensor);
    if (tensor->meta->is_leaf) return tracer.none();
    // Such hooks receive and replace the gradients of the operation itself, which a backend's graph does not have.
    if (is_wanted_for_backward_hooks(tracer))
        throw Break{BreakKind::UnsupportedTensor,
                    "a module with a non-full backward hook is called; use register_full_backward_hook", false};
    // Attributes of the user's Function node do not exist on the node that replaces it.
    if (has_custom_history(tensor))
        throw Break{BreakKind::UnsupportedTensor, "the grad_fn of a result of a torch.autograd.Function is read",
                    false};
    tracer.break_graph(BreakKind::UnsupportedTensor, "the grad_fn of a tensor is read");
}

using Getter = Value* (*)(Tracer&, TensorValue*);

const std::unordered_map<PyObject*, Getter>& getters() {
    static const auto* table = [] {
        auto* made = new std::unordered_map<PyObject*, Getter>();
        auto add = [made](const char* name, Getter getter) { made->emplace(interned(name), getter); };
        add("shape", [](Tracer& t, TensorValue* x) { return sizes_of(t, x, torch_room::size_class()); });
        add("dtype", [](Tracer& t, TensorValue* x) { return t.constant(torch_room::dtype_object(x->meta->dtype)); });
        add("device", [](Tracer& t, TensorValue* x) { return t.fresh(torch_room::device_object(x->meta->device)); });
        add("layout", [](Tracer& t, TensorValue* x) { return t.constant(torch_room::layout_object(x->meta->layout)); });
        add("ndim",
            [](Tracer& t, TensorValue* x) { return t.integer(static_cast<std::int64_t>(x->meta->sizes.size())); });
        add("requires_grad", [](Tracer& t, TensorValue* x) { return t.boolean(x->meta->requires_grad); });
        add("is_leaf", is_leaf);
        add("is_cuda", [](Tracer& t, TensorValue* x) { return t.boolean(is_on(*x->meta, "cuda")); });
        add("is_cpu", [](Tracer& t, TensorValue* x) { return t.boolean(is_on(*x->meta, "cpu")); });
        add("is_meta", [](Tracer& t, TensorValue* x) { return t.boolean(is_on(*x->meta, "meta")); });
        add("is_mps", [](Tracer& t, TensorValue* x) { return t.boolean(is_on(*x->meta, "mps")); });
        add("is_xpu", [](Tracer& t, TensorValue* x) { return t.boolean(is_on(*x->meta, "xpu")); });
        // (Quantized tensors break the graph: see `TensorValue::realize`.)
        add("is_quantized", [](Tracer& t, TensorValue*) { return t.boolean(false); });
        add("is_nested", [](Tracer& t, TensorValue* x) {
            return t.boolean((x->meta->dispatch_keys & torch_room::trait::kNested) != 0);
        });
        add("is_sparse", [](Tracer& t, TensorValue* x) { return t.boolean(has_layout(*x, "torch.sparse_coo")); });
        add("is_mkldnn", [](Tracer& t, TensorValue* x) { return t.boolean(has_layout(*x, "torch._mkldnn")); });
        add("itemsize", [](Tracer& t, TensorValue* x) {
            return t.fresh(checked(PyObject_GetAttrString(torch_room::dtype_object(x->meta->dtype), "itemsize")));
        });
        add("nbytes", [](Tracer& t, TensorValue* x) -> Value* {
            if (!has_layout(*x, "torch.strided") && !torch_room::is_jagged(*x->meta))
                t.break_graph(BreakKind::UnsupportedTensor, "nbytes of a tensor that is not strided is read");
            Ref<> size = checked(PyObject_GetAttrString(torch_room::dtype_object(x->meta->dtype), "itemsize"));
            return size_value(t, elements_of(t, *x->meta) * Dim(PyLong_AsLongLong(size.get())));
        });
        add("grad", gradient);
        add("grad_fn", gradient_function);
        add("T", [](Tracer& t, TensorValue* x) { return operation(t, x, "T"); });
        add("mT", [](Tracer& t, TensorValue* x) { return operation(t, x, "mT"); });
        add("H", [](Tracer& t, TensorValue* x) { return operation(t, x, "H"); });
        add("mH", [](Tracer& t, TensorValue* x) { return operation(t, x, "mH"); });
        add("real", [](Tracer& t, TensorValue* x) { return operation(t, x, "real"); });
        add("imag", [](Tracer& t, TensorValue* x) { return operation(t, x, "imag"); });
        add("data", [](Tracer& t, TensorValue* x) {
            if (PyObject* function = data_function(); function != nullptr)
                return t.recorder().emit_function(function, Arguments::of(x));
            return t.recorder().emit_method(interned("detach"), Arguments::of(x));
        });
        return made;
    }();
    return *table;
}

TensorValue* self_of(Tracer& tracer, const Arguments& arguments) {
    auto* tensor = arguments.positional.empty() ? nullptr : cast<TensorValue>(arguments.positional[0]);
    if (tensor == nullptr)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "a method of torch.Tensor is called on an object that is not a tensor");
    tracer.realize(tensor);
    return tensor;
}

/// Called before the memory layout of a tensor is read.
void needs_layout(Tracer& tracer, const TensorValue* tensor) {
    if (tensor->meta->layout != torch_room::Layout{})
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "the strides of a sparse or otherwise non-strided tensor are read");
    if (tensor->is_gradient)
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "the strides or memory format of a gradient are read in a hook");
}

/// Strides are only known for the sizes that most tensors have (shape/language/strides.h).
void needs_known_sizes(Tracer& tracer, const TensorValue* tensor) {
    for (Dim size : tensor->meta->sizes)
        if (size.is_unbacked()) tracer.numbers().ask(*size.expression());
}

/// The dimension given by an argument, checked as PyTorch does.
std::size_t dimension(Tracer& tracer, const TensorMeta& meta, Value* argument) {
    Ref<> constant = argument->as_constant(tracer);
    if (!constant || !PyLong_Check(constant.get()))
        tracer.break_graph(BreakKind::UnknownObject, "a dimension is not a constant int");
    std::int64_t wanted = PyLong_AsLongLong(constant.get());
    auto count = static_cast<std::int64_t>(meta.sizes.size());
    if (count == 0)
        tracer.raise(PyExc_IndexError,
                     "Dimension specified as " + std::to_string(wanted) + " but tensor has no dimensions");
    const std::int64_t range = count;
    if (wanted < -range || wanted >= range)
        tracer.raise(PyExc_IndexError, "Dimension out of range (expected to be in range of [" + std::to_string(-range) +
                                           ", " + std::to_string(range - 1) + "], but got " + std::to_string(wanted) +
                                           ")");
    return static_cast<std::size_t>(wanted < 0 ? wanted + range : wanted);
}

Outcome method_size(Tracer& tracer, const Arguments& arguments) {
    TensorValue* self = self_of(tracer, arguments);
    Value* which = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("dim");
    if (which == nullptr || which->object() == Py_None) return sizes_of(tracer, self, torch_room::size_class());
    return size_of(tracer, self, dimension(tracer, *self->meta, which));
}

Outcome method_stride(Tracer& tracer, const Arguments& arguments) {
    TensorValue* self = self_of(tracer, arguments);
    needs_layout(tracer, self);
    needs_known_sizes(tracer, self);
    Value* which = arguments.positional.size() > 1 ? arguments.positional[1] : arguments.keyword("dim");
    if (which != nullptr && which->object() != Py_None)
        return size_value(tracer, self->meta->strides.at(dimension(tracer, *self->meta, which)));
    return size_values(tracer, self->meta->strides);
}

using Question = Value* (*)(Tracer&, const TensorMeta&);

/// A method without arguments that reads metadata, or a function of one tensor, which may be the keyword `input`.
template <Question kQuestion>
Outcome answer(Tracer& tracer, const Arguments& arguments) {
    Value* input = arguments.positional.empty() ? arguments.keyword("input") : nullptr;
    TensorValue* self = self_of(tracer, input != nullptr ? Arguments::of(input) : arguments);
    if (arguments.count() != 1) tracer.raise(PyExc_TypeError, "the method takes no arguments");
    return kQuestion(tracer, *self->meta);
}

Value* dimensions_of(Tracer& tracer, const TensorMeta& meta) {
    return tracer.integer(static_cast<std::int64_t>(meta.sizes.size()));
}

Value* device_index_of(Tracer& tracer, const TensorMeta& meta) {
    return tracer.integer(meta.device.index);
}

/// Recorded as an operation: the offset of a view may depend on symbolic ints.
Outcome method_storage_offset(Tracer& tracer, const Arguments& arguments) {
    needs_layout(tracer, self_of(tracer, arguments));
    needs_known_sizes(tracer, self_of(tracer, arguments));
    const TensorValue* base = cast<TensorValue>(arguments.positional[0]);
    while (base->view_of != nullptr) base = base->view_of;
    if (base == arguments.positional[0] && base->outside != nullptr)
        if (Value* offset = changing_offset(tracer, base)) return offset;
    // Guarded only here: other graphs do not depend on the storage offset of an input.
    if (base->outside != nullptr) tracer.guard({GuardKind::Offset, base->source, base->outside});
    return tracer.recorder().emit_method(interned("storage_offset"), arguments);
}

/// An attribute of the dtype.
Value* of_dtype(Tracer& tracer, const TensorMeta& meta, const char* attribute) {
    return tracer.fresh(checked(PyObject_GetAttrString(torch_room::dtype_object(meta.dtype), attribute)));
}

Value* is_floating(Tracer& tracer, const TensorMeta& meta) {
    return of_dtype(tracer, meta, "is_floating_point");
}

Value* is_complex(Tracer& tracer, const TensorMeta& meta) {
    return of_dtype(tracer, meta, "is_complex");
}

Value* is_signed(Tracer& tracer, const TensorMeta& meta) {
    return of_dtype(tracer, meta, "is_signed");
}

Value* element_size_of(Tracer& tracer, const TensorMeta& meta) {
    return of_dtype(tracer, meta, "itemsize");
}

Outcome method_is_contiguous(Tracer& tracer, const Arguments& arguments) {
    needs_layout(tracer, self_of(tracer, arguments));
    // Shape inference knows how PyTorch defines the memory formats.
    return tracer.recorder().emit_method(interned("is_contiguous"), arguments);
}

Outcome method_type(Tracer& tracer, const Arguments& arguments) {
    TensorValue* self = self_of(tracer, arguments);
    if (arguments.count() > 1) return tracer.recorder().emit_method(interned("type"), arguments);
    return tracer.fresh(checked(PyUnicode_FromString(legacy_type_name(tracer, self).c_str())));
}

Outcome reads_data(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::DataDependent,
                       "the data of a tensor is read (item, tolist, int, float, bool, numpy)");
}

/// `tolist()`.
Outcome reads_numbers(Tracer& tracer, const Arguments& arguments) {
    auto* tensor = arguments.positional.size() == 1 ? cast<TensorValue>(arguments.positional[0]) : nullptr;
    if (tensor == nullptr || !arguments.keywords.empty()) return reads_data(tracer, arguments);
    if (Ref<> contents = known_contents(tracer, tensor))
        return tracer.fresh(checked(PyObject_CallMethod(contents.get(), "tolist", nullptr)));
    if (Value* read = read_list(tracer, tensor)) return read;
    return reads_data(tracer, arguments);
}

/// `item()`, `int()` and the like: the number in the tensor.
template <const char* kMethod>
Outcome reads_number(Tracer& tracer, const Arguments& arguments) {
    auto* tensor = arguments.positional.size() == 1 ? cast<TensorValue>(arguments.positional[0]) : nullptr;
    Ref<> contents;
    if (tensor != nullptr && arguments.keywords.empty()) contents = known_contents(tracer, tensor);
    Ref<> number;
    if (contents) number = Ref<>::steal(PyObject_CallMethod(contents.get(), kMethod, nullptr));
    if (number) return tracer.fresh(std::move(number));
    PyErr_Clear();  // the real tensor raises the error
    if (tensor != nullptr && arguments.keywords.empty())
        if (Value* read = read_number(tracer, tensor, kMethod)) return read;
    return reads_data(tracer, arguments);
}

constexpr char kItem[] = "item", kInt[] = "__int__", kFloat[] = "__float__", kBool[] = "__bool__",
               kIndex[] = "__index__";

/// `x.new(size)`. It distinguishes a `torch.Size` from a tuple, whose items are the elements of the new tensor; in
/// `torch.fx` both are tuples.
Outcome method_new(Tracer& tracer, const Arguments& arguments) {
    bool is_size = arguments.positional.size() == 2 && arguments.keywords.empty() &&
                   arguments.positional[1]->type() == torch_room::known().size_class;
    return tracer.recorder().emit_method(interned(is_size ? "new_empty" : "new"), arguments);
}

/// Functionalizing backends (aot_autograd) can't resize an input in place.
Outcome resizes(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::UnsupportedTensor, "a tensor is resized in place");
}

Outcome touches_autograd(Tracer& tracer, const Arguments&) {
    tracer.break_graph(BreakKind::UnsupportedTensor,
                       "a hook is registered, or the autograd state of a tensor is changed");
}

PyObject* find_method(const char* name) {
    return PyObject_GetAttrString(reinterpret_cast<PyObject*>(torch_room::known().tensor_class), name);
}

/// `x.__iter__()`, the same as `iter(x)`.
Outcome method_iter(Tracer& tracer, const Arguments& arguments) {
    auto* tensor = arguments.positional.empty() ? nullptr : cast<TensorValue>(arguments.positional[0]);
    if (tensor == nullptr || arguments.count() != 1)
        tracer.break_graph(BreakKind::UnknownFunction, "Tensor.__iter__ is called with unusual arguments");
    tracer.realize(tensor);
    return tensor->iterate(tracer);
}

}  // namespace

Value* tensor_attribute(Tracer& tracer, TensorValue* tensor, Borrowed<> name) {
    auto found = getters().find(name.get());
    return found == getters().end() ? nullptr : found->second(tracer, tensor);
}

std::string legacy_type_name(Tracer& tracer, TensorValue* tensor) {
    tracer.realize(tensor);
    std::string name = torch_room::legacy_type_name(*tensor->meta);
    if (name.empty())
        tracer.break_graph(BreakKind::UnsupportedTensor,
                           "the legacy type name of a tensor is read: " + tensor->print());
    return name;
}

void register_tensor_methods(Handlers& handlers) {
    auto add = [&](const char* name, Handler handler) {
        Ref<> method = Ref<>::steal(find_method(name));
        handlers.add(method.get(), handler);
    };
    add("size", method_size);
    add("__iter__", method_iter);
    add("stride", method_stride);
    add("is_contiguous", method_is_contiguous);
    add("type", method_type);
    add("numel", answer<count_of>);
    add("nelement", answer<count_of>);
    add("dim", answer<dimensions_of>);
    add("ndimension", answer<dimensions_of>);
    add("is_floating_point", answer<is_floating>);
    add("is_complex", answer<is_complex>);
    add("is_signed", answer<is_signed>);
    add("element_size", answer<element_size_of>);
    add("storage_offset", method_storage_offset);
    add("get_device", answer<device_index_of>);
    handlers.add("torch", "is_floating_point", answer<is_floating>);
    handlers.add("torch", "is_complex", answer<is_complex>);
    handlers.add("torch", "numel", answer<count_of>);
    for (const char* name : {"__complex__", "__array__", "data_ptr", "untyped_storage", "storage", "__contains__"})
        add(name, reads_data);
    add("tolist", reads_numbers);
    add("item", reads_number<kItem>);
    add("__int__", reads_number<kInt>);
    add("__float__", reads_number<kFloat>);
    add("__bool__", reads_number<kBool>);
    add("__index__", reads_number<kIndex>);
    for (const char* name : {"resize_", "resize_as_"}) add(name, resizes);
    add("new", method_new);
    add("backward", capture_backward);
    for (const char* name : {"retain_grad", "share_memory_", "set_", "_backward_hooks"}) add(name, touches_autograd);
}

}  // namespace stator
