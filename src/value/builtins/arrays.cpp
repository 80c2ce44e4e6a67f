#include "value/builtins/arrays.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "guard/numpy_numbers.h"
#include "torch/arrays.h"
#include "torch/dtypes.h"
#include "torch/global_state.h"
#include "torch/known.h"
#include "torch/names.h"
#include "torch/warnings.h"
#include "value/builtins/numpy.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/torch_modes.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// As in `python/stator/arrays.py`.
enum class Form : std::uint8_t { Array, Scalar, Tensor, Constant, Tuple, List, None };

const TensorValue* base_of(const TensorValue* tensor) {
    while (tensor->view_of != nullptr) tensor = tensor->view_of;
    return tensor;
}

[[noreturn]] void refuse(Tracer& tracer, const std::string& reason) {
    tracer.break_graph(BreakKind::UnknownFunction, reason);
}

Ref<> numbers_of(Tracer& tracer, const Dims& dims) {
    Ref<> tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i].is_unbacked())
            tracer.break_graph(BreakKind::DataDependent, "the size of a numpy array depends on data");
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                         checked(PyLong_FromLongLong(dims[i].hint())).release());
    }
    return tuple;
}

/// The arguments of a call, as the node takes them and as numpy's trial takes them.
class ArrayArguments {
  public:
    ArrayArguments(Tracer& tracer, const Arguments& arguments) : tracer_(tracer) {
        positional_ = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.positional.size())));
        for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
            Taken taken = take(arguments.positional[i]);
            for_node.positional.push_back(taken.for_node);
            PyTuple_SET_ITEM(positional_.get(), static_cast<Py_ssize_t>(i), taken.for_trial.release());
        }
        named_ = checked(PyDict_New());
        for (const Keyword& keyword : arguments.keywords) {
            Taken taken = take(keyword.value);
            for_node.keywords.push_back({keyword.name, taken.for_node});
            checked(PyDict_SetItem(named_.get(), keyword.name, taken.for_trial.get()));
        }
        // numpy raises for ints that a narrow dtype does not hold.
        if (std::ranges::any_of(operands, is_of_narrow_integers))
            for (Value* number : changing_) tracer_.realize(number);
    }

    struct Operand {
        TensorValue* tensor;
        Value* value;  // the array or tensor of the program
        Ref<> for_trial;
    };

    Arguments for_node;
    std::vector<Operand> operands;

    /// What numpy returns. Breaks the graph if the node would do something else.
    Ref<> describe(PyObject* call) {
        static PyObject* const describe = imported("stator.arrays", "describe");
        torch_room::KeepRandomState keep_random_state;
        Ref<> answer = checked(PyObject_CallFunctionObjArgs(describe, call, positional_.get(), named_.get(), nullptr));
        if (PyUnicode_Check(answer.get())) refuse(tracer_, std::string(utf8(answer.get())));
        return answer;
    }

    /// Copies the operands that share memory with one that the call writes to: numpy reads them first. Arrays from
    /// outside may share memory in another call.
    void copy_overlapping(PyObject* written) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(written); ++i) {
            const TensorValue* target = operands.at(PyLong_AsSize_t(PyTuple_GET_ITEM(written, i))).tensor;
            for (Operand& other : operands)
                if (other.tensor != target && may_share_memory(other.tensor, target)) replace(other, "clone", nullptr);
        }
    }

    /// Converts the integers among the operands first.
    void convert_integers(PyObject* dtype) {
        for (Operand& operand : operands)
            if (torch_room::is_integral(operand.tensor->meta->dtype)) replace(operand, "to", tracer_.constant(dtype));
    }

  private:
    struct Taken {
        Value* for_node;
        Ref<> for_trial;
    };

    static bool is_of_narrow_integers(const Operand& operand) {
        const torch_room::Dtype dtype = operand.tensor->meta->dtype;
        return torch_room::is_integral(dtype) && dtype != torch_room::dtype::kLong && dtype != torch_room::dtype::kBool;
    }

    Taken take(Value* value) {
        // The node realizes it, unless it stands for a function that takes any int.
        if (symbolic::is(value) && !symbolic::is_unbacked(value) && PyLong_CheckExact(value->object())) {
            changing_.push_back(value);
            return {value, Ref<>::share(value->object())};
        }
        tracer_.realize(value);
        switch (value->kind) {
            case Kind::Array: {
                auto* array = static_cast<ArrayValue*>(value);
                return operand(array->payload, array, array->is_scalar ? Form::Scalar : Form::Array,
                               array->is_writeable);
            }
            case Kind::Tensor:
                return take_tensor(static_cast<TensorValue*>(value));
            case Kind::Tuple:
            case Kind::List:
                return take_sequence(static_cast<SequenceValue*>(value));
            case Kind::Slice:
                return take_slice(static_cast<SliceValue*>(value));
            case Kind::Constant:
                if (is_numpy_number(value->object())) return take_scalar(value);
                return {value, Ref<>::share(value->object())};
            default:
                return take_dtype(value);
        }
    }

    Taken operand(TensorValue* tensor, Value* value, Form form, bool is_writeable) {
        for (const Operand& known : operands)
            if (known.tensor == tensor) return {tensor, known.for_trial};
        static PyObject* const make = imported("stator.arrays", "Operand");
        const torch_room::TensorMeta& meta = *tensor->meta;
        Ref<> sizes = numbers_of(tracer_, meta.sizes), strides = numbers_of(tracer_, meta.strides);
        Ref<> made = checked(PyObject_CallFunction(make, "niOOOO", static_cast<Py_ssize_t>(operands.size()),
                                                   static_cast<int>(form), torch_room::dtype_object(meta.dtype).get(),
                                                   sizes.get(), strides.get(), is_writeable ? Py_True : Py_False));
        operands.push_back({tensor, value, made});
        return {tensor, std::move(made)};
    }

    Taken take_tensor(TensorValue* tensor) {
        const torch_room::TensorMeta& meta = *tensor->meta;
        constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
        if (meta.requires_grad || torch_room::device_name(meta.device) != "cpu" ||
            meta.layout != torch_room::Layout{} || (meta.dispatch_keys & kViews) != 0 ||
            !torch_room::has_array_dtype(meta.dtype))
            refuse(tracer_, "a tensor that is unlike any numpy array is an argument of a numpy function");
        return operand(tensor, tensor, Form::Tensor, true);
    }

    Taken take_sequence(SequenceValue* sequence) {
        const bool is_list = sequence->kind == Kind::List;
        if (sequence->type() != &PyList_Type && sequence->type() != &PyTuple_Type &&
            sequence->type() != torch_room::known().size_class)
            refuse(tracer_, "a " + type_name(sequence->type()) + " is an argument of a numpy function");
        std::vector<Value*> items;
        Ref<> for_trial = checked(PyList_New(0));
        for (Value* item : sequence->all(tracer_)) {
            Taken taken = take(item);
            items.push_back(taken.for_node);
            checked(PyList_Append(for_trial.get(), taken.for_trial.get()));
        }
        if (is_list) return {make_list(tracer_, std::move(items)), std::move(for_trial)};
        return {make_tuple(tracer_, std::move(items)), checked(PyList_AsTuple(for_trial.get()))};
    }

    Taken take_slice(SliceValue* slice) {
        Taken start = take(slice->start), stop = take(slice->stop), step = take(slice->step);
        return {tracer_.make<SliceValue>(start.for_node, stop.for_node, step.for_node),
                checked(PySlice_New(start.for_trial.get(), stop.for_trial.get(), step.for_trial.get()))};
    }

    /// A numpy scalar that is a constant: in the graph it is a tensor without dimensions.
    Taken take_scalar(Value* constant) {
        static PyObject* const find = imported("stator.arrays", "find");
        PyObject* object = constant->object();
        Ref<> call = checked(PyObject_CallOneArg(find, reinterpret_cast<PyObject*>(Py_TYPE(object))));
        if (call.get() == Py_None) refuse(tracer_, "a " + type_name(Py_TYPE(object)) + " is used beside an array");
        Ref<> target = checked(PyObject_GetAttrString(call.get(), "target"));
        Ref<> number = checked(PyObject_CallMethod(object, "item", nullptr));
        Value* made =
            tracer_.recorder().emit_function(target.get(), Arguments::of(tracer_.constant(tracer_.keep(number))));
        if (made->kind != Kind::Tensor) refuse(tracer_, "a numpy scalar is used beside an array");
        return {made, Ref<>::share(object)};
    }

    /// A dtype, given as `numpy.float32`, `float` or a `numpy.dtype`: the graph has its name.
    Taken take_dtype(Value* value) {
        static PyObject* const name_of = imported("stator.arrays", "dtype_name");
        PyObject* object = value->object();
        if (object == nullptr || (value->kind != Kind::Class && value->kind != Kind::Object))
            refuse(tracer_, "an object of type " + type_name(value->type()) + " is an argument of a numpy function");
        Ref<> name = checked(PyObject_CallOneArg(name_of, object));
        if (name.get() == Py_None)
            refuse(tracer_, "an object of type " + type_name(value->type()) + " is an argument of a numpy function");
        if (value->kind == Kind::Object && value->source != nullptr && value->source->access != Access::Pinned)
            tracer_.guard({GuardKind::Identity, value->source, object});
        return {tracer_.constant(tracer_.keep(std::move(name))), Ref<>::share(object)};
    }

    static bool may_share_memory(const TensorValue* one, const TensorValue* other) {
        const TensorValue *left = base_of(one), *right = base_of(other);
        return left == right || (left->source != nullptr && right->source != nullptr);
    }

    /// Puts the result of a method in the place of an operand.
    void replace(Operand& operand, const char* method, Value* argument) {
        Arguments arguments = Arguments::of(operand.tensor);
        if (argument != nullptr) arguments.positional.push_back(argument);
        auto* after = cast<TensorValue>(tracer_.recorder().emit_method(interned(method), arguments));
        for (Value*& value : for_node.positional) value = replaced(value, operand.tensor, after);
        for (Keyword& keyword : for_node.keywords) keyword.value = replaced(keyword.value, operand.tensor, after);
        operand.tensor = after;
    }

    Value* replaced(Value* value, Value* before, Value* after) {
        if (value == before) return after;
        if (SequenceValue* sequence = as_sequence(value))
            for (Value*& item : sequence->items) item = replaced(item, before, after);
        return value;
    }

    Tracer& tracer_;
    Ref<> positional_, named_;
    std::vector<Value*> changing_;  // ints that differ between calls
};

/// Makes the value that the program gets from what the node returns.
class Result {
  public:
    Result(Tracer& tracer, const ArrayArguments& arguments) : tracer_(tracer), arguments_(arguments) {}

    Value* of(PyObject* description, Value* made) {
        auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(description, i); };
        switch (static_cast<Form>(PyLong_AsLong(part(0)))) {
            case Form::Array:
            case Form::Scalar:
            case Form::Tensor:
                return of_array(description, made);
            case Form::Tuple:
                return make_tuple(tracer_, of_parts(part(1), made));
            case Form::List:
                return make_list(tracer_, of_parts(part(1), made));
            case Form::Constant:
                return tracer_.fresh(Ref<>::share(part(1)));
            case Form::None:
                return tracer_.none();
        }
        return tracer_.none();
    }

  private:
    /// As `_compare_arrays` in `python/stator/arrays.py` returns it.
    struct Described {
        Form form;
        PyObject *dtype, *sizes;
        long same, alias;
        bool is_writeable;
        PyObject* order;
    };

    static Described read(PyObject* description) {
        auto part = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(description, i); };
        return {static_cast<Form>(PyLong_AsLong(part(0))),
                part(1),
                part(2),
                PyLong_AsLong(part(3)),
                PyLong_AsLong(part(4)),
                part(5) == Py_True,
                part(6)};
    }

    std::vector<Value*> of_parts(PyObject* descriptions, Value* made) {
        SequenceValue* parts = as_sequence(made);
        const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(descriptions));
        if (parts == nullptr || parts->items.size() != count) refuse(tracer_, "FakeTensor and numpy disagree");
        std::vector<Value*> values;
        for (std::size_t i = 0; i < count; ++i)
            values.push_back(of(PyTuple_GET_ITEM(descriptions, static_cast<Py_ssize_t>(i)), parts->items[i]));
        return values;
    }

    Value* of_array(PyObject* description, Value* made) {
        const Described described = read(description);
        auto* tensor = cast<TensorValue>(made);
        if (tensor == nullptr || !is_like(*tensor->meta, described))
            refuse(tracer_, "FakeTensor and numpy disagree about the result");
        if (described.same >= 0) return arguments_.operands.at(static_cast<std::size_t>(described.same)).value;
        tensor = with_own_memory(tensor, described);
        if (described.order != Py_None) tensor = in_order(tensor, described.order);
        if (described.form == Form::Tensor) return tensor;
        return make_array(tracer_, tensor, described.form == Form::Scalar,
                          described.form == Form::Scalar || described.is_writeable);
    }

    static bool is_like(const torch_room::TensorMeta& meta, const Described& described) {
        if (torch_room::dtype_object(meta.dtype).get() != described.dtype || meta.requires_grad ||
            static_cast<Py_ssize_t>(meta.sizes.size()) != PyTuple_GET_SIZE(described.sizes))
            return false;
        for (std::size_t i = 0; i < meta.sizes.size(); ++i)
            if (meta.sizes[i].is_unbacked() ||
                meta.sizes[i].hint() !=
                    PyLong_AsLongLong(PyTuple_GET_ITEM(described.sizes, static_cast<Py_ssize_t>(i))))
                return false;
        return true;
    }

    bool is_operand(const TensorValue* tensor) const {
        return std::ranges::find(arguments_.operands, tensor, &ArrayArguments::Operand::tensor) !=
               arguments_.operands.end();
    }

    /// numpy's scalars and copies have their own memory, its views are objects of their own.
    TensorValue* with_own_memory(TensorValue* tensor, const Described& described) {
        constexpr std::uint64_t kViews = torch_room::trait::kConjugate | torch_room::trait::kNegative;
        const bool is_shared = is_operand(tensor) || tensor->view_of != nullptr;
        const bool is_view = described.alias >= 0;
        const char* copies = nullptr;
        if (is_view) {
            const TensorValue* of = arguments_.operands.at(static_cast<std::size_t>(described.alias)).tensor;
            if (base_of(tensor) != base_of(of)) refuse(tracer_, "FakeTensor and numpy disagree about a view");
            if (is_operand(tensor)) copies = "detach";
        } else if ((tensor->meta->dispatch_keys & kViews) != 0) {
            copies =
                (tensor->meta->dispatch_keys & torch_room::trait::kConjugate) != 0 ? "resolve_conj" : "resolve_neg";
        } else if (is_shared) {
            copies = "clone";
        }
        if (copies == nullptr) return tensor;
        return cast<TensorValue>(tracer_.recorder().emit_method(interned(copies), Arguments::of(tensor)));
    }

    /// A copy with its dimensions in another order in memory.
    TensorValue* in_order(TensorValue* tensor, PyObject* order) {
        std::vector<Value*> forward, back(static_cast<std::size_t>(PyTuple_GET_SIZE(order)));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
            PyObject* dimension = PyTuple_GET_ITEM(order, i);
            forward.push_back(tracer_.constant(dimension));
            back[PyLong_AsSize_t(dimension)] = tracer_.integer(i);
        }
        auto call = [&](TensorValue* self, const char* method, std::vector<Value*> numbers) {
            Arguments arguments = Arguments::of(self);
            if (!numbers.empty()) arguments.positional.push_back(make_tuple(tracer_, std::move(numbers)));
            return cast<TensorValue>(tracer_.recorder().emit_method(interned(method), arguments));
        };
        return call(call(call(tensor, "permute", forward), "contiguous", {}), "permute", back);
    }

    Tracer& tracer_;
    const ArrayArguments& arguments_;
};

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
    if (is_numpy_function(callable)) return true;
    if (PyFunction_Check(object)) return starts_with_numpy(reinterpret_cast<PyFunctionObject*>(object)->func_module);
    if (PyCFunction_Check(object)) return starts_with_numpy(reinterpret_cast<PyCFunctionObject*>(object)->m_module);
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

}  // namespace

namespace {

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
