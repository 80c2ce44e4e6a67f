#include "shape/data_fallback.h"

#include <algorithm>

#include "base/imported.h"
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

/// `torch.ops.aten.mul` and its overloads, as long as their results share no memory with their arguments, whatever the
/// sizes are: what shares memory (`reshape`) is not seen in FakeTensors of unknown sizes.
bool makes_new_tensors(const Question& question) {
    static PyObject* const tell = imported("stator.operators", "makes_new_tensors");
    if (question.kind != graph::NodeKind::Function) return false;
    Ref<> answer = Ref<>::steal(PyObject_CallOneArg(tell, question.target.get()));
    PyErr_Clear();
    return answer.get() == Py_True;
}

/// Notes the arguments that the operation writes to. It must leave their sizes as they were.
void note_writes(const PythonSymbols& symbols, const FakeCall& call, const std::vector<std::vector<Dim>>& before,
                 const torch_room::OperationEffects& effects, Answer& answer) {
    for (std::size_t i = 0; i < call.fakes().size(); ++i) {
        PyObject* const fake = call.fakes()[i].get();
        if (std::ranges::find(effects.written, torch_room::storage_identity(fake)) == effects.written.end()) continue;
        if (symbols.layout_of(fake) != before[i]) throw NoSuchForm{};
        answer.written.push_back(static_cast<int>(i));
    }
}

}  // namespace

std::optional<Answer> answer_for_data(Store& store, const Question& question) {
    if (question.data_sizes == nullptr) return std::nullopt;
    if (!is_custom(question) && !makes_new_tensors(question)) return std::nullopt;
    try {
        const PythonSymbols symbols(question.data_sizes->numbers);
        FakeCall call(symbols.mode(), question, [&](Dim dim) { return symbols.number(dim); });
        if (call.has_wrapper()) return std::nullopt;
        std::vector<std::vector<Dim>> before;
        for (const Ref<>& fake : call.fakes()) before.push_back(symbols.layout_of(fake.get()));
        torch_room::OperationEffects effects;
        Ref<> returned = call.run(question, &effects);
        Answer answer;
        answer.may_fail = true;
        note_writes(symbols, call, before, effects, answer);
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
