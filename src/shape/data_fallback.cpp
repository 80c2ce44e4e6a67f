#include "shape/data_fallback.h"

#include <algorithm>

#include "base/python_error.h"
#include "shape/fake_call.h"
#include "shape/may_fail.h"
#include "shape/python_symbols.h"
#include "shape/result_reader.h"
#include "torch/tensor.h"

namespace stator::shape {

namespace {

using graph::Result;
using torch_room::TensorMeta;

bool is_true(PyObject* object, const char* attribute) {
    return checked(PyObject_GetAttrString(object, attribute)).get() == Py_True;
}

class Reader : public ResultReader {
  public:
    Reader(Store& store, const PythonSymbols& symbols, const std::vector<Ref<>>& arguments)
        : store_(store), symbols_(symbols), arguments_(arguments) {}

  private:
    Result read_tensor(PyObject* object, int& /*base*/) override {
        const void* storage = torch_room::storage_identity(object);
        const bool is_view = std::ranges::any_of(
            arguments_, [&](const Ref<>& one) { return torch_room::storage_identity(one.get()) == storage; });
        if (is_view || !torch_room::is_fake(object)) throw NoSuchForm{};
        TensorMeta meta = torch_room::read_fake_meta(symbols_.static_copy(object).get());
        if (meta.layout != torch_room::Layout{}) throw NoSuchForm{};
        meta.requires_grad = is_true(object, "requires_grad");
        meta.is_leaf = is_true(object, "is_leaf");
        const std::vector<Dim> layout = symbols_.layout_of(object);
        const std::size_t dimensions = meta.dimensions();
        for (std::size_t i = 0; i < dimensions; ++i) {
            meta.sizes[i] = layout[i];
            meta.strides[i] = layout[dimensions + i];
        }
        meta.storage_offset = layout.back();
        Result result;
        result.kind = Result::Kind::Tensor;
        result.tensor = store_.intern(meta);
        return result;
    }

    Result read_constant(PyObject* /*object*/) override { throw NoSuchForm{}; }

    Store& store_;
    const PythonSymbols& symbols_;
    const std::vector<Ref<>>& arguments_;
};

}  // namespace

std::optional<Answer> answer_for_data(Store& store, const Question& question) {
    if (question.data_sizes == nullptr || !is_custom(question)) return std::nullopt;
    try {
        const PythonSymbols symbols(question.data_sizes->numbers);
        FakeCall call(symbols.mode(), question, [&](Dim dim) { return symbols.number(dim); });
        if (call.has_wrapper()) return std::nullopt;
        torch_room::OperationEffects effects;
        Ref<> returned = call.run(question, &effects);
        if (!effects.written.empty()) return std::nullopt;
        Answer answer;
        answer.random = effects.random;
        answer.side_effect = effects.side_effect;
        answer.result = Reader(store, symbols, call.fakes()).read_returned(returned.get(), answer);
        symbols.learn_conditions();
        symbols.require_assertions();
        return answer;
    } catch (const PythonError&) {
        PyErr_Clear();
    } catch (const GaveUp&) {
    } catch (const NoSuchForm&) {
    }
    return std::nullopt;
}

}  // namespace stator::shape
