// The methods of a pattern are called while tracing, if the text is a constant. A match is a value of its own, because
// the program makes a new one in each call.
#include "value/builtins/regular_expressions.h"

#include <algorithm>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "value/kinds/constant.h"
#include "value/kinds/object.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/scalar.h"
#include "value/kinds/sequence.h"
#include "value/tracer.h"

namespace stator {

namespace {

PyTypeObject* pattern_class() {
    static PyTypeObject* const type = imported_class("re", "Pattern");
    return type;
}

PyTypeObject* match_class() {
    static PyTypeObject* const type = imported_class("re", "Match");
    return type;
}

/// A text, a number, None or a list or tuple of these, which a method has returned. It may be one of the texts that the
/// method was given.
Value* result_of(Tracer& tracer, Ref<> result, const std::vector<Value*>& texts) {
    if (!result) tracer.raise_from_python();
    if (Value* itself = argument_itself(texts, result.get())) return itself;
    Value* value = tracer.fresh(std::move(result));
    if (value->kind == Kind::Tuple || value->kind == Kind::List)
        for (Value*& item : static_cast<SequenceValue*>(value)->items)
            if (item->kind == Kind::Constant)
                if (Value* itself = argument_itself(texts, item->object())) item = itself;
    return value;
}

/// What `method` of a pattern has found, called with `arguments`, the pattern first.
struct MatchValue final : ObjectValue {
    MatchValue(PyObject* method, Arguments arguments, PyObject* held)
        : ObjectValue(match_class()), method(method), arguments(std::move(arguments)), held(held) {}

    PyObject* const method;  // in the dict of the class
    Arguments const arguments;
    PyObject* const held;  // kept alive by the trace

    Outcome get_attribute(Tracer& tracer, Borrowed<> name) override {
        if (name.get() == interned("re")) return arguments.positional[0];
        const bool is_text = name.get() == interned("string");
        if (is_text && std::ranges::any_of(arguments.positional, [](Value* one) { return one->kind == Kind::Scalar; }))
            tracer.break_graph(BreakKind::UnknownObject, "the text of a match, of a subclass of str, is read");
        PyObject* raw = cpython::lookup_in_mro(class_, name, nullptr);
        bool is_data = raw != nullptr && (Py_TYPE(raw) == &PyMemberDescr_Type || Py_TYPE(raw) == &PyGetSetDescr_Type);
        if (!is_data) return ObjectValue::get_attribute(tracer, name);
        return result_of(tracer, Ref<>::steal(PyObject_GetAttr(held, name)), arguments.positional);
    }

    Outcome get_item(Tracer& tracer, Value* key) override {
        Ref<> group = key->as_constant(tracer);
        if (!group) return ObjectValue::get_item(tracer, key);
        return result_of(tracer, Ref<>::steal(PyObject_GetItem(held, group.get())), arguments.positional);
    }

    int rebuild(PlanBuilder& plan) override { return rebuild_by_call(plan, this, method, arguments); }
};

Arguments without_first(const Arguments& arguments) {
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    return rest;
}

/// The arguments after the pattern. Of a text of a subclass of `str` a pattern reads the characters alone.
Arguments plain_texts(Tracer& tracer, const Arguments& arguments) {
    Arguments rest = without_first(arguments);
    for (Value*& value : rest.positional)
        if (value->kind == Kind::Scalar) value = static_cast<ScalarValue*>(value)->plain(tracer);
    return rest;
}

[[noreturn]] void refuse(Tracer& tracer, const char* of_class, const char* name) {
    tracer.break_graph(BreakKind::UnknownFunction, std::string("the C function ") + of_class + "." + name +
                                                       " is called with arguments that are not constants");
}

/// The real pattern, guarded; null if the value is none, or is unknown.
PyObject* real_pattern(Tracer& tracer, Value* value) {
    tracer.realize(value);
    auto* pattern = cast<ObjectValue>(value);
    if (pattern == nullptr || pattern->outside == nullptr || Py_TYPE(pattern->outside) != pattern_class())
        return nullptr;
    if (pattern->source != nullptr) tracer.guard({GuardKind::Identity, pattern->source, pattern->outside});
    return pattern->outside;
}

constexpr const char* kPatternMethods[] = {"match", "fullmatch", "search", "findall", "split", "sub", "subn"};
constexpr const char* kMatchMethods[] = {"group", "groups", "groupdict", "start", "end", "span", "expand"};

template <std::size_t kMethod>
Outcome call_pattern(Tracer& tracer, const Arguments& arguments) {
    const char* name = kPatternMethods[kMethod];
    ConstantArguments constants;
    PyObject* pattern = arguments.positional.empty() ? nullptr : real_pattern(tracer, arguments.positional[0]);
    constexpr bool kReplaces = kMethod >= 5;  // `sub` and `subn` use the replacement as a key
    const Arguments rest = kReplaces ? without_first(arguments) : plain_texts(tracer, arguments);
    if (pattern == nullptr || !constants.take(tracer, rest)) refuse(tracer, "Pattern", name);
    Ref<> method = checked(PyObject_GetAttrString(pattern, name));
    Ref<> result = constants.call(method.get());
    if (!result || Py_TYPE(result.get()) != match_class())
        return result_of(tracer, std::move(result), arguments.positional);
    PyObject* held = tracer.keep(std::move(result));
    return tracer.make<MatchValue>(method_of_class(pattern_class(), name), arguments, held);
}

template <std::size_t kMethod>
Outcome call_match(Tracer& tracer, const Arguments& arguments) {
    const char* name = kMatchMethods[kMethod];
    ConstantArguments constants;
    auto* match = arguments.positional.empty() ? nullptr : dynamic_cast<MatchValue*>(arguments.positional[0]);
    if (match == nullptr || !constants.take(tracer, without_first(arguments))) refuse(tracer, "Match", name);
    Ref<> method = checked(PyObject_GetAttrString(match->held, name));
    return result_of(tracer, constants.call(method.get()), match->arguments.positional);
}

/// `re._compile(pattern, flags)`, which all functions of `re` call: it keeps what it has compiled.
Outcome compile_pattern(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const real = imported("re", "_compile");
    static long const debug = PyLong_AsLong(imported("re", "DEBUG"));
    auto refuse_arguments = [&] {
        tracer.break_graph(BreakKind::UnknownFunction,
                           "a regular expression is compiled from arguments that are not constants");
    };
    if (arguments.positional.size() != 2 || !arguments.keywords.empty()) refuse_arguments();
    Ref<> flags = arguments.positional[1]->as_constant(tracer);
    // With the flag DEBUG it prints.
    if (!flags || !PyLong_Check(flags.get()) || (PyLong_AsLong(flags.get()) & debug) != 0) refuse_arguments();
    if (real_pattern(tracer, arguments.positional[0]) != nullptr && PyObject_IsTrue(flags.get()) == 0)
        return arguments.positional[0];
    ConstantArguments constants;
    if (!constants.take(tracer, arguments)) refuse_arguments();
    Ref<> pattern = constants.call(real);
    if (!pattern) tracer.raise_from_python();
    PyObject* kept = tracer.keep(std::move(pattern));
    Value* value = tracer.outside(tracer.provenance().pinned(kept), kept);
    // The program may hold the same pattern elsewhere: whether it is this one is checked, too.
    real_pattern(tracer, value);
    return value;
}

template <std::size_t... kMethods>
void add_pattern_methods(Handlers& handlers, std::index_sequence<kMethods...>) {
    (handlers.add_method(pattern_class(), kPatternMethods[kMethods], call_pattern<kMethods>), ...);
}

template <std::size_t... kMethods>
void add_match_methods(Handlers& handlers, std::index_sequence<kMethods...>) {
    (handlers.add_method(match_class(), kMatchMethods[kMethods], call_match<kMethods>), ...);
}

}  // namespace

void register_regular_expressions(Handlers& handlers) {
    add_pattern_methods(handlers, std::make_index_sequence<std::size(kPatternMethods)>());
    add_match_methods(handlers, std::make_index_sequence<std::size(kMatchMethods)>());
    handlers.add("re", "_compile", compile_pattern);
}

}  // namespace stator
