/// From objects to values.
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/coroutines.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "guard/numpy_numbers.h"
#include "torch/arrays.h"
#include "torch/known.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"
#include "value/builtins/builtin.h"
#include "value/builtins/numpy.h"
#include "value/kinds/array.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/constant.h"
#include "value/kinds/context_variable.h"
#include "value/kinds/deque.h"
#include "value/kinds/dict.h"
#include "value/kinds/exception.h"
#include "value/kinds/frozen_object.h"
#include "value/kinds/function.h"
#include "value/kinds/generator.h"
#include "value/kinds/outside_iterator.h"
#include "value/kinds/python_module.h"
#include "value/kinds/random_generator.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/kinds/slice.h"
#include "value/kinds/thread_local.h"
#include "value/kinds/weak.h"
#include "value/tensor/subclasses.h"
#include "value/tensor/tensor.h"
#include "value/tensor/torch_function.h"
#include "value/tracer.h"

namespace stator {

namespace {

bool is_c_callable(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    return type == &PyCFunction_Type || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
           type == &PyClassMethodDescr_Type || type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
           type == cpython::method_wrapper_class() || PyCFunction_Check(object) || is_numpy_function(object);
}

SequenceValue* wrap_sequence(SequenceValue* value, PyObject* object, std::size_t size) {
    value->outside = object;
    value->items.assign(size, nullptr);
    return value;
}

/// A value whose identity matters beyond what its own guard checks: two places that hold one such object hold one
/// value.
bool has_identity(const Value* value) {
    switch (value->kind) {
        case Kind::Constant:
        case Kind::Class:
        case Kind::Builtin:
        case Kind::PythonModule:
        case Kind::Function:
        case Kind::Method:
            return false;
        case Kind::Tuple:
            return static_cast<const TupleValue*>(value)->class_ != &PyTuple_Type;
        default:
            return true;
    }
}

DictViewValue::What what_of_view(PyObject* view) {
    if (PyDictKeys_Check(view)) return DictViewValue::What::Keys;
    return PyDictItems_Check(view) ? DictViewValue::What::Items : DictViewValue::What::Values;
}

Value* wrap(Tracer& tracer, PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (is_constant(object)) return tracer.make<ConstantValue>(object);
    if (torch_room::is_tensor(object) && !torch_room::is_plain_tensor(object) &&
        (is_followed_class(type) || torch_room::is_wrapper_class(type))) {
        auto* tensor = tracer.make<TensorObjectValue>(type);
        tensor->outside = object;
        return tensor;
    }
    if (torch_room::is_tensor(object)) {
        auto* tensor = tracer.make<TensorValue>();
        tensor->outside = object;
        return tensor;
    }
    if (type == &PyFunction_Type) {
        auto* real = reinterpret_cast<PyFunctionObject*>(object);
        // Kept: what runs in the middle of a trace may give the function another code.
        PyObject* code = tracer.keep(Ref<>::share(PyFunction_GET_CODE(object)));
        auto* function = tracer.make<FunctionValue>(reinterpret_cast<PyCodeObject*>(code));
        function->outside = object;
        function->globals = PyFunction_GET_GLOBALS(object);
        function->builtins = real->func_builtins;
        return function;
    }
    if (PyType_Check(object)) return tracer.make<ClassValue>(reinterpret_cast<PyTypeObject*>(object));
    if (type == &PyMethod_Type || cpython::c_method_descriptor(object) != nullptr) {
        auto* method = tracer.make<MethodValue>(nullptr, nullptr);
        method->outside = object;
        return method;
    }
    if (is_c_callable(object)) return tracer.make<BuiltinValue>(object);
    if (PyModule_Check(object)) return tracer.make<PythonModuleValue>(object);
    if (PyTuple_Check(object)) return wrap_sequence(tracer.make<TupleValue>(type), object, PyTuple_GET_SIZE(object));
    if (PyList_Check(object)) return wrap_sequence(tracer.make<ListValue>(type), object, PyList_GET_SIZE(object));
    if (PyDict_Check(object)) {
        auto* dict = tracer.make<DictValue>(type);
        dict->outside = object;
        dict->complete = false;
        return dict;
    }
    if (PyAnySet_Check(object)) {
        auto* set = tracer.make<SetValue>(type);
        set->outside = object;
        return set;
    }
    if (cpython::is_deque(object)) {
        auto* deque = tracer.make<DequeValue>(type);
        deque->outside = object;
        return deque;
    }
    if (type == &PyCell_Type) {
        auto* cell = tracer.make<CellValue>();
        cell->outside = object;
        cell->read = false;
        return cell;
    }
    if (type == &PyGen_Type && (cpython::generator_code(object)->co_flags & cpython::kAsynchronousCode) == 0)
        return tracer.make<GeneratorValue>(reinterpret_cast<PyGenObject*>(object));
    if (cpython::can_look_ahead(type)) return tracer.make<OutsideIterator>(object);
    if (type == random_generator_class()) {
        auto* generator = tracer.make<RandomGeneratorValue>();
        generator->outside = object;
        return generator;
    }
    if (is_frozen_class(type)) return tracer.make<FrozenObjectValue>(object);
    if (type == thread_local_class()) return tracer.make<ThreadLocalValue>(object);
    if (PyWeakref_CheckProxy(object)) return tracer.make<WeakProxyValue>(object);
    if (type == &PyContextVar_Type) return tracer.make<ContextVariableValue>(object);
    if (torch_room::is_array_class(type)) {
        auto* array = tracer.make<ArrayValue>();
        array->outside = object;
        return array;
    }
    auto* instance = scalar_base(type) != nullptr ? tracer.make<ScalarValue>(type) : tracer.make<ObjectValue>(type);
    instance->outside = object;
    return instance;
}

/// A numpy scalar that differs between calls, or that may with `dynamic=True`, is an input of the graph, where PyTorch
/// has its dtype.
bool is_captured_scalar(const Tracer& tracer, const Source& source, PyObject* object) {
    const bool may_differ = !tracer.dynamic().is_static_by_default && is_of_arguments(source);
    return (may_differ || tracer.has_changed(source)) && torch_room::tensor_of_array(object, false);
}

}  // namespace

Value* Tracer::outside(Source* source, Borrowed<> object) {
    if (source->value != nullptr) return source->value;
    STATOR_CHECK(object != nullptr, "there is no object to wrap");
    if (auto found = by_identity_.find(object.get()); found != by_identity_.end()) {
        Value* known = found->second;
        if (known->source != nullptr && known->source != source && source->access != Access::Pinned)
            guard({GuardKind::Same, source, nullptr, 0, known->source});
        source->value = known;
        return known;
    }
    Value* value = nullptr;
    if (PySlice_Check(object.get())) {
        auto* slice = reinterpret_cast<PySliceObject*>(object.get());
        auto part = [&](const char* name, PyObject* held) {
            Ref<> key = checked(PyUnicode_InternFromString(name));
            return outside(provenance_.child(source, Access::Member, key.get(), 0, held), held);
        };
        value = make<SliceValue>(part("start", slice->start), part("stop", slice->stop), part("step", slice->step));
    } else if (Py_TYPE(object.get()) == &PyDictProxy_Type && PyDict_Check(cpython::mapping_of_proxy(object).get())) {
        PyObject* dict = cpython::mapping_of_proxy(object);
        auto* view = make<DictViewValue>(static_cast<DictValue*>(outside(provenance_.pinned(dict), dict)),
                                         DictViewValue::What::Proxy);
        view->outside = object;
        value = view;
    } else if (cpython::is_dict_view(Py_TYPE(object.get()))) {
        PyObject* dict = cpython::walked_over(object, 0);
        Source* place = provenance_.child(source, Access::WalkedOver, interned("mapping"), 0, dict);
        auto* view = make<DictViewValue>(static_cast<DictValue*>(outside(place, dict)), what_of_view(object));
        view->outside = object;
        value = view;
    } else if (is_numpy_number(object) && is_captured_scalar(*this, *source, object)) {
        auto* scalar = make<ArrayValue>();
        scalar->outside = object;
        scalar->is_scalar = true;
        value = scalar;
    } else {
        value = wrap(*this, object);
    }
    arena_.keep(Ref<>::share(object.get()));
    value->source = source;
    value->realized = false;
    source->value = value;
    on_undo([source] { source->value = nullptr; });
    bool is_number = PyLong_CheckExact(object.get()) || PyFloat_CheckExact(object.get());
    if (is_number)
        if (auto origin = origin_of_number(*source))
            symbolic::make_variable(*this, static_cast<ConstantValue*>(value), *origin);
    if (has_identity(value)) {
        by_identity_.emplace(object.get(), value);
        on_undo([this, key = object.get()] { by_identity_.erase(key); });
    }
    return value;
}

Value* Tracer::constant(Borrowed<> object) {
    if (object == Py_None) return none();
    if (is_constant(object)) {
        arena_.keep(Ref<>::share(object.get()));
        return make<ConstantValue>(object.get());
    }
    if (PyTuple_CheckExact(object.get()) || PyFrozenSet_CheckExact(object.get()))
        return fresh(Ref<>::share(object.get()));
    Value* value = outside(provenance_.pinned(object), object);
    realize(value);
    return value;
}

Value* Tracer::literal(Borrowed<> object) {
    if (!PyTuple_CheckExact(object.get())) return constant(object);
    if (auto known = literals_.find(object.get()); known != literals_.end()) return known->second;
    std::vector<Value*> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.get()); ++i)
        items.push_back(literal(PyTuple_GET_ITEM(object.get(), i)));
    TupleValue* tuple = make_tuple(*this, std::move(items));
    tuple->outside = keep(Ref<>::share(object.get()));
    literals_.emplace(object.get(), tuple);
    return tuple;
}

namespace {

/// Whether it is a number, a text or a range that nobody else holds, as the program and Python itself hold literals,
/// small integers and single letters.
bool is_newly_made(PyObject* object) {
    if (Py_REFCNT(object) != 1) return false;
    return PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyLong_CheckExact(object) ||
           PyFloat_CheckExact(object) || PyComplex_CheckExact(object) || PyRange_Check(object);
}

bool takes_items(PyTypeObject* type) {
    return (type->tp_as_mapping != nullptr && type->tp_as_mapping->mp_ass_subscript != nullptr) ||
           (type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_ass_item != nullptr);
}

}  // namespace

Value* Tracer::fresh(Ref<> owned) {
    const bool is_made = is_newly_made(owned.get());
    PyObject* object = keep(std::move(owned));
    if (is_constant(object)) {
        if (object == Py_None) return none();
        auto* constant = make<ConstantValue>(object);
        constant->is_made = is_made;
        return constant;
    }
    auto items_of = [this](PyObject* iterable) {
        std::vector<Value*> items;
        Ref<> iterator = checked(PyObject_GetIter(iterable));
        while (PyObject* item = PyIter_Next(iterator.get())) items.push_back(fresh(Ref<>::steal(item)));
        if (PyErr_Occurred() != nullptr) throw PythonError();
        return items;
    };
    if (PyTuple_Check(object)) return make_tuple(*this, items_of(object), Py_TYPE(object));
    if (PyList_CheckExact(object)) return make_list(*this, items_of(object));
    if (PyAnySet_CheckExact(object)) {
        auto* set = make<SetValue>(Py_TYPE(object));
        set->take_over(*this, Ref<>::share(object));
        return set;
    }
    if (PyDict_CheckExact(object)) {
        auto* dict = make<DictValue>();
        PyObject *key = nullptr, *value = nullptr;
        Py_ssize_t position = 0;
        while (PyDict_Next(object, &position, &key, &value))
            dict->table.insert(*this, fresh(Ref<>::share(key)), fresh(Ref<>::share(value)));
        return dict;
    }
    if (PySlice_Check(object)) {
        auto* slice = reinterpret_cast<PySliceObject*>(object);
        return make<SliceValue>(fresh(Ref<>::share(slice->start)), fresh(Ref<>::share(slice->stop)),
                                fresh(Ref<>::share(slice->step)));
    }
    if (PyExceptionInstance_Check(object)) return make_exception(*this, object);
    // What changes in use can't be made once for all calls.
    if (PyIter_Check(object) || takes_items(Py_TYPE(object)))
        break_graph(BreakKind::UnknownFunction,
                    std::string("a C function returns an object of type ") + Py_TYPE(object)->tp_name);
    Value* value = outside(provenance_.pinned(object), object);
    realize(value);
    return value;
}

Value* Tracer::none() {
    if (none_ == nullptr) none_ = make<ConstantValue>(Py_None);
    return none_;
}

Value* Tracer::exhausted() {
    if (exhausted_ == nullptr) exhausted_ = make<ConstantValue>(Py_NotImplemented);
    return exhausted_;
}

Value* Tracer::integer(std::int64_t number) {
    return make<ConstantValue>(keep(checked(PyLong_FromLongLong(number))));
}

Value* Tracer::boolean(bool truth) {
    Value*& value = booleans_[truth ? 1 : 0];
    if (value == nullptr) value = make<ConstantValue>(truth ? Py_True : Py_False);
    return value;
}

Value* Tracer::string(std::string_view text) {
    return make<ConstantValue>(
        keep(checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())))));
}

}  // namespace stator
