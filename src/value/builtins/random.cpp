/// Random numbers of module `random`: the functions of the module, and methods of `random.Random`. A trace draws
/// nothing from a generator from outside: each call draws from it before its graph runs, in the order of the program,
/// and the graph takes the numbers as inputs.
#include <array>
#include <optional>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "value/builtins/registry.h"
#include "value/kinds/constant.h"
#include "value/kinds/random_generator.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/slice.h"
#include "value/protocol/attributes.h"
#include "value/protocol/operations.h"
#include "value/recorder.h"
#include "value/tracer.h"

namespace stator {

namespace {

/// A method that draws a number, and the methods of the generator that it calls.
struct DrawingMethod {
    const char* name;
    std::array<const char*, 3> calls;
};

constexpr std::array kDrawing{
    DrawingMethod{"random", {}},
    DrawingMethod{"getrandbits", {}},
    DrawingMethod{"uniform", {"random"}},
    DrawingMethod{"triangular", {"random"}},
    DrawingMethod{"gauss", {"random"}},
    DrawingMethod{"normalvariate", {"random"}},
    DrawingMethod{"expovariate", {"random"}},
    DrawingMethod{"randint", {"randrange", "_randbelow", "getrandbits"}},
    DrawingMethod{"randrange", {"_randbelow", "getrandbits"}},
};

/// Whether the class has a method of C code, or of module `random`.
bool is_own_method(PyObject* method) {
    static PyObject* const globals = PyModule_GetDict(checked(PyImport_ImportModule("random")).release());
    if (method == nullptr) return false;
    return Py_IS_TYPE(method, &PyMethodDescr_Type) ||
           (PyFunction_Check(method) && PyFunction_GET_GLOBALS(method) == globals);
}

/// Guards that the methods which a method calls are those of Python. False if they are not.
bool guard_methods(Tracer& tracer, RandomGeneratorValue* generator, const DrawingMethod& drawing) {
    tracer.realize(generator);
    for (const char* name : drawing.calls) {
        if (name == nullptr) break;
        PyObject* found = nullptr;
        if (generator->own_attribute(tracer, interned(name)) != nullptr) return false;
        class_attribute(tracer, generator->class_, interned(name), &found);
        if (!is_own_method(found)) return false;
    }
    return true;
}

/// An exact int, float or None; null for other values. Specializes on a number that changes.
PyObject* constant_argument(Tracer& tracer, Value* value) {
    tracer.realize(value);
    PyObject* object = value->object();
    const bool is_number = object != nullptr && (PyLong_CheckExact(object) || PyFloat_CheckExact(object));
    return is_number || object == Py_None ? object : nullptr;
}

/// The arguments after the generator. False if one of them is not a number.
bool take_arguments(Tracer& tracer, const Arguments& arguments, Draw& draw) {
    const std::size_t count = arguments.positional.size() - 1;
    draw.arguments = tracer.keep(checked(PyTuple_New(static_cast<Py_ssize_t>(count))));
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* number = constant_argument(tracer, arguments.positional[i + 1]);
        if (number == nullptr) return false;
        PyTuple_SET_ITEM(draw.arguments, static_cast<Py_ssize_t>(i), Py_NewRef(number));
    }
    if (!arguments.keywords.empty()) draw.keywords = tracer.keep(checked(PyDict_New()));
    for (const Keyword& keyword : arguments.keywords) {
        PyObject* number = constant_argument(tracer, keyword.value);
        if (number == nullptr) return false;
        checked(PyDict_SetItem(draw.keywords, keyword.name, number));
    }
    return true;
}

/// Draws from a generator of Stator's own, to learn whether the arguments are valid and what the result is. Null if it
/// is not a number.
PyObject* example_of(Tracer& tracer, const Draw& draw) {
    static PyObject* const scratch =
        checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(random_generator_class()))).release();
    // The same number in all processes: the ranks of a group compare what they have captured.
    checked(PyObject_CallMethod(scratch, "seed", "i", 0));
    Ref<> drawn = call_on_generator(draw.method, scratch, draw.arguments, draw.keywords);
    if (!drawn) {
        PyErr_Clear();
        return nullptr;
    }
    return PyFloat_CheckExact(drawn.get()) || PyLong_CheckExact(drawn.get()) ? tracer.keep(std::move(drawn)) : nullptr;
}

/// The ints that a method may return, from positional ints; nothing if there may be larger ones than 64 bits hold.
std::optional<Range> range_of(std::string_view method, const Draw& draw) {
    std::array<std::int64_t, 3> given{0, 0, 1};
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(draw.arguments));
    if (draw.keywords != nullptr || count == 0 || count > given.size()) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* number = PyTuple_GET_ITEM(draw.arguments, static_cast<Py_ssize_t>(i));
        int overflow = 0;
        if (!PyLong_CheckExact(number)) return std::nullopt;
        given[i] = PyLong_AsLongLongAndOverflow(number, &overflow);
        if (overflow != 0 || given[i] > std::int64_t{1} << 61 || given[i] < -(std::int64_t{1} << 61))
            return std::nullopt;
    }
    if (method == "getrandbits")
        return given[0] <= 61 ? std::optional(Range{0, (std::int64_t{1} << given[0]) - 1}) : std::nullopt;
    if (method == "randint") return Range{given[0], given[1]};
    if (count == 1) return Range{0, given[0] - 1};
    return given[2] > 0 ? Range{given[0], given[1] - 1} : Range{given[1] + 1, given[0]};
}

/// Each call draws the number. Null where that can't be captured.
Value* draw_later(Tracer& tracer, std::string_view method, Draw draw) {
    draw.example = example_of(tracer, draw);
    if (draw.example == nullptr) return nullptr;
    if (PyLong_CheckExact(draw.example)) {
        auto range = range_of(method, draw);
        if (!range) return nullptr;
        draw.range = *range;
    }
    return tracer.recorder().emit_draw(draw);
}

[[noreturn]] void leave_to_python(Tracer& tracer, const char* method) {
    tracer.break_graph(BreakKind::UnknownFunction,
                       std::string("function Random.") + method + " of module 'random' is called");
}

RandomGeneratorValue* generator_of(const Arguments& arguments) {
    return arguments.positional.empty() ? nullptr : as_random_generator(arguments.positional[0]);
}

template <std::size_t index>
Outcome draw_number(Tracer& tracer, const Arguments& arguments) {
    static constexpr const DrawingMethod& drawing = kDrawing[index];
    static PyObject* const method = method_of_class(random_generator_class(), drawing.name);
    RandomGeneratorValue* generator = generator_of(arguments);
    Value* drawn = nullptr;
    if (generator != nullptr && guard_methods(tracer, generator, drawing)) {
        Draw draw{generator->source, method, nullptr, nullptr, nullptr, {}};
        if (!take_arguments(tracer, arguments, draw)) leave_to_python(tracer, drawing.name);
        drawn = generator->shadow != nullptr ? generator->draw(tracer, method, draw.arguments, draw.keywords)
                                             : draw_later(tracer, drawing.name, draw);
    }
    if (drawn == nullptr) leave_to_python(tracer, drawing.name);
    return drawn;
}

// --- elements of sequences

/// A generator that the trace follows, and whose methods are those of Python.
RandomGeneratorValue* followed_generator(Tracer& tracer, const Arguments& arguments, const char* method) {
    RandomGeneratorValue* generator = generator_of(arguments);
    const DrawingMethod drawing{method, {"_randbelow", "getrandbits", "random"}};
    if (generator == nullptr || generator->shadow == nullptr || !guard_methods(tracer, generator, drawing))
        leave_to_python(tracer, method);
    return generator;
}

/// The length of a list, tuple, str or range.
Py_ssize_t length_of(Tracer& tracer, Value* population, const char* method) {
    tracer.realize(population);
    PyObject* object = population->object();
    const bool is_plain = population->type() == &PyList_Type || population->type() == &PyTuple_Type ||
                          (object != nullptr && (PyUnicode_CheckExact(object) || PyRange_Check(object)));
    if (!is_plain) leave_to_python(tracer, method);
    return population->length(tracer);
}

/// Python's own method draws from these numbers what the program draws from a population of that length: which numbers
/// it needs depends on the length alone.
Ref<> indices(Py_ssize_t length) {
    return checked(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyRange_Type), "n", length));
}

Task choose(Tracer& tracer, Value* population, Value* index) {
    co_return co_await operations::get_item(tracer, population, index);
}

Outcome choice(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const method = method_of_class(random_generator_class(), "choice");
    auto bound = bind_builtin(tracer, "choice", arguments, {"self", "seq"}, 2);
    RandomGeneratorValue* generator = followed_generator(tracer, arguments, "choice");
    const Py_ssize_t length = length_of(tracer, bound[1], "choice");
    if (length == 0) leave_to_python(tracer, "choice");
    Ref<> given = checked(PyTuple_Pack(1, indices(length).get()));
    return tracer.start(choose(tracer, bound[1], generator->draw(tracer, method, given.get(), nullptr)));
}

Task choose_all(Tracer& tracer, Value* population, std::vector<Value*> chosen) {
    for (Value*& index : chosen) index = co_await operations::get_item(tracer, population, index);
    co_return make_list(tracer, std::move(chosen));
}

Outcome sample(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const method = method_of_class(random_generator_class(), "sample");
    auto bound = bind_builtin(tracer, "sample", arguments, {"self", "population", "k"}, 3);
    RandomGeneratorValue* generator = followed_generator(tracer, arguments, "sample");
    const Py_ssize_t length = length_of(tracer, bound[1], "sample");
    PyObject* count = constant_argument(tracer, bound[2]);
    if (count == nullptr) leave_to_python(tracer, "sample");
    Ref<> given = checked(PyTuple_Pack(2, indices(length).get(), count));
    Value* chosen = generator->draw(tracer, method, given.get(), nullptr);
    return tracer.start(choose_all(tracer, bound[1], as_sequence(chosen)->all(tracer)));
}

Task reorder(Tracer& tracer, Value* list, std::vector<Value*> order) {
    const std::vector<Value*> before = as_sequence(list)->all(tracer);
    for (Value*& index : order) index = before[PyLong_AsSize_t(index->object())];
    Value* everything = tracer.make<SliceValue>(tracer.none(), tracer.none(), tracer.none());
    Value* after = make_list(tracer, std::move(order));
    co_await operations::set_item(tracer, list, everything, after);
    co_return tracer.none();
}

Outcome shuffle(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const method = method_of_class(random_generator_class(), "shuffle");
    auto bound = bind_builtin(tracer, "shuffle", arguments, {"self", "x"}, 2);
    RandomGeneratorValue* generator = followed_generator(tracer, arguments, "shuffle");
    tracer.realize(bound[1]);
    if (bound[1]->type() != &PyList_Type) leave_to_python(tracer, "shuffle");
    Ref<> order = checked(PySequence_List(indices(bound[1]->length(tracer)).get()));
    Ref<> given = checked(PyTuple_Pack(1, order.get()));
    (void)generator->draw(tracer, method, given.get(), nullptr);
    return tracer.start(reorder(tracer, bound[1], as_sequence(tracer.fresh(std::move(order)))->all(tracer)));
}

// --- states

/// A generator that is seeded with this constant; empty for any other value.
Ref<> seeded(Tracer& tracer, const Arguments& arguments, std::size_t first) {
    if (arguments.positional.size() != first + 1 || !arguments.keywords.empty()) return {};
    tracer.realize(arguments.positional[first]);
    PyObject* seed = arguments.positional[first]->object();
    if (seed == nullptr || !(PyLong_CheckExact(seed) || PyFloat_CheckExact(seed) || PyUnicode_CheckExact(seed)))
        return {};
    return checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(random_generator_class()), seed));
}

Outcome make_generator(Tracer& tracer, const Arguments& arguments) {
    Ref<> shadow = seeded(tracer, arguments, 0);
    if (!shadow) leave_to_python(tracer, "__init__");
    auto* generator = tracer.make<RandomGeneratorValue>();
    generator->set_shadow(tracer, std::move(shadow));
    return generator;
}

Outcome seed(Tracer& tracer, const Arguments& arguments) {
    RandomGeneratorValue* generator = generator_of(arguments);
    Ref<> shadow = generator == nullptr ? Ref<>() : seeded(tracer, arguments, 1);
    if (!shadow) leave_to_python(tracer, "seed");
    tracer.realize(generator);
    generator->set_shadow(tracer, std::move(shadow));
    return tracer.none();
}

Outcome get_state(Tracer& tracer, const Arguments& arguments) {
    RandomGeneratorValue* generator = generator_of(arguments);
    if (generator == nullptr || generator->shadow == nullptr || arguments.count() != 1)
        leave_to_python(tracer, "getstate");
    return tracer.fresh(state_of_generator(generator->shadow));
}

Outcome set_state(Tracer& tracer, const Arguments& arguments) {
    RandomGeneratorValue* generator = generator_of(arguments);
    Ref<> state, shadow;
    if (generator != nullptr && arguments.positional.size() == 2 && arguments.keywords.empty())
        state = arguments.positional[1]->as_constant(tracer);
    if (state) shadow = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(random_generator_class())));
    try {
        if (shadow) set_state_of_generator(shadow.get(), state.get());
    } catch (const PythonError&) {
        PyErr_Clear();
        shadow = {};
    }
    if (!shadow) leave_to_python(tracer, "setstate");
    tracer.realize(generator);
    generator->set_shadow(tracer, std::move(shadow));
    return tracer.none();
}

template <std::size_t... indices>
void add_all(Handlers& handlers, std::index_sequence<indices...>) {
    (handlers.add(method_of_class(random_generator_class(), kDrawing[indices].name), draw_number<indices>), ...);
}

}  // namespace

void register_random(Handlers& handlers) {
    PyTypeObject* type = random_generator_class();
    add_all(handlers, std::make_index_sequence<kDrawing.size()>());
    handlers.add(reinterpret_cast<PyObject*>(type), make_generator);
    handlers.add(method_of_class(type, "choice"), choice);
    handlers.add(method_of_class(type, "sample"), sample);
    handlers.add(method_of_class(type, "shuffle"), shuffle);
    handlers.add(method_of_class(type, "seed"), seed);
    handlers.add(method_of_class(type, "getstate"), get_state);
    handlers.add(method_of_class(type, "setstate"), set_state);
}

}  // namespace stator
