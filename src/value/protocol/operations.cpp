#include "value/protocol/operations.h"

#include "base/names.h"
#include "base/python_error.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "guard/constants.h"
#include "torch/known.h"
#include "torch/names.h"
#include "value/kinds/array.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/exception.h"
#include "value/kinds/function.h"
#include "value/kinds/iterator.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/kinds/weak.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/keys.h"
#include "value/protocol/percent_format.h"
#include "value/protocol/refusal.h"
#include "value/tensor/dynamic_sizes.h"
#include "value/tensor/torch_function.h"

namespace stator::operations {

namespace {

bool is_not_implemented(Value* value) {
    return value == nullptr || value->object() == Py_NotImplemented;
}

std::string quoted_type(Value* value) {
    return "'" + std::string(value->type()->tp_name) + "'";
}

bool is_of_module_enum(PyObject* function) {
    PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
    return module != nullptr && PyUnicode_Check(module) && utf8(module) == "enum";
}

}  // namespace

namespace {

/// Whether a user-defined special method is not a plain function: a property, a callable object, or None, which
/// disables the operation. C methods do what the kind of the value does.
bool is_called_otherwise(PyObject* found, const char* name) {
    PyTypeObject* type = Py_TYPE(found);
    if (found == Py_None) return std::string_view(name) != "__hash__";
    if (type == &PyStaticMethod_Type) return std::string_view(name) != "__new__";
    return type == &PyProperty_Type || type == &PyClassMethod_Type || PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

Value* user_method(Tracer& tracer, Value* value, const char* name) {
    PyTypeObject* type = value->type();
    // Classes written in C behave as their kind; so do tensors, whose Python methods are nodes of the graph.
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || value->kind == Kind::Tensor) return nullptr;
    // Guarded in both cases: the method may be added or removed between calls.
    PyObject* found = nullptr;
    Value* method = class_attribute(tracer, type, interned(name), &found);
    if (found == nullptr) return nullptr;
    if (!PyFunction_Check(found)) {
        // PyTorch's operators call `__torch_function__`.
        bool is_operator = Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type;
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

/// A symbolic int that selects a part of a tensor is not specialized on.
void realize_key(Tracer& tracer, Value* object, Value* key) {
    if (object->kind != Kind::Tensor || !symbolic::is(key)) tracer.realize(key);
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
    tracer.realize(key);
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
    if (as_sequence(container) == nullptr) tracer.realize(item);
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

// --- operators
// ---------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void raise_unsupported(Tracer& tracer, BinaryOperator op, bool in_place, Value* left, Value* right) {
    std::string name = symbol(op, in_place);
    if (op == BinaryOperator::Power) name = in_place ? "**=" : "** or pow()";
    tracer.raise(PyExc_TypeError,
                 "unsupported operand type(s) for " + name + ": " + quoted_type(left) + " and " + quoted_type(right));
}

/// One operand's result of `left op right`: the user-defined method of its class if there is one, otherwise that of its
/// kind.
Outcome side(Tracer& tracer, BinaryOperator op, Value* self, Value* other, bool reflected) {
    if (Value* method = user_method(tracer, self, method_name(op, reflected)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    if (Value* method = method_calling_torch_function(tracer, self, other, method_name(op, reflected));
        method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    return self->binary(tracer, op, other, reflected);
}

bool reflected_goes_first(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (left->type() == right->type() || !PyType_IsSubtype(right->type(), left->type())) return false;
    Value* reflected = user_method(tracer, right, method_name(op, true));
    // A reflected method that the subclass only inherits does not go first.
    PyObject* name = interned(method_name(op, true));
    return reflected != nullptr &&
           cpython::lookup_in_mro(right->type(), name, nullptr) != cpython::lookup_in_mro(left->type(), name, nullptr);
}

Task binary_by_methods(Tracer& tracer, BinaryOperator op, Value* left, Value* right, bool in_place) {
    bool right_first = reflected_goes_first(tracer, op, left, right);
    if (right_first) {
        Value* answer = co_await side(tracer, op, right, left, true);
        if (!is_not_implemented(answer)) co_return answer;
    }
    Value* answer = co_await side(tracer, op, left, right, false);
    if (!is_not_implemented(answer)) co_return answer;
    if (!right_first && left->type() != right->type()) {
        answer = co_await side(tracer, op, right, left, true);
        if (!is_not_implemented(answer)) co_return answer;
    }
    raise_unsupported(tracer, op, in_place, left, right);
}

Task in_place_by_method(Tracer& tracer, BinaryOperator op, Value* method, Value* left, Value* right) {
    Value* answer = co_await call(tracer, method, Arguments::of(left, right));
    if (!is_not_implemented(answer)) co_return answer;
    co_return co_await tracer.start(binary_by_methods(tracer, op, left, right, true));
}

/// `sequence * count`.
bool is_repeated(Value* sequence, Value* count) {
    return count->kind == Kind::Object && (sequence->kind == Kind::List || sequence->kind == Kind::Tuple);
}

Task repeat_by_method(Tracer& tracer, Value* left, Value* right) {
    bool count_left = has_own_index(tracer, left);
    Value* count = co_await index_by_method(tracer, count_left ? left : right);
    co_return co_await binary(tracer, BinaryOperator::Multiply, count_left ? count : left, count_left ? right : count);
}

Outcome binary_operands(Tracer& tracer, BinaryOperator op, Value* left, Value* right, bool in_place) {
    if (user_method(tracer, left, method_name(op, false)) != nullptr ||
        user_method(tracer, right, method_name(op, true)) != nullptr)
        return tracer.start(binary_by_methods(tracer, op, left, right, in_place));
    if (op == BinaryOperator::Remainder && is_percent_format(tracer, left, right))
        return percent_format(tracer, left, right);
    if (op == BinaryOperator::Multiply && (is_repeated(left, right) || is_repeated(right, left)))
        if (has_own_index(tracer, left) || has_own_index(tracer, right))
            return tracer.start(repeat_by_method(tracer, left, right));
    if (Value* answer = left->binary(tracer, op, right, false); answer != nullptr) return answer;
    if (Value* answer = right->binary(tracer, op, left, true); answer != nullptr) return answer;
    refuse_operands(tracer, op, in_place, left, right);
}

bool takes_numbers(const Value* operand) {
    return operand->kind == Kind::Tensor || operand->kind == Kind::Array;
}

/// Next to a tensor or array, a number is not specialized on: the operation decides whether it has to be.
void realize_operands(Tracer& tracer, Value* left, Value* right) {
    if (!takes_numbers(right) || !symbolic::is(left)) tracer.realize(left);
    if (!takes_numbers(left) || !symbolic::is(right)) tracer.realize(right);
}

}  // namespace

Outcome binary(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (Value* answer = symbolic::binary(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    // For a tensor operation, an instance of a subclass of a number is a plain number.
    if (left->kind == Kind::Tensor && user_method(tracer, right, method_name(op, true)) == nullptr)
        right = unwrapped(tracer, right);
    if (right->kind == Kind::Tensor && user_method(tracer, left, method_name(op, false)) == nullptr)
        left = unwrapped(tracer, left);
    return binary_operands(tracer, op, left, right, false);
}

Outcome in_place(Tracer& tracer, BinaryOperator op, Value* left, Value* right) {
    if (Value* answer = symbolic::binary(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    Value* method = user_method(tracer, left, in_place_method_name(op));
    if (method == nullptr) method = method_calling_torch_function(tracer, left, right, in_place_method_name(op));
    if (method != nullptr) return tracer.start(in_place_by_method(tracer, op, method, left, right));
    if (Outcome answer = left->update(tracer, op, right); answer.is_pending() || answer.value() != nullptr)
        return answer;
    return binary_operands(tracer, op, left, right, true);
}

Outcome unary(Tracer& tracer, UnaryOperator op, Value* operand) {
    if (Value* answer = symbolic::unary(tracer, op, operand)) return answer;
    tracer.realize(operand);
    if (Value* method = user_method(tracer, operand, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(operand));
    if (Value* answer = operand->unary(tracer, op); answer != nullptr) return answer;
    const char* sign = op == UnaryOperator::Negative ? "-" : op == UnaryOperator::Positive ? "+" : "~";
    tracer.raise(PyExc_TypeError, std::string("bad operand type for unary ") + sign + ": " + quoted_type(operand));
}

namespace {

constexpr Comparison kMirrored[] = {Comparison::Greater,  Comparison::GreaterEqual, Comparison::Equal,
                                    Comparison::NotEqual, Comparison::Less,         Comparison::LessEqual};

Comparison mirrored(Comparison op) {
    return kMirrored[static_cast<int>(op)];
}

/// Whether `!=` of a user-defined class is `object.__ne__`, which inverts its `__eq__`. A builtin base has its own
/// `!=`.
bool inverts_own_equality(Tracer& tracer, Value* value) {
    if (user_method(tracer, value, "__eq__") == nullptr || user_method(tracer, value, "__ne__") != nullptr)
        return false;
    PyTypeObject* owner = nullptr;
    cpython::lookup_in_mro(value->type(), interned("__ne__"), &owner);
    return owner == &PyBaseObject_Type;
}

Outcome compare_side(Tracer& tracer, Comparison op, Value* self, Value* other) {
    if (Value* method = user_method(tracer, self, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    if (Value* method = method_calling_torch_function(tracer, self, other, method_name(op)); method != nullptr)
        return call(tracer, method, Arguments::of(self, other));
    // `object.__ne__` inverts the result of `__eq__`.
    if (op == Comparison::NotEqual && inverts_own_equality(tracer, self)) return nullptr;
    return self->compare(tracer, op, other);
}

Value* compare_by_identity(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (op == Comparison::Equal) return tracer.boolean(same_object(tracer, left, right));
    if (op == Comparison::NotEqual) return tracer.boolean(!same_object(tracer, left, right));
    tracer.raise(PyExc_TypeError, "'" + std::string(symbol(op)) + "' not supported between instances of " +
                                      quoted_type(left) + " and " + quoted_type(right));
}

Task compare_by_methods(Tracer& tracer, Comparison op, Value* left, Value* right) {
    bool right_first = left->type() != right->type() && PyType_IsSubtype(right->type(), left->type());
    for (int turn = 0; turn < 2; ++turn) {
        bool of_right = right_first == (turn == 0);
        Value* self = of_right ? right : left;
        Value* other = of_right ? left : right;
        Comparison by_self = of_right ? mirrored(op) : op;
        Value* answer = co_await compare_side(tracer, by_self, self, other);
        if (!is_not_implemented(answer)) co_return answer;
        if (op == Comparison::NotEqual && inverts_own_equality(tracer, self)) {
            answer = co_await compare_side(tracer, Comparison::Equal, self, other);
            if (!is_not_implemented(answer)) {
                Value* equal = co_await truth(tracer, answer);
                co_return tracer.boolean(equal->object() != Py_True);
            }
        }
    }
    co_return compare_by_identity(tracer, op, left, right);
}

bool has_own_comparison(Tracer& tracer, Value* value, Comparison op) {
    return user_method(tracer, value, method_name(op)) != nullptr ||
           (op == Comparison::NotEqual && inverts_own_equality(tracer, value));
}

Task compare_by_kinds(Tracer& tracer, Comparison op, Value* left, Value* right) {
    Value* answer = co_await left->compare(tracer, op, right);
    if (!is_not_implemented(answer)) co_return answer;
    answer = co_await right->compare(tracer, mirrored(op), left);
    if (!is_not_implemented(answer)) co_return answer;
    co_return compare_by_identity(tracer, op, left, right);
}

}  // namespace

Outcome compare(Tracer& tracer, Comparison op, Value* left, Value* right) {
    if (Value* answer = symbolic::compare(tracer, op, left, right)) return answer;
    realize_operands(tracer, left, right);
    if (has_own_comparison(tracer, left, op) || has_own_comparison(tracer, right, mirrored(op)))
        return tracer.start(compare_by_methods(tracer, op, left, right));
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) {
        Outcome answer = left->compare(tracer, op, right);
        if (!answer.is_pending() && !is_not_implemented(answer.value())) return answer;
    }
    return tracer.start(compare_by_kinds(tracer, op, left, right));
}

// --- identity
// ----------------------------------------------------------------------------------------------------------

namespace {

bool is_singleton(PyObject* object) {
    return object == Py_None || PyBool_Check(object) || object == Py_Ellipsis || object == Py_NotImplemented;
}

/// Functions are guarded by their code; comparing identities needs an identity guard.
void guard_identity(Tracer& tracer, Value* value) {
    if (value->kind != Kind::Function || value->source == nullptr || value->object() == nullptr) return;
    // A closure may be freed with the variables that it captures, and no guard may keep those alive.
    bool is_local = utf8(static_cast<FunctionValue*>(value)->code->co_qualname).find("<locals>") != std::string::npos;
    if (is_local && guard_weakly(tracer, value) != nullptr) return;
    tracer.guard({GuardKind::Identity, value->source, value->object()});
}

/// A symbolic int is never None.
bool is_of_other_class(Value* one, Value* other) {
    return symbolic::is(one) && !PyBool_Check(one->object()) && other->kind == Kind::Constant &&
           other->object() != nullptr && is_singleton(other->object());
}

}  // namespace

namespace {

/// The empty tuple is a singleton.
bool is_empty_tuple(Tracer& tracer, Value* value) {
    return value->kind == Kind::Tuple && value->type() == &PyTuple_Type && value->length(tracer) == 0;
}

}  // namespace

namespace {

/// Whether a guard on the value implies the identity: there is only one object with that value.
bool is_unique(PyObject* object) {
    if (is_singleton(object) || !is_safe_to_compare(object)) return true;
    const auto& known = torch_room::known();
    PyTypeObject* type = Py_TYPE(object);
    if (type == known.dtype_class || type == known.layout_class || type == known.memory_format_class) return true;
    if (type != &PyLong_Type) return false;
    // CPython shares the small ints.
    int overflow = 0;
    long number = PyLong_AsLongAndOverflow(object, &overflow);
    return overflow == 0 && number >= -5 && number <= 256;
}

bool comes_from_outside(const Value* value) {
    return value->source != nullptr && value->source->access != Access::Pinned;
}

/// Two sources lead to one object, which no guard checks yet.
void guard_one_object(Tracer& tracer, Value* left, Value* right) {
    if (comes_from_outside(left) && comes_from_outside(right))
        tracer.guard({GuardKind::Same, left->source, nullptr, 0, right->source});
    else if (comes_from_outside(left))
        tracer.guard({GuardKind::Identity, left->source, left->object()});
    else if (comes_from_outside(right))
        tracer.guard({GuardKind::Identity, right->source, right->object()});
}

void guard_two_objects(Tracer& tracer, Value* left, Value* right) {
    auto place_of = [&](Value* value) {
        if (value->source != nullptr || value->object() == nullptr) return value->source;
        return tracer.provenance().pinned(value->object());
    };
    if (!comes_from_outside(left)) std::swap(left, right);
    if (!comes_from_outside(left)) return;
    if (Source* other = place_of(right)) tracer.guard({GuardKind::Different, left->source, nullptr, 0, other});
}

bool are_one_constant(Tracer& tracer, Value* left, Value* right) {
    PyObject *left_object = left->object(), *right_object = right->object();
    // The guards on their values distinguish them.
    if (!same_constant(left_object, right_object)) return false;
    if (left_object == right_object && is_unique(left_object)) return true;
    guard_members(tracer, left);
    guard_members(tracer, right);
    if (left_object == right_object) {
        guard_one_object(tracer, left, right);
        return true;
    }
    // Whether a computed number or string is an existing object depends on CPython's caches.
    auto is_known = [](Value* value) { return comes_from_outside(value) || value->equal_member_of != nullptr; };
    // CPython does not cache NaN: two computed ones, or two literals, are different objects.
    if (!is_known(left) && !is_known(right) && is_unequal_to_itself(left_object)) return false;
    if (!is_known(left) || !is_known(right))
        tracer.break_graph(BreakKind::UnknownObject, "the identity of two equal constants is compared");
    guard_two_objects(tracer, left, right);
    return false;
}

}  // namespace

bool same_object(Tracer& tracer, Value* left, Value* right) {
    if (left == right) return true;
    if (is_of_other_class(left, right) || is_of_other_class(right, left)) {
        symbolic::realize_class(tracer, left);
        symbolic::realize_class(tracer, right);
        return false;
    }
    tracer.realize(left);
    tracer.realize(right);
    if (is_empty_tuple(tracer, left) && is_empty_tuple(tracer, right)) return true;
    if (left->kind == Kind::Constant && right->kind == Kind::Constant) return are_one_constant(tracer, left, right);
    // A function is never a constant, so no identity guard is needed, which would keep it alive.
    if (right->kind != Kind::Constant) guard_identity(tracer, left);
    if (left->kind != Kind::Constant) guard_identity(tracer, right);
    if (left->type() == right->type()) {
        if (left->type() == &_PyWeakref_RefType && (left->source == nullptr || right->source == nullptr))
            tracer.break_graph(BreakKind::UnknownObject,
                               "the identity of a weak reference that was created in the captured region is compared");
        guard_members(tracer, left);
        guard_members(tracer, right);
    }
    PyObject *left_object = left->object(), *right_object = right->object();
    if (left_object != nullptr && left_object == right_object) {
        // Other kinds are guarded by identity, or one object has one value.
        if (left->kind == Kind::Tuple || left->kind == Kind::Method) guard_one_object(tracer, left, right);
        return true;
    }
    if (left->kind == Kind::Constant || right->kind == Kind::Constant) return false;
    guard_two_objects(tracer, left, right);
    return false;
}

Value* is(Tracer& tracer, Value* left, Value* right) {
    return tracer.boolean(same_object(tracer, left, right));
}

}  // namespace stator::operations
