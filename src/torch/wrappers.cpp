#include "torch/wrappers.h"

#include <ATen/PythonTorchFunctionTLS.h>

#include <memory>
#include <string_view>
#include <unordered_map>

#include "base/imported.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "torch/fake.h"
#include "torch/names.h"
#include "torch/remade_wrappers.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

PyObject* name_of(const char* text) {
    PyObject* name = PyUnicode_InternFromString(text);
    if (name == nullptr) throw PythonError();
    return name;
}

bool has_method(PyTypeObject* type, const char* name) {
    Ref<> found = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), name));
    if (!found) PyErr_Clear();
    return found && found.get() != Py_None;
}

[[noreturn]] void refuse(const char* message) {
    PyErr_SetString(PyExc_TypeError, message);
    throw PythonError();
}

/// Asks `torch._library.opaque_object` about a class with the metaclass of such classes, once. PyTorch 2.15 has other
/// names for all of them, and logs a warning where the older ones are used.
bool answers(const char* question, const char* before_2_15, PyTypeObject* type,
             std::unordered_map<PyTypeObject*, bool>& known) {
    const std::string_view metaclass = Py_TYPE(type)->tp_name;
    if (metaclass != "CustomClassBaseMeta" && metaclass != "OpaqueBaseMeta") return false;
    if (auto found = known.find(type); found != known.end()) return found->second;
    Ref<> function = find_imported("torch._library.opaque_object", question);
    if (!function) function = find_imported("torch._library.opaque_object", before_2_15);
    Ref<> answer = function ? Ref<>::steal(PyObject_CallOneArg(function.get(), reinterpret_cast<PyObject*>(type)))
                            : Ref<>::share(Py_False);
    if (!answer) PyErr_Clear();
    Py_INCREF(type);  // its address stays its own
    return known[type] = answer.get() == Py_True;
}

/// `(names, context)`, as the class returns it.
Ref<> flatten(Borrowed<> wrapper) {
    static PyObject* const name = name_of("__tensor_flatten__");
    Ref<> parts = checked(PyObject_CallMethodNoArgs(wrapper, name));
    if (!PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) != 2)
        refuse("__tensor_flatten__ does not return names and a context");
    return parts;
}

Ref<> fake_part(Borrowed<> fake_mode, Borrowed<> part) {
    if (is_fake(part)) return make_fake(fake_mode, read_fake_meta(part));
    if (is_wrapper_class(Py_TYPE(part.get()))) return fake_wrapper(fake_mode, part);
    return make_fake(fake_mode, read_meta(part));
}

/// Calls `visit` for each inner tensor.
template <class Visit>
void for_each_part(Borrowed<> wrapper, const Visit& visit) {
    for (const Ref<>& name : inner_names(wrapper)) visit(checked(PyObject_GetAttr(wrapper, name.get())), name.get());
}

void add_storages(Borrowed<> tensor, std::vector<const void*>& storages) {
    if (const void* storage = storage_identity(tensor)) storages.push_back(storage);
    if (is_fake(tensor) || is_plain_tensor(tensor) || !is_wrapper_class(Py_TYPE(tensor.get()))) return;
    for_each_part(tensor, [&](const Ref<>& part, PyObject*) {
        if (is_tensor(part)) add_storages(part, storages);
    });
}

/// The opaque objects among what the names stand for.
Ref<> opaque_parts(Borrowed<> wrapper, Borrowed<> names) {
    Ref<> list = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
        Ref<> part = checked(PyObject_GetAttr(wrapper, PyTuple_GET_ITEM(names.get(), i)));
        if (!is_tensor(part)) checked(PyList_Append(list.get(), part.get()));
    }
    return checked(PyList_AsTuple(list.get()));
}

bool has_same_names(PyObject* left, PyObject* right) {
    if (left == nullptr || right == nullptr) return left == right;
    if (PyDict_GET_SIZE(left) != PyDict_GET_SIZE(right)) return false;
    Py_ssize_t position = 0;
    for (PyObject* name = nullptr; PyDict_Next(left, &position, &name, nullptr);)
        if (PyDict_Contains(right, name) != 1) return false;
    return true;
}

/// A class may inherit an `__tensor_unflatten__` that makes instances of its base class. They get its class, if that is
/// all that is missing.
void take_class(Borrowed<> made, Borrowed<> tensor) {
    PyTypeObject* const type = Py_TYPE(tensor.get());
    if (Py_TYPE(made.get()) == type || !PyType_IsSubtype(type, Py_TYPE(made.get()))) return;
    if (!has_same_names(cpython::instance_dict(made), cpython::instance_dict(tensor))) return;
    checked(PyObject_SetAttrString(made, "__class__", reinterpret_cast<PyObject*>(type)));
}

/// The program may say itself which contexts are alike.
Ref<> compared(Borrowed<> wrapper, Borrowed<> expected, Borrowed<> context) {
    static PyObject* const name = name_of("__metadata_guard__");
    Ref<> compare = Ref<>::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(wrapper.get())), name));
    if (compare) return checked(PyObject_CallFunctionObjArgs(compare.get(), expected.get(), context.get(), nullptr));
    PyErr_Clear();
    return checked(PyObject_RichCompare(expected, context, Py_EQ));
}

bool flattens_or_throws(Borrowed<> wrapper, Borrowed<> expected) {
    Ref<> parts = flatten(wrapper);
    Ref<> names = checked(PySequence_Tuple(PyTuple_GET_ITEM(parts.get(), 0)));
    if (checked(PyObject_RichCompareBool(names.get(), PyTuple_GET_ITEM(expected.get(), 0), Py_EQ)) == 0) return false;
    Ref<> opaque = opaque_parts(wrapper, names.get());
    if (checked(PyObject_RichCompareBool(opaque.get(), PyTuple_GET_ITEM(expected.get(), 2), Py_EQ)) == 0) return false;
    PyObject* const context = PyTuple_GET_ITEM(parts.get(), 1);
    PyObject* const kept = PyTuple_GET_ITEM(expected.get(), 1);
    if (context == Py_None && kept == Py_None) return true;
    Ref<> answer = compared(wrapper, kept, context);
    return checked(PyObject_IsTrue(answer.get())) == 1;
}

}  // namespace

bool is_opaque_class(PyTypeObject* type) {
    static auto* const known = new std::unordered_map<PyTypeObject*, bool>;
    return answers("is_custom_class", "is_opaque_type", type, *known);
}

bool is_opaque_value_class(PyTypeObject* type) {
    static auto* const known = new std::unordered_map<PyTypeObject*, bool>;
    return answers("is_opaque_constant_type", "is_opaque_value_type", type, *known);
}

bool is_wrapper_class(PyTypeObject* type) {
    static PyObject* const none =
        checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(tensor_class()), "__torch_dispatch__")).release();
    if (type == tensor_class() || !PyType_IsSubtype(type, tensor_class())) return false;
    Ref<> dispatch = Ref<>::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_dispatch__"));
    if (!dispatch) PyErr_Clear();
    return dispatch && dispatch.get() != none && has_method(type, "__tensor_flatten__") &&
           has_method(type, "__tensor_unflatten__");
}

namespace {

constexpr const char* kPrototype = "stator.prototype";

void free_prototype(PyObject* capsule) {
    delete static_cast<Prototype*>(PyCapsule_GetPointer(capsule, kPrototype));
}

}  // namespace

Ref<> make_prototype(Prototype prototype) {
    auto owned = std::make_unique<Prototype>(std::move(prototype));
    Ref<> capsule = checked(PyCapsule_New(owned.get(), kPrototype, free_prototype));
    owned.release();
    return capsule;
}

const Prototype& prototype_of(const TensorMeta& meta) {
    return *static_cast<const Prototype*>(PyCapsule_GetPointer(meta.prototype, kPrototype));
}

namespace {

/// By `__tensor_unflatten__`. The context is that of the tensor if none is given.
Ref<> put_together(Borrowed<> tensor, Borrowed<> inner, Borrowed<> size, Borrowed<> stride, Borrowed<> context) {
    static PyObject* const unflatten = name_of("__tensor_unflatten__");
    Ref<> parts = flatten(tensor);
    Ref<> names = checked(PySequence_Tuple(PyTuple_GET_ITEM(parts.get(), 0)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
        PyObject* const name = PyTuple_GET_ITEM(names.get(), i);
        if (PyDict_Contains(inner, name) == 0)
            checked(PyDict_SetItem(inner, name, checked(PyObject_GetAttr(tensor, name)).get()));
    }
    if (context == nullptr) context = PyTuple_GET_ITEM(parts.get(), 1);
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor.get()));
    return checked(
        PyObject_CallMethodObjArgs(type, unflatten, inner.get(), context.get(), size.get(), stride.get(), nullptr));
}

}  // namespace

Ref<> fake_wrapper(Borrowed<> fake_mode, Borrowed<> tensor) {
    static PyObject* const size = name_of("size");
    static PyObject* const stride = name_of("stride");
    WithoutTorchFunctions without_torch_functions;
    Ref<> inner = checked(PyDict_New());
    for_each_part(tensor, [&](const Ref<>& part, PyObject* name) {
        checked(PyDict_SetItem(inner.get(), name, fake_part(fake_mode, part).get()));
    });
    Ref<> sizes = checked(PyObject_CallMethodNoArgs(tensor, size));
    Ref<> strides = checked(PyObject_CallMethodNoArgs(tensor, stride));
    return wrapper_like(tensor, inner.get(), sizes.get(), strides.get());
}

bool gives_back_its_class(Borrowed<> wrapper) {
    WithoutTorchFunctions without_torch_functions;
    Ref<> inner = checked(PyDict_New());
    for_each_part(wrapper,
                  [&](const Ref<>& part, PyObject* name) { checked(PyDict_SetItem(inner.get(), name, part.get())); });
    Ref<> sizes = checked(PyObject_CallMethod(wrapper, "size", nullptr));
    Ref<> strides = checked(PyObject_CallMethod(wrapper, "stride", nullptr));
    Ref<> made = put_together(wrapper, inner.get(), sizes.get(), strides.get(), nullptr);
    return Py_TYPE(made.get()) == Py_TYPE(wrapper.get());
}

Ref<> wrapper_like(Borrowed<> tensor, Borrowed<> inner, Borrowed<> size, Borrowed<> stride, Borrowed<> context) {
    WithoutTorchFunctions without_torch_functions;
    Ref<> made = put_together(tensor, inner, size, stride, context);
    take_class(made, tensor);
    if (Py_TYPE(made.get()) != Py_TYPE(tensor.get()) || !consists_of_fakes(made))
        refuse("__tensor_unflatten__ does not return what __tensor_flatten__ took apart");
    return made;
}

bool consists_of_fakes(Borrowed<> tensor) {
    if (is_fake(tensor)) return true;
    if (!is_wrapper_class(Py_TYPE(tensor.get()))) return false;
    bool are_fakes = true;
    for_each_part(tensor, [&](const Ref<>& part, PyObject*) {
        are_fakes = are_fakes && is_tensor(part) && consists_of_fakes(part);
    });
    return are_fakes;
}

std::vector<Ref<>> inner_names(Borrowed<> wrapper) {
    Ref<> parts = flatten(wrapper);
    Ref<> names = checked(PySequence_Fast(PyTuple_GET_ITEM(parts.get(), 0), "names of inner tensors"));
    std::vector<Ref<>> all;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(names.get()); ++i) {
        PyObject* const name = PySequence_Fast_GET_ITEM(names.get(), i);
        Ref<> part = checked(PyObject_GetAttr(wrapper, name));
        if (is_tensor(part))
            all.push_back(Ref<>::share(name));
        else if (!is_opaque_class(Py_TYPE(part.get())))
            refuse("__tensor_flatten__ names an attribute that is neither a tensor nor an opaque object");
    }
    return all;
}

Ref<> flattened(Borrowed<> wrapper) {
    static PyObject* const deepcopy = imported("copy", "deepcopy");
    Ref<> parts = flatten(wrapper);
    Ref<> names = checked(PySequence_Tuple(PyTuple_GET_ITEM(parts.get(), 0)));
    Ref<> context = checked(PyObject_CallOneArg(deepcopy, PyTuple_GET_ITEM(parts.get(), 1)));
    Ref<> kept = checked(PyTuple_Pack(3, names.get(), context.get(), opaque_parts(wrapper, names.get()).get()));
    if (!flattens_or_throws(wrapper, kept.get()))
        refuse("a copy of the context of __tensor_flatten__ is not equal to it");
    return kept;
}

bool flattens_to(Borrowed<> wrapper, Borrowed<> flattened) {
    try {
        return flattens_or_throws(wrapper, flattened);
    } catch (const PythonError&) {
        PyErr_Clear();
        return false;
    }
}

Ref<> context_of(Borrowed<> wrapper) {
    Ref<> parts = flatten(wrapper);
    return Ref<>::share(PyTuple_GET_ITEM(parts.get(), 1));
}

bool flatten_alike(Borrowed<> wrapper, Borrowed<> other, Borrowed<> other_context) {
    if (Py_TYPE(wrapper.get()) != Py_TYPE(other.get())) return false;
    Ref<> parts = flatten(other);
    Ref<> names = checked(PySequence_Tuple(PyTuple_GET_ITEM(parts.get(), 0)));
    Ref<> kept = checked(PyTuple_Pack(3, names.get(), other_context.get(), opaque_parts(other, names.get()).get()));
    return flattens_or_throws(wrapper, kept.get());
}

std::vector<const void*> storages_of(Borrowed<> tensor) {
    std::vector<const void*> storages;
    add_storages(tensor, storages);
    return storages;
}

WithoutTorchFunctions::WithoutTorchFunctions(bool is_wanted)
    : is_active_(is_wanted && at::impl::PythonTorchFunctionTLS::get_disabled_state() ==
                                  at::impl::TorchFunctionDisabledState::ENABLED) {
    if (is_active_)
        at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED);
}

WithoutTorchFunctions::~WithoutTorchFunctions() {
    if (is_active_) at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ENABLED);
}

}  // namespace stator::torch_room
