#include "graph/symbol_cell.h"

#include <string>

#include "base/check.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "number/nested_int.h"
#include "source/source.h"
#include "torch/fake.h"

namespace stator::graph {

namespace {

using Op = Expression::Op;

Ref<> text(const std::string& text) {
    return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

Ref<> none_or(bool is_none, std::int64_t number) {
    return is_none ? Ref<>::share(Py_None) : checked(PyLong_FromLongLong(number));
}

Ref<> none_or(std::optional<std::int64_t> number) {
    return none_or(!number, number.value_or(0));
}

/// A tuple, as `stator.symbols.KnownUnbacked` takes it.
Ref<> describe(const KnownUnbacked& input) {
    return checked(Py_BuildValue("(NNNNN)", text(print_by_symbols(*input.number)).release(),
                                 text(input.source == nullptr ? "" : path(*input.source)).release(),
                                 none_or(input.range.least == Range::kNoLeast, input.range.least).release(),
                                 none_or(input.range.most == Range::kNoMost, input.range.most).release(),
                                 none_or(input.hint_override).release()));
}

/// A tuple, as `stator.symbols.Symbol` takes it.
Ref<> describe(const KnownSymbol& symbol) {
    const Expression& variable = *symbol.variable;
    const bool is_size = variable.source->access == Access::Size || variable.source->access == Access::Stride;
    Ref<> equal = symbol.resolved == &variable ? Ref<>::share(Py_None) : text(print_by_symbols(*symbol.resolved));
    return checked(Py_BuildValue(
        "(NNNNNOOON)", text(print_by_symbols(variable)).release(), text(path(*variable.source)).release(),
        variable.hint.object().release(), none_or(symbol.range.least == Range::kNoLeast, symbol.range.least).release(),
        none_or(symbol.range.most == Range::kNoMost, symbol.range.most).release(), equal.get(),
        is_size ? Py_True : Py_False, symbol.is_marked ? Py_True : Py_False, none_or(symbol.hint_override).release()));
}

/// Whether Python computes the condition from ints. (The backend does not see floats as numbers.)
bool is_about_ints(const Expression& condition) {
    if (condition.is_float || condition.op == Op::Fits || condition.op == Op::Same || condition.op == Op::Not)
        return false;
    return (condition.left == nullptr || is_about_ints(*condition.left)) &&
           (condition.right == nullptr || is_about_ints(*condition.right));
}

Ref<> make_example(PyObject* cell, const torch_room::TensorMeta& meta) {
    Ref<> mode = checked(PyObject_CallMethodNoArgs(cell, interned("get")));
    auto number_of = [cell](Dim dim) {
        return dim.is_constant() ? make_constant(cell, dim) : make_number(cell, *dim.expression());
    };
    if ((meta.dispatch_keys & torch_room::trait::kFunctorch) == 0)
        return torch_room::make_fake(mode.get(), meta, number_of);
    // What a function transform has wrapped looks like a plain tensor.
    torch_room::TensorMeta plain = meta;
    plain.dispatch_keys &= ~torch_room::trait::kFunctorch;
    return torch_room::make_fake(mode.get(), plain, number_of);
}

Op operation_called(std::string_view word) {
    for (int op = static_cast<int>(Op::Add); op <= static_cast<int>(Op::Not); ++op)
        if (word == symbol(static_cast<Op>(op))) return static_cast<Op>(op);
    STATOR_CHECK(false, "an unknown operation in a condition of the backend");
}

}  // namespace

void describe_symbols(Borrowed<> cell, std::span<const KnownSymbol> symbols,
                      std::span<const Expression* const> relations, std::span<const KnownUnbacked> unbacked) {
    if (symbols.empty() && unbacked.empty()) return;
    Ref<> described = checked(PyList_New(0)), conditions = checked(PyList_New(0)), inputs = checked(PyList_New(0));
    for (const KnownSymbol& symbol : symbols) checked(PyList_Append(described.get(), describe(symbol).get()));
    for (const Expression* relation : relations)
        if (is_about_ints(*relation)) checked(PyList_Append(conditions.get(), text(print_by_symbols(*relation)).get()));
    for (const KnownUnbacked& input : unbacked) checked(PyList_Append(inputs.get(), describe(input).get()));
    checked(PyObject_CallMethod(cell.get(), "describe", "OOO", described.get(), conditions.get(), inputs.get()));
}

ExampleMaker examples_of(Borrowed<> cell) {
    return {make_example, make_number, Ref<>::share(cell.get())};
}

Ref<> make_number(PyObject* cell, const Expression& number) {
    return checked(PyObject_CallMethod(cell, "number", "N", text(print_by_symbols(number)).release()));
}

Ref<> make_constant(PyObject* cell, Dim constant) {
    Ref<> number = checked(PyLong_FromLongLong(constant.value()));
    if (!nested_int::is(constant)) return number;
    return checked(PyObject_CallMethodOneArg(cell, interned("nested_int"), number.get()));
}

Term term_of(PyObject* item) {
    Term term{};
    if (auto number = Number::of(item)) {
        term.op = Op::Constant;
        term.is_float = number->is_float();
        term.constant = *number;
        return term;
    }
    std::string_view word = utf8(item);
    if (word.size() > 1 && (word[0] == 's' || word[0] == 'u') && word[1] >= '0' && word[1] <= '9') {
        term.op = word[0] == 's' ? Op::Source : Op::Unbacked;
        term.symbol = static_cast<std::uint32_t>(std::stoul(std::string(word.substr(1))));
    } else {
        term.op = operation_called(word);
    }
    return term;
}

}  // namespace stator::graph
