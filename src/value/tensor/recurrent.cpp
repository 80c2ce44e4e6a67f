/// The functions that `torch.nn.LSTM`, GRU and RNN call. They are not captured with dropout between layers: PyTorch's
/// decomposition, which backends compile, omits that dropout. Nor is `lstm` in versions whose decomposition is wrong.
#include <array>
#include <string_view>

#include "base/imported.h"
#include "base/names.h"
#include "torch/versions.h"
#include "value/builtins/registry.h"
#include "value/kinds/rebuilding.h"
#include "value/recorder.h"
#include "value/tracer.h"

namespace stator {

namespace {

constexpr std::array kNames{"lstm", "gru", "rnn_tanh", "rnn_relu"};

/// `has_biases`, the number of layers, the dropout and `train` follow the weights in this order, for padded and for
/// packed sequences.
bool may_drop_between_layers(Tracer& tracer, const Arguments& arguments) {
    if (!arguments.keywords.empty()) return true;
    for (std::size_t i = 0; i + 3 < arguments.positional.size(); ++i) {
        tracer.realize(arguments.positional[i]);
        PyObject* has_biases = arguments.positional[i]->object();
        if (has_biases == nullptr || !PyBool_Check(has_biases)) continue;
        std::array<Ref<>, 3> known;
        for (std::size_t k = 0; k < known.size(); ++k) {
            tracer.realize(arguments.positional[i + 1 + k]);
            known[k] = arguments.positional[i + 1 + k]->as_constant(tracer);
            if (!known[k]) return true;
        }
        bool has_layers_between = !PyLong_Check(known[0].get()) || PyLong_AsLong(known[0].get()) != 1;
        bool drops = !PyFloat_Check(known[1].get()) ? PyObject_IsTrue(known[1].get()) != 0
                                                    : PyFloat_AsDouble(known[1].get()) != 0;
        return has_layers_between && drops && known[2].get() != Py_False;
    }
    return true;
}

template <std::size_t index>
Outcome recurrent(Tracer& tracer, const Arguments& arguments) {
    static PyObject* const function = imported("torch._VF", kNames[index]);
    if (kNames[index] == std::string_view("lstm") && torch_room::decomposed_lstm_is_wrong())
        tracer.break_graph(
            BreakKind::UnsupportedTensor,
            "this version of PyTorch decomposes torch.lstm incorrectly; PyTorch 2.13 and later can capture it");
    if (may_drop_between_layers(tracer, arguments))
        tracer.break_graph(BreakKind::UnsupportedTensor, std::string("torch.") + kNames[index] +
                                                             " is called in training with dropout between its layers");
    return tracer.recorder().emit_function(function, arguments);
}

}  // namespace

void register_recurrent(Handlers& handlers) {
    handlers.add("torch._VF", kNames[0], recurrent<0>);
    handlers.add("torch._VF", kNames[1], recurrent<1>);
    handlers.add("torch._VF", kNames[2], recurrent<2>);
    handlers.add("torch._VF", kNames[3], recurrent<3>);
}

}  // namespace stator
