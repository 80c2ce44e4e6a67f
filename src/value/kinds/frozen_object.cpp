#include "value/kinds/frozen_object.h"

#include <unordered_set>

#include "base/imported.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "torch/wrappers.h"
#include "value/builtins/registry.h"
#include "value/kinds/constant.h"
#include "value/protocol/operations.h"
#include "value/tracer.h"

namespace stator {

namespace {

using Classes = std::unordered_set<PyTypeObject*>;

/// The classes of what annotations are made of, beside classes themselves.
constexpr const char* kTypingClasses[] = {"TypeVar",
                                          "ParamSpec",
                                          "_SpecialForm",
                                          "_LiteralSpecialForm",
                                          "_TypedCacheSpecialForm",
                                          "_SpecialGenericAlias",
                                          "_CallableType",
                                          "_TupleType",
                                          "_GenericAlias",
                                          "_CallableGenericAlias",
                                          "_UnionGenericAlias",
                                          "_LiteralGenericAlias",
                                          "_ConcatenateGenericAlias",
                                          "_AnnotatedAlias"};

const Classes& c_classes() {
    static const auto* const classes = [] {
        auto* found = new Classes;
        for (auto [module, name] : {std::pair{"types", "GenericAlias"}, std::pair{"types", "UnionType"}})
            if (PyTypeObject* type = find_imported_class(module, name)) found->insert(type);
        return found;
    }();
    return *classes;
}

const Classes& typing_classes() {
    static const auto* const classes = [] {
        auto* found = new Classes;
        for (const char* name : kTypingClasses)
            if (PyTypeObject* type = find_imported_class("typing", name)) found->insert(type);
        return found;
    }();
    return *classes;
}

bool is_c_class(PyTypeObject* type) {
    return c_classes().contains(type);
}

/// Not all methods of regular expressions are pure: some return iterators (see builtins/regular_expressions.cpp).
bool is_pattern(PyTypeObject* type) {
    static PyTypeObject* const pattern = imported_class("re", "Pattern");
    return type == pattern;
}

/// The placements of DTensors, which are written in C++. (Other opaque values have attributes that may change.)
bool is_placement(PyTypeObject* type) {
    if (!torch_room::is_opaque_value_class(type)) return false;
    Ref<> module = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
    return PyUnicode_Check(module.get()) &&
           PyUnicode_CompareWithASCIIString(module.get(), "torch.distributed.tensor.placement_types") == 0;
}

/// Whether comparing such an object with one of them runs no code of the program.
bool has_pure_equality(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    return is_c_class(type) || is_pattern(type) || is_placement(type) || is_safe_to_compare(object);
}

}  // namespace

bool is_frozen_class(PyTypeObject* type) {
    return is_c_class(type) || is_pattern(type) || typing_classes().contains(type) || is_placement(type);
}

void FrozenObjectValue::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Identity, source, outside});
}

Ref<> FrozenObjectValue::as_constant(Tracer& tracer) {
    tracer.realize(this);
    return Ref<>::share(outside);
}

Outcome FrozenObjectValue::call(Tracer& tracer, const Arguments& arguments) {
    static PyTypeObject* const generic = imported_class("types", "GenericAlias");
    if (class_ != generic) return ObjectValue::call(tracer, arguments);
    Ref<> origin = checked(PyObject_GetAttrString(outside, "__origin__"));
    // Instances of other classes get an attribute `__orig_class__`.
    for (PyTypeObject* type : {&PyDict_Type, &PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type})
        if (origin.get() == reinterpret_cast<PyObject*>(type)) {
            tracer.realize(this);
            return operations::call(tracer, tracer.constant(origin.get()), arguments);
        }
    return ObjectValue::call(tracer, arguments);
}

Outcome FrozenObjectValue::get_item(Tracer& tracer, Value* key) {
    Ref<> constant = key->as_constant(tracer);
    if (!constant) return ObjectValue::get_item(tracer, key);
    Ref<> answer = Ref<>::steal(PyObject_GetItem(outside, constant.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

Value* FrozenObjectValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    Ref<> operand = op == BinaryOperator::Or ? other->as_constant(tracer) : Ref<>();
    if (!operand) return ObjectValue::binary(tracer, op, other, reflected);
    Ref<> answer = Ref<>::steal(reflected ? PyNumber_Or(operand.get(), outside) : PyNumber_Or(outside, operand.get()));
    if (!answer) tracer.raise_from_python();
    return tracer.fresh(std::move(answer));
}

Outcome FrozenObjectValue::compare(Tracer& tracer, Comparison op, Value* other) {
    const bool is_equality = op == Comparison::Equal || op == Comparison::NotEqual;
    PyObject* real = other->object();
    if (!has_pure_equality(outside) || !is_equality || real == nullptr || !has_pure_equality(real))
        return ObjectValue::compare(tracer, op, other);
    tracer.realize(other);
    const int equal = PyObject_RichCompareBool(outside, real, Py_EQ);
    if (equal < 0) tracer.raise_from_python();
    return tracer.boolean((equal == 1) == (op == Comparison::Equal));
}

Py_hash_t FrozenObjectValue::hash(Tracer& tracer) {
    if (!is_c_class(class_) && !is_pattern(class_)) return ObjectValue::hash(tracer);
    const Py_hash_t hash = PyObject_Hash(outside);
    if (hash == -1) tracer.raise_from_python();
    return hash;
}

void register_frozen_objects(Handlers& handlers) {
    for (PyTypeObject* type : c_classes()) handlers.add_pure_class(type);
    for (PyTypeObject* type : typing_classes())
        for (const char* name : {"__getitem__", "__eq__", "__hash__", "__or__", "__ror__"})
            if (PyObject* method = PyDict_GetItemString(cpython::class_dict(type), name);
                method && PyFunction_Check(method))
                handlers.add_pure(method);
}

}  // namespace stator
