#include "shape/symbolic_fallback.h"

#include <optional>
#include <span>
#include <vector>

#include "base/python_error.h"
#include "number/expressions.h"
#include "shape/fake_call.h"
#include "shape/python_symbols.h"

namespace stator::shape {

namespace {

using graph::Result;
using torch_room::TensorMeta;

/// The metadata with the sizes, strides and offset that a FakeTensor has.
TensorMeta with_layout_of(const PythonSymbols& symbols, PyObject* fake, TensorMeta meta) {
    const std::vector<Dim> layout = symbols.layout_of(fake);
    if (layout.size() != 2 * meta.dimensions() + 1) throw NoSuchForm{};
    auto next = layout.begin();
    auto replace = [&](Dim& dim) {
        // A kernel may choose other strides than FakeTensor expects.
        if (next->hint() != dim.hint()) throw NoSuchForm{};
        dim = *next++;
    };
    for (Dim& size : meta.sizes) replace(size);
    for (Dim& stride : meta.strides) replace(stride);
    replace(meta.storage_offset);
    return meta;
}

Result generalized(Store& store, const PythonSymbols& symbols, Result result, PyObject* object) {
    if (result.kind == Result::Kind::None) return result;
    if (result.kind == Result::Kind::Tensor) {
        // (The prototype of a wrapper has the sizes of this call.)
        if (!torch_room::is_fake(object)) throw NoSuchForm{};
        result.tensor = store.intern(with_layout_of(symbols, object, *result.tensor));
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

Answer generalized(Store& store, const PythonSymbols& symbols, const Question& question, Answer answer) {
    FakeCall call(symbols.mode(), question, [&](Dim dim) { return symbols.number(dim); });
    torch_room::OperationEffects effects;
    Ref<> returned = call.run(question, &effects);
    answer.result = generalized(store, symbols, std::move(answer.result), returned.get());
    for (MetadataChange& change : answer.changed_metadata) {
        PyObject* changed = call.fakes()[static_cast<std::size_t>(change.argument)].get();
        if (!torch_room::is_fake(changed)) throw NoSuchForm{};
        change.meta = store.intern(with_layout_of(symbols, changed, *change.meta));
    }
    symbols.learn_conditions();
    return answer;
}

}  // namespace

bool generalize(Store& store, const Question& question, Answer& answer) {
    Expressions* numbers = table_of(question);
    if (numbers == nullptr || answer.status != Status::Ok) return false;
    try {
        const PythonSymbols symbols(*numbers);
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
        const PythonSymbols symbols(numbers);
        Ref<> answer = checked(PyObject_CallOneArg(function.get(), symbols.number(Dim::of(number)).get()));
        if (PyObject_IsTrue(answer.get()) < 0) throw PythonError();
        symbols.learn_conditions();
    } catch (const NoSuchForm&) {
        numbers.specialize(number);
    }
}

}  // namespace stator::shape
