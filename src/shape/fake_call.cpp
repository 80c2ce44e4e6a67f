#include "shape/fake_call.h"

#include <algorithm>
#include <utility>

#include "base/imported.h"
#include "base/python_error.h"
#include "torch/dtypes.h"
#include "torch/global_state.h"
#include "torch/jagged.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/warnings.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

using graph::Argument;
using graph::Result;
using torch_room::TensorMeta;

/// Keeps PyTorch from logging a traceback for each rejected operation.
class WithoutLogging {
  public:
    WithoutLogging() { set(Py_True); }
    ~WithoutLogging() {
        ErrorAside aside;
        set(Py_False);
    }
    WithoutLogging(const WithoutLogging&) = delete;
    WithoutLogging& operator=(const WithoutLogging&) = delete;

  private:
    static void set(PyObject* disabled) {
        static PyObject* const logger = imported("torch._subclasses.fake_tensor", "log");
        if (PyObject_SetAttrString(logger, "disabled", disabled) < 0) PyErr_Clear();
    }
};

/// With the sizes of this call.
TensorMeta by_hints(TensorMeta meta) {
    for (Dim& size : meta.sizes) size = size.hint();
    for (Dim& stride : meta.strides) stride = stride.hint();
    meta.storage_offset = meta.storage_offset.hint();
    return meta;
}

}  // namespace

FakeCall::FakeCall(Borrowed<> mode, const Question& question, torch_room::NumberOf number_of)
    : mode_(mode), number_of_(std::move(number_of)), tensors_(question) {
    for (const graph::Node* node : tensors_.nodes()) {
        metas_.push_back(number_of_ ? *node->result.tensor : by_hints(*node->result.tensor));
        TensorMeta& meta = metas_.back();
        // PyTorch would read the number in it. Where it can't affect the dtype, it is a tensor like any other.
        if (meta.is_wrapped_number && stands_beside_tensor_like(meta)) meta.is_wrapped_number = false;
        fakes_.push_back(make(meta));
    }
    for (const auto& [node, size] : question.ragged_sources) {
        Ref<> nested_int = number_of_ ? number_of_(size) : torch_room::nested_int_object(size);
        torch_room::set_ragged_size(fakes_.at(static_cast<std::size_t>(tensors_.index_of(node))), nested_int);
    }
    take_arguments(question);
}

FakeCall::FakeCall(Borrowed<> mode, const Question& question, const FakeOf& fake_of) : mode_(mode), tensors_(question) {
    for (const graph::Node* node : tensors_.nodes()) {
        metas_.push_back(*node->result.tensor);
        fakes_.push_back(fake_of(*node));
    }
    take_arguments(question);
}

void FakeCall::take_arguments(const Question& question) {
    for (const auto& argument : question.arguments) arguments_.push_back(object(argument));
    for (const auto& keyword : question.keywords) {
        arguments_.push_back(object(keyword.value));
        names_.push_back(keyword.name);
    }
    positional_ = question.arguments.size();
}

bool cannot_seed(const Question& question) {
    if (question.kind == graph::NodeKind::Function) return PyCFunction_Check(question.target.get()) != 0;
    auto* tensor = reinterpret_cast<PyObject*>(torch_room::tensor_class());
    return PyObject_HasAttr(tensor, question.target) != 0;
}

Ref<> FakeCall::run(const Question& question, torch_room::OperationEffects* effects) {
    torch_room::WithoutWarnings without_warnings;
    torch_room::KeepRandomState keep_random_state;
    WithoutLogging without_logging;
    torch_room::EffectsUnderFakeMode under_fake_mode(mode_);
    torch_room::WithoutTorchFunctions without_torch_functions(has_wrapper() && !has_jagged());
    Ref<> returned;
    TakenError error;
    try {
        returned = call(question);
    } catch (const PythonError&) {
        error = TakenError::take();
    }
    *effects = under_fake_mode.effects();
    if (!effects->random && cannot_seed(question)) keep_random_state.leave();
    if (returned) return returned;
    std::move(error).restore();
    throw PythonError();
}

Ref<> FakeCall::call(const Question& question) {
    std::vector<PyObject*> raw;
    for (const auto& argument : arguments_) raw.push_back(argument.get());
    Ref<> names;
    if (!names_.empty()) {
        names = checked(PyTuple_New(static_cast<Py_ssize_t>(names_.size())));
        for (std::size_t i = 0; i < names_.size(); ++i)
            PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names_[i]));
    }
    if (question.kind == graph::NodeKind::Method)
        return checked(PyObject_VectorcallMethod(question.target, raw.data(), positional_, names.get()));
    return checked(PyObject_Vectorcall(question.target, raw.data(), positional_, names.get()));
}

Ref<> FakeCall::attempt(const Question& question) {
    static PyObject* const function = imported("stator.trial", "attempt");
    Ref<> positional = checked(PyTuple_New(static_cast<Py_ssize_t>(positional_)));
    for (std::size_t i = 0; i < positional_; ++i)
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments_[i].get()));
    Ref<> keywords = checked(PyDict_New());
    for (std::size_t i = 0; i < names_.size(); ++i)
        checked(PyDict_SetItem(keywords.get(), names_[i], arguments_[positional_ + i].get()));
    Ref<> fakes = checked(PyList_New(0));
    for (const Ref<>& fake : fakes_) checked(PyList_Append(fakes.get(), fake.get()));
    return checked(PyObject_CallFunctionObjArgs(function, question.target.get(), positional.get(), keywords.get(),
                                                fakes.get(), nullptr));
}

bool FakeCall::has_wrapped_number() const {
    return std::ranges::any_of(metas_, &TensorMeta::is_wrapped_number);
}

bool FakeCall::has_wrapper() const {
    return std::ranges::any_of(metas_, [](const TensorMeta& meta) { return meta.prototype != nullptr; });
}

bool FakeCall::has_jagged() const {
    return std::ranges::any_of(metas_, [](const TensorMeta& meta) { return torch_room::is_jagged(meta); });
}

bool FakeCall::stands_beside_tensor_like(const TensorMeta& number) const {
    auto category = [](torch_room::Dtype type) {
        return torch_room::is_complex(type) ? 3 : torch_room::is_floating(type) ? 2 : 1;
    };
    return std::ranges::any_of(tensors_.nodes(), [&](const graph::Node* node) {
        const TensorMeta& other = *node->result.tensor;
        return !other.sizes.empty() && category(other.dtype) >= category(number.dtype);
    });
}

Ref<> FakeCall::make(const TensorMeta& meta) const {
    return number_of_ ? torch_room::make_fake(mode_, meta, number_of_) : torch_room::make_fake(mode_, meta);
}

Ref<> FakeCall::object(const Argument& argument) {
    using Kind = Argument::Kind;
    switch (argument.kind) {
        case Kind::Constant:
            return constant(argument.constant);
        case Kind::Node:
            if (int index = tensors_.index_of(argument.node); index >= 0)
                return fakes_[static_cast<std::size_t>(index)];
            return value(argument.node->result);
        case Kind::Tuple:
        case Kind::List:
            return sequence(argument);
        case Kind::Dict: {
            Ref<> dict = checked(PyDict_New());
            fill(argument, [&](Py_ssize_t i, Ref<> item) {
                checked(PyDict_SetItem(dict.get(), argument.items->keys[static_cast<std::size_t>(i)], item.get()));
            });
            return dict;
        }
        case Kind::Slice: {
            std::vector<Ref<>> parts;
            fill(argument, [&](Py_ssize_t, Ref<> item) { parts.push_back(std::move(item)); });
            parts.resize(3, Ref<>::share(Py_None));
            return checked(PySlice_New(parts[0].get(), parts[1].get(), parts[2].get()));
        }
    }
    throw GaveUp{Status::Unsupported, "an argument of an unknown kind"};
}

Ref<> FakeCall::sequence(const Argument& argument) {
    const auto size = static_cast<Py_ssize_t>(argument.items->values.size());
    if (argument.kind == Argument::Kind::List) {
        Ref<> list = checked(PyList_New(size));
        fill(argument, [&](Py_ssize_t i, Ref<> item) { PyList_SET_ITEM(list.get(), i, item.release()); });
        return list;
    }
    Ref<> tuple = checked(PyTuple_New(size));
    fill(argument, [&](Py_ssize_t i, Ref<> item) { PyTuple_SET_ITEM(tuple.get(), i, item.release()); });
    PyTypeObject* type = argument.items->type;
    if (type == nullptr || type == &PyTuple_Type) return tuple;
    // A named tuple takes its items as arguments, a `torch.Size` or structseq takes one sequence.
    auto* callable = reinterpret_cast<PyObject*>(type);
    if (PyObject_HasAttrString(callable, "_make")) return checked(PyObject_CallObject(callable, tuple.get()));
    return checked(PyObject_CallOneArg(callable, tuple.get()));
}

template <class Put>
void FakeCall::fill(const Argument& argument, Put put) {
    for (std::size_t i = 0; i < argument.items->values.size(); ++i)
        put(static_cast<Py_ssize_t>(i), object(argument.items->values[i]));
}

/// A tensor among the constants is real: it is replaced by a FakeTensor with its metadata, like every other tensor.
Ref<> FakeCall::constant(PyObject* object) {
    if (!torch_room::is_tensor(object)) return Ref<>::share(object);
    return make(torch_room::read_meta(object));
}

Ref<> FakeCall::value(const Result& result) {
    switch (result.kind) {
        case Result::Kind::None:
            return Ref<>::share(Py_None);
        case Result::Kind::Constant:
            if (number_of_ && result.expression != nullptr && !result.expression->is_float)
                return number_of_(Dim::of(result.expression));
            if (const Dim size = torch_room::nested_int_of(result.constant); number_of_ && nested_int::is(size))
                return number_of_(size);
            return Ref<>::share(result.constant);
        case Result::Kind::Tensor:
            return make(*result.tensor);
        default:
            throw GaveUp{Status::Unsupported, "a container that another operation returned, as an argument"};
    }
}

}  // namespace stator::shape
