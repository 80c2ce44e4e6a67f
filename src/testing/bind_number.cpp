/// The language of numbers that change between calls, for tests.
#include <string_view>

#include "base/boundary.h"
#include "base/text.h"
#include "number/expressions.h"
#include "source/source.h"

namespace stator {

namespace {

using Op = Expression::Op;

Ref<> text(const std::string& string) {
    return checked(PyUnicode_FromStringAndSize(string.data(), static_cast<Py_ssize_t>(string.size())));
}

/// The operation of this symbol that takes so many operands.
Op op_of(std::string_view wanted, bool takes_one) {
    for (int i = 0; i <= static_cast<int>(Op::GreaterEqual); ++i) {
        auto op = static_cast<Op>(i);
        if (op > Op::Constant && wanted == symbol(op) && takes_two(op) != takes_one) return op;
    }
    PyErr_Format(PyExc_ValueError, "%s is no operation", std::string(wanted).c_str());
    throw PythonError();
}

/// An int is a constant, a str `s0` a symbol, a tuple `(operation, operand, ...)` what it computes.
class Reader {
  public:
    Reader(Expressions& numbers, std::vector<const Expression*> symbols)
        : numbers_(numbers), symbols_(std::move(symbols)) {}

    /// Null where there is no such expression.
    const Expression* read(PyObject* written) {
        if (PyLong_Check(written)) return numbers_.constant(*Number::of(written));
        if (PyUnicode_Check(written)) return symbols_.at(std::stoul(std::string(utf8(written).substr(1))));
        const Py_ssize_t count = PyTuple_GET_SIZE(written);
        const Expression* left = read(PyTuple_GET_ITEM(written, 1));
        const Expression* right = count > 2 ? read(PyTuple_GET_ITEM(written, 2)) : nullptr;
        if (left == nullptr || (count > 2 && right == nullptr)) return nullptr;
        const Expression* made = numbers_.apply(op_of(utf8(PyTuple_GET_ITEM(written, 0)), count == 2), left, right);
        return made == nullptr ? nullptr : numbers_.resolved(made);
    }

    /// What a comparison `(left, operation, right)` comes to; None where a side does not fit.
    Ref<> decide(PyObject* written) {
        const Expression* left = read(PyTuple_GET_ITEM(written, 0));
        const Expression* right = read(PyTuple_GET_ITEM(written, 2));
        if (left == nullptr || right == nullptr) return Ref<>::share(Py_None);
        const bool holds = numbers_.decide(op_of(utf8(PyTuple_GET_ITEM(written, 1)), false), left, right);
        return Ref<>::share(holds ? Py_True : Py_False);
    }

  private:
    Expressions& numbers_;
    std::vector<const Expression*> symbols_;
};

/// (hints, comparisons, expressions): the outcomes of the comparisons, the relations that they left, and the
/// expressions afterwards, as Python writes them.
PyObject* number_facts(PyObject*, PyObject* arguments) {
    PyObject *hints, *comparisons, *expressions;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyList_Type, &hints, &PyList_Type, &comparisons, &PyList_Type,
                          &expressions))
        return nullptr;
    return at_boundary([&] {
        Arena arena;
        Expressions numbers(arena);
        std::vector<const Expression*> symbols;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(hints); ++i)
            symbols.push_back(numbers.variable(arena.make<Source>(), *Number::of(PyList_GET_ITEM(hints, i)),
                                               Range{2, Range::kNoMost}));
        Reader reader(numbers, std::move(symbols));
        Ref<> outcomes = checked(PyList_New(0)), relations = checked(PyList_New(0)), texts = checked(PyList_New(0));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(comparisons); ++i)
            checked(PyList_Append(outcomes.get(), reader.decide(PyList_GET_ITEM(comparisons, i)).get()));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(expressions); ++i) {
            const Expression* read = reader.read(PyList_GET_ITEM(expressions, i));
            Ref<> written = read == nullptr ? Ref<>::share(Py_None) : text(print_by_symbols(*read));
            checked(PyList_Append(texts.get(), written.get()));
        }
        for (const Expression* relation : numbers.relations())
            checked(PyList_Append(relations.get(), text(print_by_symbols(*relation)).get()));
        return checked(Py_BuildValue("(OOO)", outcomes.get(), relations.get(), texts.get()));
    });
}

PyMethodDef kMethods[] = {{"number_facts", number_facts, METH_VARARGS,
                           "number_facts(hints, comparisons, expressions): (outcomes, relations, texts)."},
                          {}};

}  // namespace

bool bind_number(PyObject* module) {
    return PyModule_AddFunctions(module, kMethods) == 0;
}

}  // namespace stator
