#include "shape/symbolic_fallback.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/imported.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "number/expressions.h"
#include "shape/fake_call.h"
#include "shape/python_symbols.h"
#include "torch/jagged.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

using graph::Result;
using torch_room::TensorMeta;

TensorMeta generalized(const PythonSymbols& symbols, PyObject* fake, TensorMeta meta, std::vector<Ref<>>& kept);

/// Attributes that are symbols.
std::vector<std::pair<Ref<>, Dim>> numbers_of(const PythonSymbols& symbols, PyObject* wrapper) {
    static PyTypeObject* const symbol = imported_class("torch", "SymInt");
    std::vector<std::pair<Ref<>, Dim>> numbers;
    PyObject *name, *held;
    PyObject* const attributes = cpython::instance_dict(wrapper);
    for (Py_ssize_t i = 0; attributes != nullptr && PyDict_Next(attributes, &i, &name, &held);)
        if (Py_TYPE(held) == symbol) numbers.emplace_back(Ref<>::share(name), symbols.dim_of_symbol(held));
    return numbers;
}

/// Finds the symbols in the context of a result. Other objects than tuples, lists and dicts are not looked into:
/// comparing them with those of this call specializes the sizes in them.
void take_context(const PythonSymbols& symbols, PyObject* wrapper, const torch_room::Prototype& here,
                  torch_room::Prototype& all) {
    static PyObject* const find = imported("stator.wrappers", "numbers_in_context");
    Ref<> found = checked(PyObject_CallOneArg(find, torch_room::context_of(wrapper).get()));
    PyObject* const numbers = PyTuple_GET_ITEM(found.get(), 1);
    Ref<> hints = checked(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); ++i) {
        all.context_numbers.push_back(symbols.dim_of_symbol(PyList_GET_ITEM(numbers, i)));
        checked(PyList_Append(hints.get(), checked(PyLong_FromLongLong(all.context_numbers.back().hint())).get()));
    }
    all.make_context = Ref<>::share(PyTuple_GET_ITEM(found.get(), 0));
    Ref<> of_this_call = checked(PyObject_CallOneArg(all.make_context.get(), hints.get()));
    if (!torch_room::flatten_alike(here.fake, wrapper, of_this_call)) throw NoSuchForm{};
    if (all.context_numbers.empty()) all.make_context = {};
}

/// The prototype of the same tensor for all sizes.
Ref<> generalized(const PythonSymbols& symbols, PyObject* wrapper, const torch_room::Prototype& here) {
    if (!torch_room::consists_of_fakes(wrapper)) throw NoSuchForm{};
    torch_room::Prototype all{here.fake};
    take_context(symbols, wrapper, here, all);
    for (const Ref<>& name : torch_room::inner_names(wrapper)) {
        Ref<> part = checked(PyObject_GetAttr(here.fake.get(), name.get()));
        TensorMeta meta = torch_room::read_fake_meta(part);
        if (!torch_room::is_fake(part)) {
            all.kept.push_back(torch_room::make_prototype({part}));
            meta.prototype = all.kept.back().get();
        }
        Ref<> symbolic = checked(PyObject_GetAttr(wrapper, name.get()));
        all.parts.emplace_back(name, generalized(symbols, symbolic.get(), std::move(meta), all.kept));
    }
    all.numbers = numbers_of(symbols, wrapper);
    all.symbolic = Ref<>::share(wrapper);
    return torch_room::make_prototype(std::move(all));
}

/// The metadata with the sizes, strides and offset that a FakeTensor has.
TensorMeta with_layout_of(const PythonSymbols& symbols, PyObject* fake, TensorMeta meta) {
    const std::vector<Dim> layout = symbols.layout_of(fake);
    // (The strides of a jagged tensor are those of its values.)
    const bool is_jagged = torch_room::is_jagged(meta);
    if (layout.size() != (is_jagged ? meta.dimensions() : 2 * meta.dimensions() + 1)) throw NoSuchForm{};
    auto next = layout.begin();
    auto replace = [&](Dim& dim) {
        // A kernel may choose other strides than FakeTensor expects.
        if (next->hint() != dim.hint()) throw NoSuchForm{};
        dim = *next++;
    };
    for (Dim& size : meta.sizes) replace(size);
    for (Dim& stride : meta.strides) replace(stride);
    if (!is_jagged) replace(meta.storage_offset);
    return meta;
}

TensorMeta generalized(const PythonSymbols& symbols, PyObject* fake, TensorMeta meta, std::vector<Ref<>>& kept) {
    if (torch_room::is_fake(fake) != (meta.prototype == nullptr)) throw NoSuchForm{};
    if (meta.prototype != nullptr) {
        kept.push_back(generalized(symbols, fake, torch_room::prototype_of(meta)));
        meta.prototype = kept.back().get();
    }
    return with_layout_of(symbols, fake, std::move(meta));
}

Result generalized(Store& store, const PythonSymbols& symbols, Result result, PyObject* object,
                   std::vector<Ref<>>& kept) {
    if (result.kind == Result::Kind::None) return result;
    if (result.kind == Result::Kind::Tensor) {
        if (!torch_room::is_tensor(object)) throw NoSuchForm{};
        result.tensor = store.intern(generalized(symbols, object, *result.tensor, kept));
        return result;
    }
    // A number among the results may depend on sizes.
    if (result.kind == Result::Kind::Constant || !(PyTuple_Check(object) || PyList_CheckExact(object)) ||
        PySequence_Fast_GET_SIZE(object) != static_cast<Py_ssize_t>(result.items.size()))
        throw NoSuchForm{};
    for (std::size_t i = 0; i < result.items.size(); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(i));
        result.items[i] = generalized(store, symbols, std::move(result.items[i]), item, kept);
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
        if (node->result.kind == Result::Kind::Tensor) torch_room::for_each_dim(*node->result.tensor, look_at);
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

Answer generalized(Store& store, const PythonSymbols& symbols, const Question& question, Answer answer,
                   std::vector<Ref<>>& kept) {
    FakeCall call(symbols.mode(), question, [&](Dim dim) { return symbols.number(dim); });
    torch_room::OperationEffects effects;
    Ref<> returned = call.run(question, &effects);
    torch_room::WithoutTorchFunctions without_torch_functions;
    answer.result = generalized(store, symbols, std::move(answer.result), returned.get(), kept);
    for (MetadataChange& change : answer.changed_metadata) {
        PyObject* changed = call.fakes()[static_cast<std::size_t>(change.argument)].get();
        change.meta = store.intern(generalized(symbols, changed, *change.meta, kept));
    }
    symbols.learn_conditions();
    return answer;
}

}  // namespace

bool generalize(Store& store, const Question& question, Answer& answer, std::vector<Ref<>>& kept) {
    Expressions* numbers = table_of(question);
    if (numbers == nullptr || answer.status != Status::Ok) return false;
    try {
        const PythonSymbols symbols(*numbers);
        answer = generalized(store, symbols, question, answer, kept);
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
