/// Numbers: constructors, `abs`, `round`, `divmod`, `pow`, `hash`, and the pure functions of `math` and `cmath`.
#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "cpython/tuple_hash.h"
#include "value/builtins/arrays.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/class.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/index.h"
#include "value/protocol/keys.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"
#include "value/recorder.h"
#include "value/tensor/data_numbers.h"
#include "value/tensor/function_modes.h"
#include "value/tensor/known_contents.h"
#include "value/tensor/tensor.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// Folds, or, where an operand is not constant, calls the special method of its class that the function calls.
Outcome fold_or_call_method(Tracer& tracer, Borrowed<> function, const char* method, const Arguments& arguments) {
    if (Value* folded = fold(tracer, function, arguments)) return folded;
    Value* operand = arguments.positional[0];
    tracer.realize(operand);
    if (has_special_method(tracer, operand->type(), method)) {
        Arguments rest;
        rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
        rest.keywords = arguments.keywords;
        return operations::call_method(tracer, operand, method, rest);
    }
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string(method) + " is called on an object of class " + operand->type()->tp_name);
}

Outcome builtin_abs(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "abs", arguments, 1, 1);
    Value* operand = arguments.positional[0];
    if (Value* answer = symbolic::absolute(tracer, operand)) return answer;
    tracer.realize(operand);
    if (operand->kind != Kind::Constant && !has_special_method(tracer, operand->type(), "__abs__"))
        raise_type_error(tracer, "bad operand type for abs(): ", operand, "");
    if (operand->kind == Kind::Tensor && !modes_see_operators(tracer)) {
        static PyObject* function = imported("_operator", "abs");
        return tracer.recorder().emit_function(function, arguments);
    }
    if (operand->kind == Kind::Array) return array_operator(tracer, imported("_operator", "abs"), arguments);
    return fold_or_call_method(tracer, builtin_function("abs"), "__abs__", arguments);
}

Outcome builtin_round(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "round", arguments, {"number", "ndigits"}, 1);
    if (bound[1] == nullptr)
        if (Value* answer = symbolic::function(tracer, Expression::Op::Round, bound[0])) return answer;
    tracer.realize(bound[0]);
    if (bound[0]->kind != Kind::Constant && !has_special_method(tracer, bound[0]->type(), "__round__"))
        tracer.raise(PyExc_TypeError,
                     std::string("type ") + bound[0]->type()->tp_name + " doesn't define __round__ method");
    Arguments positional;
    for (Value* part : bound)
        if (part != nullptr) positional.positional.push_back(part);
    return fold_or_call_method(tracer, builtin_function("round"), "__round__", positional);
}

Task divmod_by_protocol(Tracer& tracer, Value* left, Value* right) {
    tracer.realize(left);
    tracer.realize(right);
    Value* answer = nullptr;
    if (operations::user_method(tracer, left, "__divmod__") != nullptr || left->kind == Kind::Tensor) {
        answer = co_await operations::call_method(tracer, left, "__divmod__", Arguments::of(right));
        if (answer->object() != Py_NotImplemented) co_return answer;
    }
    if (operations::user_method(tracer, right, "__rdivmod__") != nullptr || right->kind == Kind::Tensor) {
        answer = co_await operations::call_method(tracer, right, "__rdivmod__", Arguments::of(left));
        if (answer->object() != Py_NotImplemented) co_return answer;
    }
    for (Value* side : {left, right})
        if (side->kind == Kind::Object && side->type()->tp_as_number != nullptr &&
            side->type()->tp_as_number->nb_divmod != nullptr)
            tracer.break_graph(BreakKind::UnknownObject, std::string("divmod of a ") + side->type()->tp_name);
    tracer.raise(PyExc_TypeError, std::string("unsupported operand type(s) for divmod(): '") + left->type()->tp_name +
                                      "' and '" + right->type()->tp_name + "'");
}

Outcome builtin_divmod(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "divmod", arguments, 2, 2);
    Value *left = arguments.positional[0], *right = arguments.positional[1];
    if (Value* quotient = symbolic::binary(tracer, BinaryOperator::FloorDivide, left, right))
        if (Value* rest = symbolic::binary(tracer, BinaryOperator::Remainder, left, right))
            return make_tuple(tracer, {quotient, rest});
    if (Value* folded = fold(tracer, builtin_function("divmod"), arguments)) return folded;
    return tracer.start(divmod_by_protocol(tracer, left, right));
}

Outcome builtin_pow(Tracer& tracer, const Arguments& arguments) {
    auto bound = bind_builtin(tracer, "pow", arguments, {"base", "exp", "mod"}, 2);
    bool by_modulus = false;
    if (bound[2] != nullptr) {
        tracer.realize(bound[2]);
        by_modulus = bound[2]->object() != Py_None;
    }
    if (!by_modulus) return operations::binary(tracer, BinaryOperator::Power, bound[0], bound[1]);
    if (Value* folded = fold(tracer, builtin_function("pow"), arguments)) return folded;
    tracer.realize(bound[0]);
    if (Value* method = operations::user_method(tracer, bound[0], "__pow__"))
        return operations::call(tracer, method, Arguments::of(bound[0], bound[1], bound[2]));
    tracer.break_graph(BreakKind::UnknownObject, "three-argument pow() of values that are not constants");
}

/// The special methods have to return a number of their class; a string that could be parsed as one is an error.
void expect_kind(Tracer& tracer, Value* value, std::string_view method, Value* number) {
    PyTypeObject* expected = method == "__float__"     ? &PyFloat_Type
                             : method == "__complex__" ? &PyComplex_Type
                                                       : &PyLong_Type;
    if (!symbolic::is_unbacked(number)) tracer.realize(number);
    if (number->type() == expected) return;
    if (PyType_IsSubtype(number->type(), expected) || method == "__trunc__")
        tracer.break_graph(BreakKind::UnknownObject, std::string(method) + " returns a " + number->type()->tp_name);
    std::string owner = method == "__float__" ? std::string(value->type()->tp_name) + "." : "";
    std::string kind = method == "__float__" ? "float" : method == "__complex__" ? "complex" : "int";
    tracer.raise(PyExc_TypeError,
                 owner + std::string(method) + " returned non-" + kind + " (type " + number->type()->tp_name + ")");
}

Task convert_index(Tracer& tracer, PyTypeObject* type, Value* value, const char* method) {
    Value* number = co_await operations::call_method(tracer, value, method, Arguments::of());
    expect_kind(tracer, value, method, number);
    if (symbolic::is_unbacked(number) && number->type() == type) co_return number;
    Arguments arguments;
    arguments.positional.push_back(number);
    Value* folded = fold(tracer, reinterpret_cast<PyObject*>(type), arguments);
    if (folded == nullptr)
        tracer.break_graph(BreakKind::DataDependent, std::string(type->tp_name) + " of a value that is not a constant");
    co_return folded;
}

/// `int(x)` and `float(x)`: folded for a constant, otherwise through the special methods of its class.
Outcome convert(Tracer& tracer, PyTypeObject* type, std::initializer_list<const char*> methods,
                const Arguments& arguments) {
    auto* callable = reinterpret_cast<PyObject*>(type);
    if (Value* folded = fold(tracer, callable, arguments)) return folded;
    Value* value = arguments.positional.empty() ? nullptr : arguments.positional[0];
    if (value == nullptr || arguments.count() != 1)
        tracer.break_graph(BreakKind::UnknownObject, "a number is created from a value that is not a constant");
    for (const char* method : methods)
        if (has_special_method(tracer, value->type(), method))
            return tracer.start(convert_index(tracer, type, value, method));
    if (type == &PyLong_Type)
        raise_type_error(tracer, "int() argument must be a string, a bytes-like object or a real number, not ", value,
                         "");
    raise_type_error(tracer, std::string(type->tp_name) + "() argument must be a string or a real number, not ", value,
                     "");
}

/// The only argument, if it is a symbolic number; otherwise null. Guards its class.
Value* variable_among(Tracer& tracer, const Arguments& arguments) {
    if (arguments.count() != 1 || arguments.positional.size() != 1 || !symbolic::is(arguments.positional[0]))
        return nullptr;
    symbolic::realize_class(tracer, arguments.positional[0]);
    return arguments.positional[0];
}

Outcome make_int(Tracer& tracer, const Arguments& arguments) {
    Value* variable = variable_among(tracer, arguments);
    if (variable != nullptr) {
        if (variable->type() == &PyLong_Type) return variable;
        if (Value* number = symbolic::function(tracer, Expression::Op::Truncate, variable)) return number;
    }
    return convert(tracer, &PyLong_Type, {"__int__", "__index__", "__trunc__"}, arguments);
}

Outcome make_float(Tracer& tracer, const Arguments& arguments) {
    if (Value* variable = variable_among(tracer, arguments)) {
        if (variable->type() == &PyFloat_Type) return variable;
        if (Value* divided = symbolic::binary(tracer, BinaryOperator::TrueDivide, variable, tracer.integer(1)))
            return divided;
    }
    return convert(tracer, &PyFloat_Type, {"__float__", "__index__"}, arguments);
}

Outcome make_complex(Tracer& tracer, const Arguments& arguments) {
    return convert(tracer, &PyComplex_Type, {"__complex__", "__float__", "__index__"}, arguments);
}

Outcome make_bool(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "bool", arguments, 0, 1);
    if (arguments.positional.empty()) return tracer.boolean(false);
    Value* value = arguments.positional[0];
    if (auto* tensor = cast<TensorValue>(value); tensor != nullptr && !known_truth(tracer, tensor))
        if (Value* number = read_number(tracer, tensor, "item")) value = number;
    if (Value* truth = symbolic::truth_by_data(tracer, value)) return truth;
    return operations::truth(tracer, value);
}

Task hash_by_method(Tracer& tracer, Value* method, Value* value) {
    Value* answer = co_await operations::call(tracer, method, Arguments::of(value));
    tracer.realize(answer);
    if (answer->object() == nullptr || !PyLong_Check(answer->object()))
        tracer.raise(PyExc_TypeError, "__hash__ method should return an integer");
    // The result of `__hash__` itself, unless it is too large for a hash.
    Py_hash_t hash = PyLong_AsSsize_t(answer->object());
    if (hash == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        hash = PyLong_Type.tp_hash(answer->object());
    }
    co_return tracer.integer(hash == -1 ? -2 : hash);
}

/// The hash of a tuple with objects whose `__hash__` is the program's.
Task hash_of_items(Tracer& tracer, TupleValue* tuple);

Outcome hash_of(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (Value* method = operations::user_method(tracer, value, "__hash__"))
        return tracer.start(hash_by_method(tracer, method, value));
    auto* tuple = cast<TupleValue>(value);
    if (tuple != nullptr && needs_preparation(tracer, tuple)) return tracer.start(hash_of_items(tracer, tuple));
    Py_hash_t hash = value->hash(tracer);  // raises for an unhashable value
    if (Ref<> known = value->as_constant(tracer)) {
        hash = PyObject_Hash(known.get());
        if (hash == -1) tracer.raise_from_python();
        return tracer.integer(hash);
    }
    tracer.break_graph(BreakKind::UnknownObject,
                       std::string("hash() of an object of class ") + value->type()->tp_name + "");
}

Task hash_of_items(Tracer& tracer, TupleValue* tuple) {
    std::vector<Py_hash_t> hashes;
    for (std::size_t i = 0; i < tuple->items.size(); ++i) {
        Value* hash = co_await hash_of(tracer, tuple->item(tracer, i));
        hashes.push_back(PyLong_AsSsize_t(hash->object()));
    }
    co_return tracer.integer(cpython::hash_of_tuple(hashes));
}

Outcome builtin_hash(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "builtins", "hash", arguments, 1, 1);
    return hash_of(tracer, arguments.positional[0]);
}

Task sum_of_products(Tracer& tracer, Value* left, Value* right) {
    Value* total = tracer.integer(0);
    Value* first = co_await operations::iterate(tracer, left);
    Value* second = co_await operations::iterate(tracer, right);
    while (true) {
        Value* a = co_await operations::next(tracer, first);
        Value* b = co_await operations::next(tracer, second);
        if ((a == tracer.exhausted()) != (b == tracer.exhausted()))
            tracer.raise(PyExc_ValueError, "Inputs are not the same length");
        if (a == tracer.exhausted()) co_return total;
        Value* product = co_await operations::binary(tracer, BinaryOperator::Multiply, a, b);
        total = co_await operations::binary(tracer, BinaryOperator::Add, total, product);
    }
}

Task product_of(Tracer& tracer, Value* iterable, Value* total) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) co_return total;
        total = co_await operations::binary(tracer, BinaryOperator::Multiply, total, item);
    }
}

Outcome math_prod(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() > 1)
        tracer.break_graph(BreakKind::UnknownFunction,
                           "math.prod is called with arguments that Stator has no model of");
    auto bound = bind_builtin(tracer, "prod", arguments, {"iterable", "start"}, 1, 1);
    return tracer.start(product_of(tracer, bound[0], bound[1] != nullptr ? bound[1] : tracer.integer(1)));
}

Outcome math_sumprod(Tracer& tracer, const Arguments& arguments) {
    expect_arguments(tracer, "math", "sumprod", arguments, 2, 2);
    static PyObject* const function = imported("math", "sumprod");
    if (Value* folded = fold(tracer, function, arguments)) return folded;
    return tracer.start(sum_of_products(tracer, arguments.positional[0], arguments.positional[1]));
}

/// A function of `math` that takes one number.
Outcome call_math(Tracer& tracer, Expression::Op op, PyObject* function, const Arguments& arguments) {
    if (Value* variable = variable_among(tracer, arguments))
        if (Value* answer = symbolic::function(tracer, op, variable)) return answer;
    if (Value* folded = fold(tracer, function, arguments)) return folded;
    tracer.break_graph(BreakKind::UnknownFunction, std::string("the C function ") + symbol(op) + " is called");
}

template <Expression::Op op>
Outcome math_function(Tracer& tracer, const Arguments& arguments) {
    return call_math(tracer, op, python_function(op), arguments);
}

Outcome math_trunc(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("math", "trunc");
    return call_math(tracer, Expression::Op::Truncate, function, arguments);
}

template <Expression::Op op>
void add_math(Handlers& handlers) {
    handlers.add(python_function(op), math_function<op>);
    if constexpr (op < Expression::Op::Log2) add_math<static_cast<Expression::Op>(static_cast<int>(op) + 1)>(handlers);
}

void add_pure_module(Handlers& handlers, const char* name) {
    Ref<> module = checked(PyImport_ImportModule(name));
    PyObject* dict = PyModule_GetDict(module.get());
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &key, &value))
        if (PyCFunction_Check(value)) handlers.add_pure(value);
}

}  // namespace

void register_numbers(Handlers& handlers) {
    handlers.add("builtins", "abs", builtin_abs);
    handlers.add("_operator", "abs", builtin_abs);
    handlers.add("builtins", "round", builtin_round);
    handlers.add("builtins", "divmod", builtin_divmod);
    handlers.add("builtins", "pow", builtin_pow);
    handlers.add("builtins", "int", make_int);
    handlers.add("builtins", "float", make_float);
    handlers.add("builtins", "complex", make_complex);
    handlers.add("builtins", "bool", make_bool);
    handlers.add("builtins", "hash", builtin_hash);
    for (PyTypeObject* type : {&PyLong_Type, &PyFloat_Type, &PyComplex_Type, &PyBool_Type})
        handlers.add_pure_class(type);
    for (const char* name : {"bin", "hex", "oct"}) handlers.add_pure("builtins", name);
    add_pure_module(handlers, "math");
    add_pure_module(handlers, "cmath");
    handlers.add("math", "prod", math_prod);
    handlers.add("math", "trunc", math_trunc);
    add_math<Expression::Op::Floor>(handlers);
    handlers.add("math", "sumprod", math_sumprod);
}

}  // namespace stator
