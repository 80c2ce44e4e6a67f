#include "value/builtins/arrays.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/arrays.h"
#include "torch/names.h"
#include "value/builtins/array_arguments.h"
#include "value/builtins/array_results.h"
#include "value/builtins/numpy.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/function_modes.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

using arrays::ArrayArguments;
using arrays::base_of;
using arrays::Form;
using arrays::refuse;
using arrays::Result;

bool requires_gradients(const graph::Node* node) {
    return node->result.kind == graph::Result::Kind::Tensor && node->result.tensor->requires_grad;
}

bool is_of_array(const graph::Node* node) {
    return node->kind == graph::NodeKind::Function && torch_room::calls_numpy(node->target);
}

/// Whether the program has a tensor over the memory of this one, whose base is `base`.
bool is_seen_as_tensor(const graph::Graph& graph, const TensorValue* base) {
    const bool is_array =
        base->source != nullptr ? base->source->access == Access::ArrayTensor : is_of_array(base->node);
    if (!is_array) return true;
    for (std::size_t i = 0; i < graph.size(); ++i) {
        const graph::Node* node = graph.at(i);
        if (node->kind == graph::NodeKind::Method && node->memory == base->node && !is_of_array(node)) return true;
    }
    return false;
}

/// numpy does not tell autograd of what it writes. Where that could matter the program has to do it.
void expect_unseen_by_autograd(Tracer& tracer, const TensorValue* written) {
    if (!tracer.modes().current().grad) return;
    const graph::Graph& graph = tracer.recorder().graph();
    bool records = false;
    for (std::size_t i = 0; i < graph.size() && !records; ++i) records = requires_gradients(graph.at(i));
    if (records && is_seen_as_tensor(graph, base_of(written)))
        refuse(tracer, "a numpy array is written to that shares the memory of a tensor, while gradients are recorded");
}

/// What `take_along_axis` of PyTorch does not check: that indices are within bounds.
void check_indices(Tracer& tracer, const ArrayArguments& taken) {
    static PyObject* const all = imported("torch", "all");
    static PyObject* const check = imported("torch", "_assert_async");
    const auto& given = taken.for_node.positional;
    auto* array = given.size() == 3 ? cast<TensorValue>(given[0]) : nullptr;
    auto* indices = given.size() == 3 ? cast<TensorValue>(given[1]) : nullptr;
    if (array == nullptr || indices == nullptr) refuse(tracer, "take_along_axis is called with unusual arguments");
    Dim size = 1;
    const Dims& sizes = array->meta->sizes;
    if (given[2]->object() == Py_None) {
        for (Dim one : sizes) size *= one;
    } else {
        std::int64_t axis = PyLong_AsLongLong(given[2]->object());
        size = sizes.at(static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis));
    }
    auto emit = [&](PyObject* function, Value* left, Value* right) {
        return tracer.recorder().emit_function(function,
                                               right == nullptr ? Arguments::of(left) : Arguments::of(left, right));
    };
    Value* least = size_value(tracer, Dim(0) - size);
    Value* are_least = emit(operator_function(Comparison::GreaterEqual), indices, least);
    Value* are_most = emit(operator_function(Comparison::Less), indices, size_value(tracer, size));
    Value* are_valid = emit(all, emit(operator_function(BinaryOperator::And, false), are_least, are_most), nullptr);
    emit(check, are_valid, tracer.string("an index is out of bounds"));
}

Value* capture(Tracer& tracer, Ref<> call, const Arguments& arguments) {
    expect_arrays_are_traced(tracer);
    ArrayArguments taken(tracer, arguments);
    Ref<> answer = taken.describe(call.get());
    // It breaks the graph where numpy raises floating-point errors, so this one is for when it does not.
    tracer.modes().rely_on_numpy_errors();
    auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(answer.get(), i); };
    PyObject *result = part(0), *written = part(1), *dtype = part(2), *checks_indices = part(3);
    if (static_cast<Form>(PyLong_AsLong(PyTuple_GET_ITEM(result, 0))) == Form::Constant)
        return Result(tracer, taken).of(result, nullptr);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); ++i)
        expect_unseen_by_autograd(tracer, taken.operands.at(PyLong_AsSize_t(PyTuple_GET_ITEM(written, i))).tensor);
    taken.copy_overlapping(written);
    if (dtype != Py_None) taken.convert_integers(dtype);
    if (checks_indices == Py_True) check_indices(tracer, taken);
    Ref<> target = checked(PyObject_GetAttrString(call.get(), "target"));
    Value* made = tracer.recorder().emit_function(target.get(), taken.for_node);
    return Result(tracer, taken).of(result, made);
}

/// A function of `stator.arrays` that gives the call, or None.
Ref<> find_call(const char* function, Borrowed<> about) {
    Ref<> module = checked(PyImport_ImportModule("stator.arrays"));
    Ref<> name = checked(PyUnicode_FromString(function));
    return checked(PyObject_CallMethodOneArg(module.get(), name.get(), about));
}

bool starts_with_numpy(PyObject* module) {
    return module != nullptr && PyUnicode_Check(module) && utf8(module).starts_with("numpy");
}

/// A method of arrays, or of numpy scalars.
bool is_array_method(Borrowed<> callable) {
    PyTypeObject* type = Py_TYPE(callable.get());
    if (type != &PyMethodDescr_Type && type != &PyWrapperDescr_Type) return false;
    PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable.get())->d_type;
    return (owner->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && std::strncmp(owner->tp_name, "numpy.", 6) == 0;
}

bool is_of_numpy(Borrowed<> callable) {
    PyObject* object = callable.get();
    if (PyFunction_Check(object)) return starts_with_numpy(reinterpret_cast<PyFunctionObject*>(object)->func_module);
    if (PyCFunction_Check(object)) return starts_with_numpy(reinterpret_cast<PyCFunctionObject*>(object)->m_module);
    if (is_numpy_function(callable)) return true;
    return PyType_Check(object) && std::strncmp(reinterpret_cast<PyTypeObject*>(object)->tp_name, "numpy.", 6) == 0;
}

/// The method's name, if it reads the data of an array as a number of Python.
bool reads_data(std::string_view name) {
    return name == "item" || name == "tolist" || name == "__int__" || name == "__float__" || name == "__index__" ||
           name == "__bool__" || name == "__complex__";
}

bool has_one_element(const ArrayValue& array) {
    return std::ranges::all_of(array.meta().sizes, [](Dim size) { return known_equal(size, 1); });
}

Value* read_data(Tracer& tracer, const Arguments& arguments, const std::string& name) {
    auto* array = cast<ArrayValue>(arguments.positional[0]);
    Value* read = nullptr;
    if (array != nullptr && array->is_outside_scalar() && arguments.count() == 1)
        return tracer.fresh(checked(PyObject_CallMethod(array->specialized(tracer), name.c_str(), nullptr)));
    if (array != nullptr && arguments.count() == 1) {
        tracer.realize(array);
        read = name == "tolist"          ? read_list(tracer, array->payload)
               : has_one_element(*array) ? read_number(tracer, array->payload, name)
                                         : nullptr;
    }
    if (read == nullptr)
        tracer.break_graph(BreakKind::DataDependent, "the data of a numpy array is read (" + name + ")");
    return read;
}

Value* call_array_method(Tracer& tracer, Borrowed<> method, const Arguments& arguments) {
    PyObject* name = reinterpret_cast<PyDescrObject*>(method.get())->d_name;
    const std::string text(utf8(name));
    if (reads_data(text)) return read_data(tracer, arguments, text);
    Ref<> call = find_call("method", name);
    if (call.get() == Py_None) refuse(tracer, "method " + text + " of a numpy array is called");
    return capture(tracer, std::move(call), arguments);
}

/// `numpy.shape(array)`, `numpy.size(array)`; null for others.
Value* of_sizes(Tracer& tracer, PyObject* call, const Arguments& arguments) {
    Ref<> name = checked(PyObject_GetAttrString(call, "name"));
    const std::string_view text = utf8(name.get());
    if ((text != "shape" && text != "size") || arguments.count() != 1 || arguments.positional.empty()) return nullptr;
    auto* array = cast<ArrayValue>(arguments.positional[0]);
    if (array == nullptr) return nullptr;
    tracer.realize(array);
    return array->get_attribute(tracer, interned(text == "shape" ? "shape" : "size")).value();
}

/// A list may contain itself: each is looked into once.
bool is_array_in(const Value* value, std::unordered_set<const Value*>& seen) {
    if (value == nullptr) return false;
    if (value->kind == Kind::Array) return true;
    if ((value->kind != Kind::Tuple && value->kind != Kind::List) || !seen.insert(value).second) return false;
    return std::ranges::any_of(static_cast<const SequenceValue*>(value)->items,
                               [&](const Value* item) { return is_array_in(item, seen); });
}

/// `torch._dynamo.config.trace_numpy`, which is True unless the program has set it.
bool is_wanted() {
    PyObject* config = PyDict_GetItemWithError(PyImport_GetModuleDict(), interned("torch._dynamo.config"));
    Ref<> value = config == nullptr ? Ref<>() : Ref<>::steal(PyObject_GetAttrString(config, "trace_numpy"));
    PyErr_Clear();
    return !value || value.get() != Py_False;
}

}  // namespace

void expect_arrays_are_traced(Tracer& tracer) {
    if (!is_wanted())
        refuse(tracer, "a numpy array or function is used, and torch._dynamo.config.trace_numpy is False");
    if (tracer.modes().current().autocast_anywhere())
        refuse(tracer, "a numpy function is called under autocast, which would change it");
}

bool has_array(const Arguments& arguments) {
    std::unordered_set<const Value*> seen;
    auto holds_array = [&](const Value* value) { return is_array_in(value, seen); };
    return std::ranges::any_of(arguments.positional, holds_array) ||
           std::ranges::any_of(arguments.keywords, holds_array, &Keyword::value);
}

bool is_array_function(Borrowed<> callable) {
    return is_array_method(callable) || is_of_numpy(callable);
}

Value* call_array_function(Tracer& tracer, Borrowed<> callable, const Arguments& arguments) {
    if (is_array_method(callable)) {
        if (arguments.positional.empty() || arguments.positional[0]->kind != Kind::Array) return nullptr;
        return call_array_method(tracer, callable, arguments);
    }
    Ref<> call = find_call("find", callable);
    if (call.get() == Py_None) return nullptr;
    if (Value* known = of_sizes(tracer, call.get(), arguments)) return known;
    // (numpy makes arrays of tensors, which a mode sees.)
    if (modes_see_operators(tracer)) expect_no_function_modes(tracer, "a function of numpy is called");
    return capture(tracer, std::move(call), arguments);
}

Value* array_operator(Tracer& tracer, Borrowed<> function, const Arguments& operands) {
    for (Value* operand : operands.positional) {
        if (!symbolic::is(operand)) tracer.realize(operand);
        // Objects of other classes may define the operator themselves.
        if (operand->kind != Kind::Array && operand->kind != Kind::Tensor && operand->kind != Kind::Constant &&
            operand->kind != Kind::List && operand->kind != Kind::Tuple)
            refuse(tracer, "an operator is used between a numpy array and a " + type_name(operand->type()));
    }
    const bool has_tensor =
        std::ranges::any_of(operands.positional, [](Value* operand) { return operand->kind == Kind::Tensor; });
    return capture(tracer, find_call(has_tensor ? "plain_operator" : "array_operator", function), operands);
}

Value* array_attribute(Tracer& tracer, ArrayValue* array, Borrowed<> name) {
    return capture(tracer, find_call("attribute", name), Arguments::of(array, tracer.constant(name)));
}

Value* array_item(Tracer& tracer, ArrayValue* array, Value* key) {
    tracer.realize(key);
    if (key->kind == Kind::Constant && PyLong_CheckExact(key->object()) && !array->meta().sizes.empty()) {
        const Dim size = array->meta().sizes[0];
        const std::int64_t index = PyLong_AsLongLong(key->object());
        if (PyErr_Occurred() != nullptr)
            PyErr_Clear();
        else if (Dim(index) >= size || Dim(index) < Dim(0) - size)
            tracer.raise(PyExc_IndexError, "index " + std::to_string(index) +
                                               " is out of bounds for axis 0 with size " + std::to_string(size.hint()));
    }
    return capture(tracer, find_call("method", interned("__getitem__")), Arguments::of(array, key));
}

void set_array_item(Tracer& tracer, ArrayValue* array, Value* key, Value* value) {
    if (!array->is_writeable || array->is_scalar)
        tracer.break_graph(BreakKind::OperationFails, "an item of a read-only numpy array is assigned");
    tracer.realize(key);
    tracer.realize(value);
    capture(tracer, find_call("method", interned("__setitem__")), Arguments::of(array, key, value));
}

}  // namespace stator
