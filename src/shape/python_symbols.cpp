#include "shape/python_symbols.h"

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "graph/symbol_cell.h"
#include "number/conditions.h"

namespace stator::shape {

namespace {

using Op = Expression::Op;

const Expression* take_last(std::vector<const Expression*>& stack) {
    const Expression* last = stack.back();
    stack.pop_back();
    return last;
}

std::vector<Term> terms_of(PyObject* list) {
    std::vector<Term> terms;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) terms.push_back(graph::term_of(PyList_GET_ITEM(list, i)));
    return terms;
}

}  // namespace

PythonSymbols::PythonSymbols(Expressions& numbers) : numbers_(numbers) {
    cell_ = checked(PyObject_CallNoArgs(imported("stator.fake", "ModeCell")));
    std::vector<graph::KnownSymbol> symbols;
    for (const Expression* variable : numbers.variables()) {
        graph::KnownSymbol symbol{variable, numbers.resolved(variable), {}};
        if (!variable->is_float) symbol.range = numbers.range_of(variable);
        symbols.push_back(symbol);
    }
    std::vector<graph::KnownUnbacked> unbacked;
    for (const Expression* number : numbers.unbacked_numbers())
        if (!number->is_float) unbacked.push_back({number, nullptr, numbers.range_of(number)});
    graph::describe_symbols(cell_.get(), symbols, numbers.relations(), unbacked);
    checked(PyObject_CallMethod(cell_.get(), "begin_unbacked_at", "n",
                                static_cast<Py_ssize_t>(numbers.unbacked_numbers().size())));
    mode_ = checked(PyObject_CallMethodNoArgs(cell_.get(), interned("get")));
}

Ref<> PythonSymbols::number(Dim dim) const {
    if (dim.is_constant()) return graph::make_constant(cell_.get(), dim);
    return graph::make_number(cell_.get(), *numbers_.resolved(dim.expression()));
}

std::vector<Dim> PythonSymbols::layout_of(PyObject* fake) const {
    Ref<> layout = checked(PyObject_CallMethodOneArg(cell_.get(), interned("layout_of"), fake));
    std::vector<Dim> dims;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(layout.get()); ++i)
        dims.push_back(dim_of(PyList_GET_ITEM(layout.get(), i)));
    return dims;
}

Dim PythonSymbols::dim_of_symbol(PyObject* number) const {
    return dim_of(checked(PyObject_CallMethodOneArg(cell_.get(), interned("terms_of"), number)).get());
}

Ref<> PythonSymbols::static_copy(PyObject* fake) const {
    return checked(PyObject_CallMethodOneArg(cell_.get(), interned("static_copy"), fake));
}

void PythonSymbols::learn_conditions() const {
    Ref<> conditions = checked(PyObject_CallMethodNoArgs(cell_.get(), interned("conditions")));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions.get()); ++i)
        if (learn(terms_of(PyList_GET_ITEM(conditions.get(), i))) != numbers_.constant(1)) throw NoSuchForm{};
}

void PythonSymbols::require_assertions() const {
    Ref<> assertions = checked(PyObject_CallMethodNoArgs(cell_.get(), interned("assertions")));
    if (assertions.get() == Py_None) throw NoSuchForm{};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(assertions.get()); ++i) {
        const std::vector<Term> terms = terms_of(PyList_GET_ITEM(assertions.get(), i));
        const Expression* holds = expression(terms, [&](Op op, const Expression* left, const Expression* right) {
            if (!is_comparison(op)) return numbers_.apply(op, left, right);
            return numbers_.constant(numbers_.require(op, left, right) ? 1 : 0);
        });
        if (holds != numbers_.constant(1)) throw NoSuchForm{};
    }
}

Dim PythonSymbols::dim_of(PyObject* number) const {
    if (PyLong_Check(number)) return PyLong_AsLongLong(number);
    return Dim::of(expression(terms_of(number), [&](Op op, const Expression* left, const Expression* right) {
        return numbers_.apply(op, left, right);
    }));
}

/// Each comparison is decided by the numbers of this call, and comes to 0 or 1.
const Expression* PythonSymbols::learn(std::span<const Term> condition) const {
    return expression(condition, [&](Op op, const Expression* left, const Expression* right) {
        if (op == Op::Same) return numbers_.constant(numbers_.specialize(left) == numbers_.specialize(right));
        if (!is_comparison(op)) return numbers_.apply(op, left, right);
        return numbers_.constant(numbers_.decide(op, left, right));
    });
}

/// One that PyTorch has made is a new number. Nobody checks what bounds the operation gives it, so that it has none.
const Expression* PythonSymbols::unbacked(std::size_t number) const {
    while (numbers_.unbacked_numbers().size() <= number) numbers_.unbacked(/*is_float=*/false, {0, Range::kNoMost});
    return numbers_.unbacked_numbers()[number];
}

template <class Apply>
const Expression* PythonSymbols::expression(std::span<const Term> terms, const Apply& apply) const {
    std::vector<const Expression*> stack;
    for (const Term& term : terms) {
        const Expression* made = nullptr;
        if (term.op == Op::Constant && !term.is_float) {
            made = numbers_.constant(term.constant);
        } else if (term.op == Op::Source) {
            made = numbers_.variables().at(term.symbol);
        } else if (term.op == Op::Unbacked) {
            made = unbacked(term.symbol);
        } else if (stack.size() >= (takes_two(term.op) ? 2 : 1)) {
            const Expression* right = takes_two(term.op) ? take_last(stack) : nullptr;
            made = apply(term.op, take_last(stack), right);
        }
        if (made == nullptr) throw NoSuchForm{};
        stack.push_back(made);
    }
    if (stack.size() != 1) throw NoSuchForm{};
    return stack.front();
}

}  // namespace stator::shape
