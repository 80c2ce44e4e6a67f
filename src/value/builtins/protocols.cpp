/// Special methods of builtin classes called by name: `list.__getitem__`, `super().__setitem__(...)`, `x.__len__()`.
/// They bypass overrides of a subclass.
#include "value/builtins/registry.h"
#include "value/kinds/deque.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"
#include "value/protocol/calling.h"
#include "value/protocol/container_text.h"
#include "value/protocol/identity.h"
#include "value/protocol/raising.h"
#include "value/protocol/refusal.h"

namespace stator {

namespace {

/// Checks the number of arguments of a slot wrapper and returns `self`, realized.
Value* slot_receiver(Tracer& tracer, const Arguments& arguments, std::size_t wanted) {
    if (arguments.positional.empty()) tracer.raise(PyExc_TypeError, "descriptor needs an argument");
    if (!arguments.keywords.empty()) tracer.raise(PyExc_TypeError, "wrapper takes no keyword arguments");
    if (arguments.positional.size() != wanted + 1)
        tracer.raise(PyExc_TypeError, "expected " + std::to_string(wanted) + " argument" + (wanted == 1 ? "" : "s") +
                                          ", got " + std::to_string(arguments.positional.size() - 1));
    for (Value* value : arguments.positional) tracer.realize(value);
    return arguments.positional[0];
}

Outcome slot_getitem(Tracer& tracer, const Arguments& arguments) {
    return slot_receiver(tracer, arguments, 1)->get_item(tracer, arguments.positional[1]);
}

Outcome slot_setitem(Tracer& tracer, const Arguments& arguments) {
    return slot_receiver(tracer, arguments, 2)->assign_item(tracer, arguments.positional[1], arguments.positional[2]);
}

Outcome slot_delitem(Tracer& tracer, const Arguments& arguments) {
    slot_receiver(tracer, arguments, 1)->delete_item(tracer, arguments.positional[1]);
    return tracer.none();
}

Outcome slot_contains(Tracer& tracer, const Arguments& arguments) {
    return slot_receiver(tracer, arguments, 1)->contains(tracer, arguments.positional[1]);
}

Outcome slot_len(Tracer& tracer, const Arguments& arguments) {
    return tracer.integer(slot_receiver(tracer, arguments, 0)->length(tracer));
}

Outcome slot_iter(Tracer& tracer, const Arguments& arguments) {
    return slot_receiver(tracer, arguments, 0)->iterate(tracer);
}

Outcome slot_hash(Tracer& tracer, const Arguments& arguments) {
    Value* self = slot_receiver(tracer, arguments, 0);
    Ref<> known = self->as_constant(tracer);
    if (!known) tracer.break_graph(BreakKind::UnknownObject, "hash() of a container whose items are not constants");
    Py_hash_t hash = PyObject_Hash(known.get());
    if (hash == -1) tracer.raise_from_python();
    return tracer.integer(hash);
}

/// A subclass that calls `super().__repr__()` gets the repr of the plain container.
template <PyTypeObject* owner>
Outcome slot_repr(Tracer& tracer, const Arguments& arguments) {
    Value* self = slot_receiver(tracer, arguments, 0);
    if (auto text = repr_by(tracer, owner, self)) return *text;
    tracer.break_graph(BreakKind::UnknownObject, std::string("repr() of a ") + self->type()->tp_name);
}

template <BinaryOperator op, bool reflected>
Outcome slot_binary(Tracer& tracer, const Arguments& arguments) {
    Value* self = slot_receiver(tracer, arguments, 1);
    Value* other = arguments.positional[1];
    if (Value* answer = self->binary(tracer, op, other, reflected)) return answer;
    return refusal_of_method(tracer, method_name(op, reflected), self, other);
}

template <BinaryOperator op>
Outcome slot_in_place(Tracer& tracer, const Arguments& arguments) {
    Value* self = slot_receiver(tracer, arguments, 1);
    Value* other = arguments.positional[1];
    Outcome answer = self->update(tracer, op, other);
    if (answer.is_pending() || answer.value() != nullptr) return answer;
    return refusal_of_method(tracer, in_place_method_name(op), self, other);
}

template <Comparison op>
Outcome slot_compare(Tracer& tracer, const Arguments& arguments) {
    Value* self = slot_receiver(tracer, arguments, 1);
    Outcome answer = self->compare(tracer, op, arguments.positional[1]);
    if (answer.is_pending()) return answer;
    return or_not_implemented(tracer, answer.value());
}

template <BinaryOperator op>
void add_operator(Handlers& handlers, PyTypeObject* type) {
    handlers.add_method(type, method_name(op, false), slot_binary<op, false>);
    handlers.add_method(type, method_name(op, true), slot_binary<op, true>);
    handlers.add_method(type, in_place_method_name(op), slot_in_place<op>);
}

void add_comparisons(Handlers& handlers, PyTypeObject* type) {
    handlers.add_method(type, "__lt__", slot_compare<Comparison::Less>);
    handlers.add_method(type, "__le__", slot_compare<Comparison::LessEqual>);
    handlers.add_method(type, "__eq__", slot_compare<Comparison::Equal>);
    handlers.add_method(type, "__ne__", slot_compare<Comparison::NotEqual>);
    handlers.add_method(type, "__gt__", slot_compare<Comparison::Greater>);
    handlers.add_method(type, "__ge__", slot_compare<Comparison::GreaterEqual>);
}

}  // namespace

void register_protocols(Handlers& handlers) {
    for (PyTypeObject* type :
         {&PyTuple_Type, &PyList_Type, &PyDict_Type, &PyODict_Type, default_dict_class(), &PySet_Type,
          &PyFrozenSet_Type, deque_class(), torch_size_class(), &PyDictKeys_Type, &PyDictValues_Type, &PyDictItems_Type,
          &PyDictProxy_Type, &PyODictKeys_Type, &PyODictValues_Type, &PyODictItems_Type, &PySlice_Type}) {
        handlers.add_method(type, "__getitem__", slot_getitem);
        handlers.add_method(type, "__setitem__", slot_setitem);
        handlers.add_method(type, "__delitem__", slot_delitem);
        handlers.add_method(type, "__contains__", slot_contains);
        handlers.add_method(type, "__len__", slot_len);
        handlers.add_method(type, "__iter__", slot_iter);
        add_comparisons(handlers, type);
        add_operator<BinaryOperator::Add>(handlers, type);
        add_operator<BinaryOperator::Multiply>(handlers, type);
        add_operator<BinaryOperator::Or>(handlers, type);
        add_operator<BinaryOperator::And>(handlers, type);
        add_operator<BinaryOperator::Subtract>(handlers, type);
        add_operator<BinaryOperator::Xor>(handlers, type);
    }
    for (PyTypeObject* type : {&PyUnicode_Type, &PyBytes_Type, &PyRange_Type})
        handlers.add_method(type, "__iter__", slot_iter);
    for (PyTypeObject* type : {&PyTuple_Type, &PyFrozenSet_Type}) handlers.add_method(type, "__hash__", slot_hash);
    handlers.add_method(&PyTuple_Type, "__repr__", slot_repr<&PyTuple_Type>);
    handlers.add_method(&PyList_Type, "__repr__", slot_repr<&PyList_Type>);
    handlers.add_method(&PyDict_Type, "__repr__", slot_repr<&PyDict_Type>);
    handlers.add_method(&PyODict_Type, "__repr__", slot_repr<&PyODict_Type>);
    handlers.add_method(&PySet_Type, "__repr__", slot_repr<&PySet_Type>);
    handlers.add_method(&PyFrozenSet_Type, "__repr__", slot_repr<&PyFrozenSet_Type>);
}

}  // namespace stator
