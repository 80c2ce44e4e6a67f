#include "shape/key.h"

#include <bit>

#include "base/text.h"
#include "shape/tensors.h"
#include "torch/arrays.h"
#include "torch/names.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

enum Tag : std::uint64_t {
    kTensor = 1,
    kSameTensor,
    kNone,
    kFalse,
    kTrue,
    kInteger,
    kBigInteger,
    kFloat,
    kComplex,
    kString,
    kObject,
    kDevice,
    kTuple,
    kList,
    kDict,
    kSlice,
    kFunction,
    kMethod,
    kKeyword,
};

constexpr std::uint64_t word_of(Tag tag, std::uint64_t payload = 0) {
    return static_cast<std::uint64_t>(tag) | payload << 8;
}

std::uint64_t address(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Immutable objects that are compared by identity everywhere.
bool is_identity(PyObject* object) {
    return torch_room::as_dtype(object) || torch_room::as_layout(object) || torch_room::as_memory_format(object) ||
           object == Py_Ellipsis || PyType_Check(object) || PyCFunction_CheckExact(object);
}

/// Callables that are identified by their address and can be kept alive: PyTorch's own and builtins.
bool is_lasting_callable(PyObject* callable) {
    if (PyCFunction_Check(callable) || Py_TYPE(callable) == &PyMethodDescr_Type ||
        Py_TYPE(callable) == &PyWrapperDescr_Type || PyType_Check(callable))
        return true;
    if (PyFunction_Check(callable)) {
        PyObject* module = reinterpret_cast<PyFunctionObject*>(callable)->func_module;
        std::string_view name = module == nullptr ? "" : utf8(module);
        return name == "torch" || name.starts_with("torch.");
    }
    std::string type = type_name(Py_TYPE(callable));
    return type.starts_with("torch._ops.") || type == "torch._jit_internal.BooleanDispatch" ||
           torch_room::calls_numpy(callable);
}

}  // namespace

Key::Key(Store& store, const Question& question, const torch_room::ResultState& state) : store_(store) {
    words_.reserve(32);
    add(state.key);
    add_target(question);
    for (const auto& argument : question.arguments) add_argument(argument);
    for (const auto& keyword : question.keywords) {
        add(word_of(kKeyword));
        add_string(keyword.name);
        add_argument(keyword.value);
    }
}

std::vector<Ref<>> Key::objects() const {
    std::vector<Ref<>> references;
    references.reserve(objects_.size());
    for (PyObject* object : objects_) references.push_back(Ref<>::share(object));
    return references;
}

void Key::add(std::uint64_t word) {
    words_.push_back(word);
    hash_ = (hash_ ^ word) * 0xff51afd7ed558ccd;
    hash_ ^= hash_ >> 32;
}

void Key::add_object(PyObject* object) {
    add(address(object));
    objects_.push_back(object);
}

void Key::add_string(PyObject* string) {
    if (!PyUnicode_CheckExact(string)) {
        cacheable_ = false;
        return;
    }
    if (!PyUnicode_CHECK_INTERNED(string)) {
        // Equal strings become one object, which the store keeps.
        Py_INCREF(string);
        PyUnicode_InternInPlace(&string);
        owned_.push_back(Ref<>::steal(string));
    }
    add(word_of(kString));
    add_object(string);
}

void Key::add_target(const Question& question) {
    if (question.kind == graph::NodeKind::Method) {
        add(word_of(kMethod));
        add_string(question.target);
        return;
    }
    add(word_of(kFunction));
    add_object(question.target);
    if (!is_lasting_callable(question.target)) cacheable_ = false;
}

void Key::add_argument(const graph::Argument& argument) {
    using Kind = graph::Argument::Kind;
    switch (argument.kind) {
        case Kind::Constant:
            add_constant(argument.constant);
            return;
        case Kind::Node: {
            if (tensor_result(argument) == nullptr) {
                add_result(argument.node->result);
                return;
            }
            for (std::size_t i = 0; i < tensors_.size(); ++i)
                if (tensors_[i] == argument.node) {
                    add(word_of(kSameTensor, i));
                    return;
                }
            tensors_.push_back(argument.node);
            add_result(argument.node->result);
            return;
        }
        case Kind::Tuple:
            add(word_of(kTuple, argument.items->values.size()));
            break;
        case Kind::List:
            add(word_of(kList, argument.items->values.size()));
            break;
        case Kind::Dict:
            add(word_of(kDict, argument.items->values.size()));
            break;
        case Kind::Slice:
            add(word_of(kSlice));
            break;
    }
    // A list always has the class `list`; other containers may have a subclass.
    if (argument.kind == Kind::Tuple) {
        if (argument.items->type != nullptr && argument.items->type != &PyTuple_Type)
            add_object(reinterpret_cast<PyObject*>(argument.items->type));
        else
            add(0);
    }
    for (PyObject* key : argument.items->keys) add_constant(key);
    for (const auto& item : argument.items->values) add_argument(item);
}

void Key::add_result(const graph::Result& result) {
    using Kind = graph::Result::Kind;
    switch (result.kind) {
        case Kind::None:
            add(word_of(kNone));
            return;
        case Kind::Tensor:
            // Two prototypes with equal contents are two objects.
            if (torch_room::prototype_of(*result.tensor) != nullptr) cacheable_ = false;
            add(word_of(kTensor));
            add(address(store_.intern(*result.tensor)));
            return;
        case Kind::Constant:
            // An expression lives as long as the store of its trace. No operation depends on the value of a float.
            if (result.expression != nullptr && !result.expression->is_float)
                return add(reinterpret_cast<std::uintptr_t>(result.expression));
            add_constant(result.constant);
            return;
        case Kind::Tuple:
        case Kind::List:
            // A container of tensors as one node: its parts have no identity that could be compared.
            cacheable_ = false;
            return;
    }
}

void Key::add_constant(PyObject* constant) {
    if (constant == Py_None) return add(word_of(kNone));
    if (constant == Py_True) return add(word_of(kTrue));
    if (constant == Py_False) return add(word_of(kFalse));
    PyTypeObject* type = Py_TYPE(constant);
    if (type == &PyLong_Type) {
        int overflow = 0;
        long long value = PyLong_AsLongLongAndOverflow(constant, &overflow);
        if (overflow != 0) {
            cacheable_ = false;
            return;
        }
        add(word_of(kInteger));
        return add(static_cast<std::uint64_t>(value));
    }
    if (type == &PyFloat_Type) {
        add(word_of(kFloat));
        return add(std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(constant)));
    }
    if (type == &PyUnicode_Type) return add_string(constant);
    if (type == &PyComplex_Type) {
        Py_complex value = PyComplex_AsCComplex(constant);
        add(word_of(kComplex));
        add(std::bit_cast<std::uint64_t>(value.real));
        return add(std::bit_cast<std::uint64_t>(value.imag));
    }
    if (PyTuple_Check(constant) && (type == &PyTuple_Type || torch_room::is_size(constant))) {
        Py_ssize_t size = PyTuple_GET_SIZE(constant);
        add(word_of(kTuple, static_cast<std::uint64_t>(size)));
        if (type == &PyTuple_Type)
            add(0);
        else
            add_object(reinterpret_cast<PyObject*>(type));
        for (Py_ssize_t i = 0; i < size; ++i) add_constant(PyTuple_GET_ITEM(constant, i));
        return;
    }
    if (type == &PyList_Type) {
        Py_ssize_t size = PyList_GET_SIZE(constant);
        add(word_of(kList, static_cast<std::uint64_t>(size)));
        for (Py_ssize_t i = 0; i < size; ++i) add_constant(PyList_GET_ITEM(constant, i));
        return;
    }
    if (type == &PySlice_Type) {
        auto* slice = reinterpret_cast<PySliceObject*>(constant);
        add(word_of(kSlice));
        add_constant(slice->start);
        add_constant(slice->stop);
        return add_constant(slice->step);
    }
    if (auto device = torch_room::as_device(constant))
        return add(word_of(kDevice,
                           static_cast<std::uint64_t>(device->kind) << 16 | static_cast<std::uint16_t>(device->index)));
    if (is_identity(constant)) {
        add(word_of(kObject));
        return add_object(constant);
    }
    cacheable_ = false;
}

}  // namespace stator::shape
