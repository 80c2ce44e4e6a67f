#include "shape/symbolic_fallback.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "graph/symbol_cell.h"
#include "number/expressions.h"
#include "shape/fake_call.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

using graph::Result;
using torch_room::TensorMeta;
using Op = Expression::Op;

/// What FakeTensor says has no form in the engine.
struct NoSuchForm {};

const Expression* take_last(std::vector<const Expression*>& stack) {
    const Expression* last = stack.back();
    stack.pop_back();
    return last;
}

/// The numbers of a trace, and the cell that stands for them in Python.
class Symbols {
  public:
    explicit Symbols(Expressions& numbers) : numbers_(numbers) {
        cell_ = checked(PyObject_CallNoArgs(imported("stator.fake", "ModeCell")));
        std::vector<graph::KnownSymbol> symbols;
        for (const Expression* variable : numbers.variables()) {
            graph::KnownSymbol symbol{variable, numbers.resolved(variable), {}};
            if (!variable->is_float) symbol.range = numbers.range_of(variable);
            symbols.push_back(symbol);
        }
        graph::describe_symbols(cell_.get(), symbols, numbers.relations());
        mode_ = checked(PyObject_CallMethodNoArgs(cell_.get(), interned("get")));
    }

    Borrowed<> mode() const { return mode_.get(); }

    Ref<> number(Dim dim) const {
        return dim.is_constant() ? checked(PyLong_FromLongLong(dim.value()))
                                 : graph::make_number(cell_.get(), *dim.expression());
    }

    /// The metadata with the sizes, strides and offset that a FakeTensor has.
    TensorMeta with_layout_of(PyObject* fake, TensorMeta meta) const {
        Ref<> layout = checked(PyObject_CallMethodOneArg(cell_.get(), interned("layout_of"), fake));
        if (PyList_GET_SIZE(layout.get()) != static_cast<Py_ssize_t>(2 * meta.dimensions() + 1)) throw NoSuchForm{};
        Py_ssize_t next = 0;
        auto replace = [&](Dim& dim) {
            const Dim symbolic = dim_of(PyList_GET_ITEM(layout.get(), next++));
            // A kernel may choose other strides than FakeTensor expects.
            if (symbolic.hint() != dim.hint()) throw NoSuchForm{};
            dim = symbolic;
        };
        for (Dim& size : meta.sizes) replace(size);
        for (Dim& stride : meta.strides) replace(stride);
        replace(meta.storage_offset);
        return meta;
    }

    /// What PyTorch compared becomes relations.
    void learn_conditions() {
        Ref<> conditions = checked(PyObject_CallMethodNoArgs(cell_.get(), interned("conditions")));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(conditions.get()); ++i)
            if (learn(terms_of(PyList_GET_ITEM(conditions.get(), i))) != numbers_.constant(1)) throw NoSuchForm{};
    }

  private:
    static std::vector<Term> terms_of(PyObject* list) {
        std::vector<Term> terms;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
            terms.push_back(graph::term_of(PyList_GET_ITEM(list, i)));
        return terms;
    }

    Dim dim_of(PyObject* number) const {
        if (PyLong_Check(number)) return PyLong_AsLongLong(number);
        return Dim::of(expression(terms_of(number), [&](Op op, const Expression* left, const Expression* right) {
            return numbers_.apply(op, left, right);
        }));
    }

    /// Each comparison is decided by the numbers of this call, and comes to 0 or 1.
    const Expression* learn(std::span<const Term> condition) {
        return expression(condition, [&](Op op, const Expression* left, const Expression* right) {
            if (op == Op::Same) return numbers_.constant(numbers_.specialize(left) == numbers_.specialize(right));
            if (op < Op::Less || op > Op::GreaterEqual) return numbers_.apply(op, left, right);
            return numbers_.constant(numbers_.decide(op, left, right));
        });
    }

    template <class Apply>
    const Expression* expression(std::span<const Term> terms, const Apply& apply) const {
        std::vector<const Expression*> stack;
        for (const Term& term : terms) {
            const Expression* made = nullptr;
            if (term.op == Op::Constant && !term.is_float) {
                made = numbers_.constant(term.constant);
            } else if (term.op == Op::Source) {
                made = numbers_.variables().at(term.symbol);
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

    Expressions& numbers_;
    Ref<> cell_;
    Ref<> mode_;
};

Result generalized(Store& store, const Symbols& symbols, Result result, PyObject* object) {
    if (result.kind == Result::Kind::None) return result;
    if (result.kind == Result::Kind::Tensor) {
        if (!torch_room::is_fake(object)) throw NoSuchForm{};
        result.tensor = store.intern(symbols.with_layout_of(object, *result.tensor));
        return result;
    }
    // A number among the results may depend on sizes.
    if (result.kind == Result::Kind::Constant || !(PyTuple_Check(object) || PyList_CheckExact(object)) ||
        PySequence_Fast_GET_SIZE(object) != static_cast<Py_ssize_t>(result.items.size()))
        throw NoSuchForm{};
    for (std::size_t i = 0; i < result.items.size(); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i));
        result.items[i] = generalized(store, symbols, std::move(result.items[i]), item);
    }
    return result;
}

/// The table of the first number that changes, among the sizes of tensors and the numbers.
Expressions* table_of(const graph::Argument& argument) {
    Expressions* table = nullptr;
    auto look_at = [&](Dim dim) {
        if (!dim.is_constant()) table = dim.expression()->table;
    };
    graph::for_each_node(argument, [&](const graph::Node* node) {
        if (node->result.expression != nullptr) look_at(Dim::of(node->result.expression));
        if (node->result.kind != Result::Kind::Tensor) return;
        for (Dim size : node->result.tensor->sizes) look_at(size);
        for (Dim stride : node->result.tensor->strides) look_at(stride);
        look_at(node->result.tensor->storage_offset);
    });
    return table;
}

Expressions* table_of(const Question& question) {
    Expressions* table = nullptr;
    for (const graph::Argument& argument : question.arguments)
        if (table == nullptr) table = table_of(argument);
    for (const graph::KeywordArgument& keyword : question.keywords)
        if (table == nullptr) table = table_of(keyword.value);
    return table;
}

Answer generalized(Store& store, Symbols& symbols, const Question& question, Answer answer) {
    FakeCall call(symbols.mode(), question, [&](Dim dim) { return symbols.number(dim); });
    torch_room::OperationEffects effects;
    Ref<> returned = call.run(question, &effects);
    answer.result = generalized(store, symbols, std::move(answer.result), returned.get());
    for (MetadataChange& change : answer.changed_metadata) {
        PyObject* changed = call.fakes()[static_cast<std::size_t>(change.argument)].get();
        change.meta = store.intern(symbols.with_layout_of(changed, *change.meta));
    }
    symbols.learn_conditions();
    return answer;
}

}  // namespace

namespace {

/// A prototype has the sizes of this call.
bool has_wrapper(const Question& question) {
    const TensorArguments tensors(question);
    return std::ranges::any_of(tensors.nodes(), [](const graph::Node* node) {
        return torch_room::prototype_of(*node->result.tensor) != nullptr;
    });
}

}  // namespace

bool generalize(Store& store, const Question& question, Answer& answer) {
    Expressions* numbers = table_of(question);
    if (numbers == nullptr || answer.status != Status::Ok || has_wrapper(question)) return false;
    try {
        Symbols symbols(*numbers);
        answer = generalized(store, symbols, question, answer);
        return true;
    } catch (const PythonError&) {
        PyErr_Clear();
    } catch (const GaveUp&) {
    } catch (const NoSuchForm&) {
    }
    return false;
}

void decide(Expressions& numbers, const Expression* number, Borrowed<> function) {
    try {
        Symbols symbols(numbers);
        Ref<> answer = checked(PyObject_CallOneArg(function.get(), symbols.number(Dim::of(number)).get()));
        if (PyObject_IsTrue(answer.get()) < 0) throw PythonError();
        symbols.learn_conditions();
    } catch (const NoSuchForm&) {
        numbers.specialize(number);
    }
}

}  // namespace stator::shape
