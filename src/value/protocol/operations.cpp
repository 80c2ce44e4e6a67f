#include "value/protocol/operations.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "torch/names.h"
#include "value/kinds/array.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/iterator.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/keys.h"
#include "value/protocol/refusal.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/jagged_tensors.h"
#include "value/tensor/torch_function.h"

namespace stator::operations {

namespace {

bool is_of_module_enum(PyObject* function) {
    PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
    return module != nullptr && PyUnicode_Check(module) && utf8(module) == "enum";
}

/// Whether a user-defined special method is not a plain function: a property, a callable object, or None, which
/// disables the operation. C methods do what the kind of the value does.
bool is_called_otherwise(PyObject* found, const char* name) {
    PyTypeObject* type = Py_TYPE(found);
    if (found == Py_None) return std::string_view(name) != "__hash__";
    if (type == &PyStaticMethod_Type) return std::string_view(name) != "__new__";
    return type == &PyProperty_Type || type == &PyClassMethod_Type || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

/// A slot that tensors inherit from `object`.
bool is_of_object_class(PyObject* descriptor) {
    return PyDescr_TYPE(descriptor) == &PyBaseObject_Type;
}

}  // namespace

Value* user_method(Tracer& tracer, Value* value, const char* name) {
    if (as_nested_int(value) != nullptr) return nullptr;
    PyTypeObject* type = value->type();
    // Classes written in C behave as their kind; so do tensors, whose Python methods are nodes of the graph, unless the
    // program has entered a mode that sees them.
    const bool is_seen = value->kind == Kind::Tensor && modes_see_operators(tracer);
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || (value->kind == Kind::Tensor && !is_seen)) return nullptr;
    // Guarded in both cases: the method may be added or removed between calls.
    PyObject* found = nullptr;
    Value* method = class_attribute(tracer, type, interned(name), &found);
    if (found == nullptr) return nullptr;
    if (!PyFunction_Check(found)) {
        // PyTorch's operators call `__torch_function__`.
        bool is_operator = Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type;
        if (is_seen) return is_operator && !is_of_object_class(found) ? method : nullptr;
        if (value->kind == Kind::TensorObject && is_operator && has_active_torch_function(tracer, value)) return method;
        if (is_called_otherwise(found, name))
            tracer.break_graph(BreakKind::UnknownObject, std::string("the ") + name + " of class " + type->tp_name +
                                                             " is an object of type " + Py_TYPE(found)->tp_name);
        return nullptr;
    }
    // A subclass that inherits an operation from torch.Tensor is handled as a plain tensor.
    if (value->kind == Kind::TensorObject &&
        found == cpython::lookup_in_mro(torch_room::tensor_class(), interned(name)) &&
        !has_active_torch_function(tracer, value))
        return nullptr;
    // Methods that enum members inherit from module `enum` are executed while tracing.
    if (value->kind == Kind::Constant && is_of_module_enum(found)) return nullptr;
    return method;
}

// --- attributes and calls
// ----------------------------------------------------------------------------------------------

Outcome get_attribute(Tracer& tracer, Value* object, Borrowed<> name) {
    if (!object->realized)
        if (Value* method = method_for_growing(tracer, object, name)) return method;
    tracer.realize(object);
    return object->get_attribute(tracer, name);
}

namespace {

Task attribute_or(Tracer& tracer, Value* object, PyObject* name, Value* otherwise) {
    try {
        co_return co_await get_attribute(tracer, object, name);
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_AttributeError)) throw;
    }
    co_return otherwise;
}

}  // namespace

Outcome get_attribute_or(Tracer& tracer, Value* object, Borrowed<> name, Value* otherwise) {
    return tracer.start(attribute_or(tracer, object, name, otherwise));
}

Outcome call(Tracer& tracer, Value* callee, const Arguments& arguments) {
    if (is_stack_low()) tracer.break_graph(BreakKind::Instruction, "calls are nested too deeply for the tracer");
    tracer.realize(callee);
    return callee->call(tracer, arguments);
}

namespace {

Task method_call(Tracer& tracer, Value* object, PyObject* name, Arguments arguments) {
    Value* method = co_await get_attribute(tracer, object, name);
    co_return co_await forwarded(call(tracer, method, arguments));
}

}  // namespace

Outcome call_method(Tracer& tracer, Value* object, const char* name, const Arguments& arguments) {
    return tracer.start(method_call(tracer, object, interned(name), arguments));
}

Outcome set_attribute(Tracer& tracer, Value* object, Borrowed<> name, Value* value) {
    tracer.realize(object);
    if (Value* setter = user_method(tracer, object, "__setattr__"); setter != nullptr)
        return call(tracer, setter, Arguments::of(object, tracer.constant(name), value));
    return generic_set_attribute(tracer, object, name, value);
}

Outcome delete_attribute(Tracer& tracer, Value* object, Borrowed<> name) {
    tracer.realize(object);
    if (Value* deleter = user_method(tracer, object, "__delattr__"); deleter != nullptr)
        return call(tracer, deleter, Arguments::of(object, tracer.constant(name)));
    return generic_delete_attribute(tracer, object, name);
}

// --- items
// -------------------------------------------------------------------------------------------------------------

namespace {

/// Whether user code has to run to find the item that a key selects: `__hash__` and `__eq__`, or `__index__`.
bool is_unsettled_key(Tracer& tracer, Value* container, Value* key) {
    if (container->kind == Kind::Dict || container->kind == Kind::Set) return needs_preparation(tracer, key);
    return has_own_index(tracer, key);
}

Outcome settle_key(Tracer& tracer, Value* container, Value* key) {
    if (container->kind == Kind::Dict || container->kind == Kind::Set) return prepare_key(tracer, container, key);
    return index_by_method(tracer, key);
}

Task get_item_of(Tracer& tracer, Value* object, Value* key) {
    ForgottenHash forgotten(key);
    Value* settled = co_await settle_key(tracer, object, key);
    ForgottenHash also_forgotten(settled);
    co_return co_await object->get_item(tracer, settled);
}

Task set_item_of(Tracer& tracer, Value* object, Value* key, Value* value) {
    ForgottenHash forgotten(key);
    Value* settled = co_await settle_key(tracer, object, key);
    ForgottenHash also_forgotten(settled);
    co_return co_await object->assign_item(tracer, settled, value);
}

Task delete_item_of(Tracer& tracer, Value* object, Value* key) {
    ForgottenHash forgotten(key);
    Value* settled = co_await settle_key(tracer, object, key);
    ForgottenHash also_forgotten(settled);
    object->delete_item(tracer, settled);
    co_return tracer.none();
}

Task contains_settled(Tracer& tracer, Value* container, Value* item) {
    ForgottenHash forgotten(item);
    Value* settled = co_await settle_key(tracer, container, item);
    ForgottenHash also_forgotten(settled);
    co_return co_await container->contains(tracer, settled);
}

}  // namespace

namespace {

/// A symbolic int that selects a part of a tensor is not specialized on. A dict decides itself.
void realize_key(Tracer& tracer, Value* object, Value* key) {
    const bool may_change = object->kind == Kind::Tensor || object->kind == Kind::Dict;
    if (!may_change || !symbolic::is(key)) tracer.realize(key);
}

}  // namespace

Outcome get_item(Tracer& tracer, Value* object, Value* key) {
    tracer.realize(object);
    realize_key(tracer, object, key);
    if (Value* method = user_method(tracer, object, "__getitem__"); method != nullptr)
        return call(tracer, method, Arguments::of(object, key));
    if (is_unsettled_key(tracer, object, key)) return tracer.start(get_item_of(tracer, object, key));
    return object->get_item(tracer, key);
}

Outcome set_item(Tracer& tracer, Value* object, Value* key, Value* value) {
    tracer.realize(object);
    realize_key(tracer, object, key);
    if (Value* method = user_method(tracer, object, "__setitem__"); method != nullptr)
        return call(tracer, method, Arguments::of(object, key, value));
    if (is_unsettled_key(tracer, object, key)) return tracer.start(set_item_of(tracer, object, key, value));
    return object->assign_item(tracer, key, value);
}

Outcome delete_item(Tracer& tracer, Value* object, Value* key) {
    tracer.realize(object);
    realize_key(tracer, object, key);
    if (Value* method = user_method(tracer, object, "__delitem__"); method != nullptr)
        return call(tracer, method, Arguments::of(object, key));
    if (is_unsettled_key(tracer, object, key)) return tracer.start(delete_item_of(tracer, object, key));
    object->delete_item(tracer, key);
    return tracer.none();
}

namespace {

Task contains_by_method(Tracer& tracer, Value* method, Value* container, Value* item) {
    Value* answer = co_await call(tracer, method, Arguments::of(container, item));
    co_return co_await truth(tracer, answer);
}

Task contains_by_iteration(Tracer& tracer, Value* container, Value* item) {
    Value* iterator = co_await iterate(tracer, container);
    while (true) {
        Value* element = co_await next(tracer, iterator);
        if (element == tracer.exhausted()) co_return tracer.boolean(false);
        Value* equal = co_await same_or_equal(tracer, element, item);
        if (is_true(equal)) co_return equal;
    }
}

Task bool_method(Tracer& tracer, Value* method, Value* value) {
    Value* answer = co_await call(tracer, method, Arguments::of(value));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyBool_Check(answer->object()))
        tracer.raise(PyExc_TypeError, "__bool__ should return bool, returned " + std::string(answer->type()->tp_name));
    co_return answer;
}

Task length_method(Tracer& tracer, Value* method, Value* value) {
    Value* answer = co_await call(tracer, method, Arguments::of(value));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError, quoted_type(answer) + " object cannot be interpreted as an integer");
    if (PyNumber_AsSsize_t(answer->object(), nullptr) < 0)
        tracer.raise(PyExc_ValueError, "__len__() should return >= 0");
    if (PyNumber_AsSsize_t(answer->object(), PyExc_OverflowError) < 0) tracer.raise_from_python();
    co_return answer->type() == &PyLong_Type ? answer : tracer.fresh(checked(PyNumber_Long(answer->object())));
}

Task truth_by_length(Tracer& tracer, Value* method, Value* value) {
    Value* answer = co_await tracer.start(length_method(tracer, method, value));
    co_return tracer.boolean(PyObject_IsTrue(answer->object()) == 1);
}

/// Whether a user-defined class is iterated through `__getitem__` alone.
bool iterates_by_index(Tracer& tracer, Value* value) {
    return value->kind == Kind::Object && user_method(tracer, value, "__getitem__") != nullptr &&
           !has_special_method(tracer, value->type(), "__iter__");
}

}  // namespace

Outcome contains(Tracer& tracer, Value* container, Value* item) {
    tracer.realize(container);
    if (Value* method = user_method(tracer, container, "__contains__"); method != nullptr)
        return tracer.start(contains_by_method(tracer, method, container, item));
    bool only_iterates =
        !has_special_method(tracer, container->type(), "__contains__") &&
        (user_method(tracer, container, "__iter__") != nullptr || iterates_by_index(tracer, container));
    if (only_iterates || container->kind == Kind::Iterator || container->kind == Kind::Generator)
        return tracer.start(contains_by_iteration(tracer, container, item));
    // A list or tuple compares its items with it one by one, without the number of a symbol.
    if (as_sequence(container) == nullptr) realize_key(tracer, container, item);
    if ((container->kind == Kind::Dict || container->kind == Kind::Set) && needs_preparation(tracer, item))
        return tracer.start(contains_settled(tracer, container, item));
    return container->contains(tracer, item);
}

Outcome truth(Tracer& tracer, Value* value) {
    if (Value* known = symbolic::truth(tracer, value)) return known;
    tracer.realize(value);
    if (Value* method = user_method(tracer, value, "__bool__"); method != nullptr)
        return tracer.start(bool_method(tracer, method, value));
    if (Value* method = user_method(tracer, value, "__len__"); method != nullptr)
        return tracer.start(truth_by_length(tracer, method, value));
    return tracer.boolean(value->truth(tracer));
}

Outcome length(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (Value* method = user_method(tracer, value, "__len__"); method != nullptr)
        return tracer.start(length_method(tracer, method, value));
    if (auto* tensor = cast<TensorValue>(value); tensor != nullptr && !tensor->meta->sizes.empty())
        return size_value(tracer, tensor->meta->sizes[0]);
    if (auto* array = cast<ArrayValue>(value); array != nullptr && !array->meta().sizes.empty())
        return size_value(tracer, array->meta().sizes[0]);
    std::ptrdiff_t count = value->length(tracer);
    if (count < 0) tracer.raise(PyExc_TypeError, "object of type " + quoted_type(value) + " has no len()");
    return tracer.integer(count);
}

// --- iteration
// ---------------------------------------------------------------------------------------------------------

namespace {

Task iterate_by_method(Tracer& tracer, Value* method, Value* iterable) {
    Value* iterator = co_await Continued{call(tracer, method, Arguments::of(iterable)), {Continuation::Kind::Iterate}};
    tracer.realize(iterator);
    if (!has_special_method(tracer, iterator->type(), "__next__"))
        tracer.raise(PyExc_TypeError, "iter() returned non-iterator of type " + quoted_type(iterator));
    co_return iterator;
}

}  // namespace

Outcome iterate(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    if (Value* method = user_method(tracer, iterable, "__iter__"); method != nullptr)
        return tracer.start(iterate_by_method(tracer, method, iterable));
    if (iterates_by_index(tracer, iterable)) return tracer.make<IndexIterator>(iterable);
    return iterable->iterate(tracer);
}

namespace {

Task next_by_method(Tracer& tracer, Value* method, Value* iterator) {
    try {
        co_return co_await Continued{call(tracer, method, Arguments::of(iterator)), {Continuation::Kind::Next}};
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_StopIteration)) throw;
    }
    co_return tracer.exhausted();
}

/// For larger ones Python may raise MemoryError before it takes an item.
constexpr Py_ssize_t kLargestHint = Py_ssize_t{1} << 24;

Task length_hint_by_method(Tracer& tracer, Value* method, Value* iterable) {
    Value* answer = nullptr;
    try {
        answer = co_await call(tracer, method, Arguments::of(iterable));
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_TypeError)) throw;
        co_return tracer.none();
    }
    tracer.realize(answer);
    if (answer->object() == Py_NotImplemented) co_return tracer.none();
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError,
                     "__length_hint__ must be an integer, not " + std::string(answer->type()->tp_name));
    Py_ssize_t hint = PyLong_AsSsize_t(answer->object());
    PyErr_Clear();
    if (hint < 0 || hint > kLargestHint)
        tracer.break_graph(BreakKind::UnknownObject, "__length_hint__() returns a negative or very large number");
    co_return tracer.none();
}

Task call_length(Tracer& tracer, Value* value) {
    try {
        Value* answer = co_await length(tracer, value);
        Py_ssize_t count = PyLong_AsSsize_t(answer->object());
        PyErr_Clear();
        if (count < 0 || count > kLargestHint)
            tracer.break_graph(BreakKind::UnknownObject, "__len__() returns a negative or very large number");
    } catch (const Raised& raised) {
        if (!raised.is(PyExc_TypeError)) throw;
        co_return tracer.boolean(false);
    }
    co_return tracer.boolean(true);
}

/// Calls the methods that `operator.length_hint` calls; the result is not used.
Task call_hint_methods(Tracer& tracer, Value* iterable) {
    Value* sized = iterable;
    if (iterable->kind == Kind::Iterator) sized = sequence_by_index(iterable);
    if (sized == nullptr) co_return tracer.none();
    if (user_method(tracer, sized, "__len__") != nullptr) {
        Value* has_length = co_await tracer.start(call_length(tracer, sized));
        if (has_length->object() == Py_True || sized != iterable) co_return tracer.none();
    } else if (has_special_method(tracer, sized->type(), "__len__")) {
        co_return tracer.none();
    }
    if (Value* method = user_method(tracer, iterable, "__length_hint__"))
        co_await tracer.start(length_hint_by_method(tracer, method, iterable));
    co_return tracer.none();
}

Task collect_items(Tracer& tracer, Value* iterable, bool calls_length_hint) {
    Value* iterator = co_await iterate(tracer, iterable);
    if (calls_length_hint) co_await tracer.start(call_hint_methods(tracer, iterable));
    std::vector<Value*> items;
    while (true) {
        Value* item = co_await next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        items.push_back(item);
    }
    co_return make_list(tracer, std::move(items));
}

Task collect_from_iterator(Tracer& tracer, Value* iterable) {
    Value* iterator = co_await iterate(tracer, iterable);
    co_return co_await collect(tracer, iterator);
}

Task take_some(Tracer& tracer, Value* iterator, std::size_t count) {
    std::vector<Value*> items;
    while (items.size() < count) {
        Value* item = co_await next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        items.push_back(item);
    }
    co_return make_list(tracer, std::move(items));
}

}  // namespace

Outcome next(Tracer& tracer, Value* iterator) {
    tracer.realize(iterator);
    if (Value* method = user_method(tracer, iterator, "__next__"); method != nullptr)
        return tracer.start(next_by_method(tracer, method, iterator));
    return iterator->next(tracer);
}

Outcome collect(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    SequenceValue* sequence = as_sequence(iterable);
    if (sequence != nullptr && user_method(tracer, iterable, "__iter__") == nullptr) {
        bool calls_user_code = user_method(tracer, iterable, "__len__") != nullptr;
        if (!calls_user_code) return make_list(tracer, sequence->all(tracer));
    }
    return tracer.start(collect_items(tracer, iterable, true));
}

Outcome call_length_hint(Tracer& tracer, Value* iterable) {
    return tracer.start(call_hint_methods(tracer, iterable));
}

Outcome collect_elements(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    return tracer.start(collect_items(tracer, iterable, false));
}

Outcome collect_as_sequence(Tracer& tracer, Value* iterable) {
    tracer.realize(iterable);
    if (iterable->type() == &PyList_Type || iterable->type() == &PyTuple_Type)
        return make_list(tracer, as_sequence(iterable)->all(tracer));
    return tracer.start(collect_from_iterator(tracer, iterable));
}

Outcome collect_some(Tracer& tracer, Value* iterator, std::size_t count) {
    return tracer.start(take_some(tracer, iterator, count));
}

}  // namespace stator::operations
