#include "value/value.h"

#include <array>
#include <span>
#include <string>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "value/protocol/attributes.h"
#include "value/tracer.h"

namespace stator {

Value* Arguments::keyword(const char* name) const {
    for (const Keyword& keyword : keywords)
        if (PyUnicode_CompareWithASCIIString(keyword.name, name) == 0) return keyword.value;
    return nullptr;
}

Arguments Arguments::after(Value* first) const {
    Arguments longer;
    longer.positional.reserve(positional.size() + 1);
    longer.positional.push_back(first);
    longer.positional.insert(longer.positional.end(), positional.begin(), positional.end());
    longer.keywords = keywords;
    return longer;
}

// --- the defaults of a kind ----------------------------
// ---------------------------------------------------------------

namespace {

[[noreturn]] void raise_type_error(Tracer& tracer, const Value* value, const std::string& text) {
    tracer.raise(PyExc_TypeError, "'" + std::string(value->type()->tp_name) + "' object " + text);
}

/// Breaks if the class has the special method from C: Stator does not know what that method does.
void refuse_if_from_c(Tracer& tracer, const Value* value, const char* method) {
    PyObject* found = cpython::lookup_in_mro(value->type(), interned(method), nullptr);
    if (found != nullptr && (Py_TYPE(found) == &PyWrapperDescr_Type || Py_TYPE(found) == &PyMethodDescr_Type))
        tracer.break_graph(BreakKind::UnknownObject,
                           std::string(method) + " of the C class " + type_name(value->type()) + " is called");
}

}  // namespace

void Value::realize(Tracer& tracer) {
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(type())});
}

Ref<> Value::as_constant(Tracer&) {
    return {};
}

Outcome Value::get_attribute(Tracer& tracer, Borrowed<> name) {
    return generic_get_attribute(tracer, this, name);
}

Value* Value::own_attribute(Tracer&, Borrowed<>) {
    return nullptr;
}

void Value::set_own_attribute(Tracer& tracer, Borrowed<> name, Value*) {
    refuse_attribute(tracer, this, name, /*is_deleted=*/false);
}

bool Value::delete_own_attribute(Tracer&, Borrowed<>) {
    return false;
}

bool Value::set_kept_attribute(Tracer&, Borrowed<>, Value*) {
    return false;
}

Outcome Value::call(Tracer& tracer, const Arguments&) {
    raise_type_error(tracer, this, "is not callable");
}

Outcome Value::get_item(Tracer& tracer, Value*) {
    refuse_if_from_c(tracer, this, "__getitem__");
    raise_type_error(tracer, this, "is not subscriptable");
}

void Value::set_item(Tracer& tracer, Value*, Value*) {
    refuse_if_from_c(tracer, this, "__setitem__");
    raise_type_error(tracer, this, "does not support item assignment");
}

Outcome Value::assign_item(Tracer& tracer, Value* key, Value* value) {
    set_item(tracer, key, value);
    return tracer.none();
}

void Value::delete_item(Tracer& tracer, Value*) {
    refuse_if_from_c(tracer, this, "__delitem__");
    raise_type_error(tracer, this, "doesn't support item deletion");
}

Outcome Value::contains(Tracer& tracer, Value*) {
    refuse_if_from_c(tracer, this, "__contains__");
    refuse_if_from_c(tracer, this, "__iter__");
    tracer.raise(PyExc_TypeError, "argument of type '" + std::string(type()->tp_name) + "' is not iterable");
}

std::ptrdiff_t Value::length(Tracer& tracer) {
    refuse_if_from_c(tracer, this, "__len__");
    return -1;
}

bool Value::truth(Tracer&) {
    return true;
}

Outcome Value::iterate(Tracer& tracer) {
    refuse_if_from_c(tracer, this, "__iter__");
    raise_type_error(tracer, this, "is not iterable");
}

Outcome Value::next(Tracer& tracer) {
    refuse_if_from_c(tracer, this, "__next__");
    raise_type_error(tracer, this, "is not an iterator");
}

Value* Value::binary(Tracer& tracer, BinaryOperator op, Value*, bool reflected) {
    refuse_if_from_c(tracer, this, method_name(op, reflected));
    return nullptr;
}

Value* Value::in_place(Tracer&, BinaryOperator, Value*) {
    return nullptr;
}

Value* Value::unary(Tracer& tracer, UnaryOperator op) {
    refuse_if_from_c(tracer, this, method_name(op));
    return nullptr;
}

Outcome Value::compare(Tracer&, Comparison, Value*) {
    return nullptr;
}

Py_hash_t Value::hash(Tracer& tracer) {
    if (type()->tp_hash != nullptr && type()->tp_hash != PyObject_HashNotImplemented)
        tracer.break_graph(BreakKind::UnknownObject, "hash() of an object of type " + type_name(type()) + "");
    tracer.raise(PyExc_TypeError, "unhashable type: '" + std::string(type()->tp_name) + "'");
}

graph::Argument Value::as_argument(Tracer& tracer) {
    tracer.break_graph(BreakKind::UnknownObject,
                       "an object of type " + type_name(type()) + " is an argument of a tensor operation");
}

int Value::rebuild(PlanBuilder&) {
    throw Break{BreakKind::Rebuild, "an object of type " + type_name(type()) +
                                        " is still used after the captured region and can't be rebuilt"};
}

// --- names of operators
// ------------------------------------------------------------------------------------------------

namespace {

struct BinaryNames {
    const char* method;
    const char* reflected;
    const char* in_place;
    const char* symbol;
    const char* function;           // in module operator
    const char* in_place_function;  // likewise
};

constexpr BinaryNames kBinary[] = {
    {"__add__", "__radd__", "__iadd__", "+", "add", "iadd"},
    {"__and__", "__rand__", "__iand__", "&", "and_", "iand"},
    {"__floordiv__", "__rfloordiv__", "__ifloordiv__", "//", "floordiv", "ifloordiv"},
    {"__lshift__", "__rlshift__", "__ilshift__", "<<", "lshift", "ilshift"},
    {"__matmul__", "__rmatmul__", "__imatmul__", "@", "matmul", "imatmul"},
    {"__mul__", "__rmul__", "__imul__", "*", "mul", "imul"},
    {"__mod__", "__rmod__", "__imod__", "%", "mod", "imod"},
    {"__or__", "__ror__", "__ior__", "|", "or_", "ior"},
    {"__pow__", "__rpow__", "__ipow__", "**", "pow", "ipow"},
    {"__rshift__", "__rrshift__", "__irshift__", ">>", "rshift", "irshift"},
    {"__sub__", "__rsub__", "__isub__", "-", "sub", "isub"},
    {"__truediv__", "__rtruediv__", "__itruediv__", "/", "truediv", "itruediv"},
    {"__xor__", "__rxor__", "__ixor__", "^", "xor", "ixor"},
};
constexpr const char* kInPlaceSymbols[] = {
    "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^="};

struct SimpleNames {
    const char* method;
    const char* function;
    const char* symbol;
};
constexpr SimpleNames kUnary[] = {{"__neg__", "neg", "-"}, {"__pos__", "pos", "+"}, {"__invert__", "invert", "~"}};
constexpr SimpleNames kComparison[] = {{"__lt__", "lt", "<"},  {"__le__", "le", "<="}, {"__eq__", "eq", "=="},
                                       {"__ne__", "ne", "!="}, {"__gt__", "gt", ">"},  {"__ge__", "ge", ">="}};

/// One cached function for each enumerator.
PyObject* cached(std::span<PyObject*> cache, std::size_t index, const char* name) {
    if (cache[index] == nullptr) cache[index] = imported("_operator", name);
    return cache[index];
}

}  // namespace

const char* method_name(BinaryOperator op, bool reflected) {
    const BinaryNames& names = kBinary[static_cast<int>(op)];
    return reflected ? names.reflected : names.method;
}

const char* in_place_method_name(BinaryOperator op) {
    return kBinary[static_cast<int>(op)].in_place;
}

const char* symbol(BinaryOperator op, bool in_place) {
    return in_place ? kInPlaceSymbols[static_cast<int>(op)] : kBinary[static_cast<int>(op)].symbol;
}

const char* method_name(UnaryOperator op) {
    return kUnary[static_cast<int>(op)].method;
}

const char* method_name(Comparison op) {
    return kComparison[static_cast<int>(op)].method;
}

const char* symbol(Comparison op) {
    return kComparison[static_cast<int>(op)].symbol;
}

PyObject* operator_function(BinaryOperator op, bool in_place) {
    static std::array<PyObject*, std::size(kBinary)> plain{}, in_places{};
    const BinaryNames& names = kBinary[static_cast<int>(op)];
    return in_place ? cached(in_places, static_cast<int>(op), names.in_place_function)
                    : cached(plain, static_cast<int>(op), names.function);
}

PyObject* operator_function(UnaryOperator op) {
    static std::array<PyObject*, std::size(kUnary)> functions{};
    return cached(functions, static_cast<int>(op), kUnary[static_cast<int>(op)].function);
}

PyObject* operator_function(Comparison op) {
    static std::array<PyObject*, std::size(kComparison)> functions{};
    return cached(functions, static_cast<int>(op), kComparison[static_cast<int>(op)].function);
}
PyObject* getitem_function() {
    static std::array<PyObject*, 1> function{};
    return cached(function, 0, "getitem");
}
PyObject* setitem_function() {
    static std::array<PyObject*, 1> function{};
    return cached(function, 0, "setitem");
}

}  // namespace stator
