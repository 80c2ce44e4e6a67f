#include "torch/second_backward.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/imported.h"
#include "base/python_error.h"
#include "base/text.h"
#include "torch/errors.h"
#include "torch/implementation.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

constexpr const char* kMessage =
    "Gradients of a graph that a backend compiled are differentiated again, and the graph can't be run a second time "
    "for them: it draws random numbers, writes to its inputs, or an input was written to since. Compile this function "
    "with backend='eager', or call torch.autograd.grad inside of the compiled function.";

/// Holds the GIL: autograd calls hooks without it.
class WithInterpreter {
  public:
    WithInterpreter() : state_(PyGILState_Ensure()) {}
    ~WithInterpreter() { PyGILState_Release(state_); }
    WithInterpreter(const WithInterpreter&) = delete;
    WithInterpreter& operator=(const WithInterpreter&) = delete;

  private:
    PyGILState_STATE state_;
};

/// A Python object owned by something that may be destroyed in any thread.
class HeldAnywhere {
  public:
    explicit HeldAnywhere(PyObject* object = nullptr) : object_(Py_XNewRef(object)) {}
    ~HeldAnywhere() { release(); }
    HeldAnywhere(const HeldAnywhere&) = delete;
    HeldAnywhere& operator=(const HeldAnywhere&) = delete;

    void release() {
        if (object_ == nullptr || Py_IsInitialized() == 0) return;
        WithInterpreter lock;
        Py_CLEAR(object_);
    }
    PyObject* get() const { return object_; }

  private:
    PyObject* object_;
};

/// PyTorch 2.13 counts references to nodes inside them, earlier versions beside them.
template <class Pointer>
Pointer make_error(torch::autograd::edge_list&& edges) {
    if constexpr (std::is_same_v<Pointer, std::shared_ptr<Node>>)
        return std::make_shared<torch::autograd::Error>(kMessage, std::move(edges));
    else
        return c10::make_intrusive<torch::autograd::Error>(kMessage, std::move(edges));
}

/// The node of the compiled code behind a result, which may be a view of an output of that code.
Node* compiled_function_behind(Node* node) {
    if (node == nullptr || node->is_aot_backward()) return node;
    for (const Edge& edge : node->next_edges())
        if (edge.is_valid() && edge.function->is_aot_backward()) return edge.function.get();
    return nullptr;
}

class SecondBackward final : public torch::autograd::FunctionPostHook {
  public:
    SecondBackward(Node* node, std::span<PyObject* const> inputs, PyObject* run) : node_(node), run_(run) {
        if (run == nullptr) return;
        for (PyObject* input : inputs) {
            bool is_tensor = torch_room::is_tensor(input);
            tensors_.push_back(is_tensor ? THPVariable_Unpack(input) : at::Tensor());
            versions_.push_back(is_tensor && !tensors_.back().is_inference() ? tensors_.back()._version() : 0);
            others_.push_back(is_tensor ? nullptr : std::make_unique<HeldAnywhere>(input));
        }
    }

    /// Registers a result that is this output of the node.
    void add_result(std::size_t output, std::size_t result) { results_.emplace_back(output, result); }

    variable_list operator()(const variable_list& gradients, const variable_list& of_outputs) override {
        if (!c10::GradMode::is_enabled()) {
            if (!torch::autograd::get_current_graph_task_keep_graph()) forget();
            return gradients;
        }
        variable_list recorded;
        return run_again(of_outputs, recorded) ? recorded : with_error(gradients, of_outputs);
    }

    // Compiled autograd traces the node itself.
    void compiled_args(torch::dynamo::autograd::CompiledNodeArgs&) const override {}

  private:
    void forget() {
        tensors_.clear();
        others_.clear();
        run_.release();
    }

    bool is_unchanged() const {
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            if (tensors_[i].defined() && !tensors_[i].is_inference() && tensors_[i]._version() != versions_[i])
                return false;
        return true;
    }

    /// The positions of the inputs to which the node passes gradients; false if one is unknown.
    bool find_places(std::vector<std::ptrdiff_t>& places) const {
        for (const Edge& edge : node_->next_edges()) {
            std::ptrdiff_t place = -1;
            for (std::size_t i = 0; edge.is_valid() && i < tensors_.size() && place < 0; ++i)
                if (tensors_[i].defined() && tensors_[i].requires_grad() &&
                    torch::autograd::impl::gradient_edge(tensors_[i]) == edge)
                    place = static_cast<std::ptrdiff_t>(i);
            if (edge.is_valid() && place < 0) return false;
            places.push_back(place);
        }
        return true;
    }

    bool run_again(const variable_list& of_outputs, variable_list& recorded) {
        std::vector<std::ptrdiff_t> places;
        if (run_.get() == nullptr || !is_unchanged() || !find_places(places)) return false;
        WithInterpreter lock;
        Ref<> numbers = checked(PyList_New(0)), gradients = checked(PyList_New(0));
        for (std::size_t output = 0; output < of_outputs.size(); ++output) {
            if (!of_outputs[output].defined()) continue;
            auto known = std::ranges::find(results_, output, &std::pair<std::size_t, std::size_t>::first);
            if (known == results_.end()) return false;
            checked(PyList_Append(numbers.get(), checked(PyLong_FromSize_t(known->second)).get()));
            checked(PyList_Append(gradients.get(), checked(THPVariable_Wrap(of_outputs[output])).get()));
        }
        Ref<> inputs = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors_.size())));
        for (std::size_t i = 0; i < tensors_.size(); ++i)
            PyTuple_SET_ITEM(inputs.get(), static_cast<Py_ssize_t>(i),
                             tensors_[i].defined() ? checked(THPVariable_Wrap(tensors_[i])).release()
                                                   : Py_NewRef(others_[i]->get()));
        static PyObject* const function = imported("stator.second_backward", "gradients");
        Ref<> given = Ref<>::steal(
            PyObject_CallFunctionObjArgs(function, run_.get(), inputs.get(), numbers.get(), gradients.get(), nullptr));
        if (!given) throw persisted_error();
        for (std::ptrdiff_t place : places) {
            PyObject* gradient = place < 0 ? Py_None : PyTuple_GET_ITEM(given.get(), place);
            recorded.push_back(gradient == Py_None ? at::Tensor() : THPVariable_Unpack(gradient));
        }
        return true;
    }

    variable_list with_error(const variable_list& gradients, const variable_list& of_outputs) const {
        torch::autograd::edge_list edges;
        for (const Edge& edge : node_->next_edges())
            if (edge.is_valid()) edges.push_back(edge);
        for (const at::Tensor& gradient : of_outputs)
            if (gradient.defined() && gradient.requires_grad())
                edges.push_back(torch::autograd::impl::gradient_edge(gradient));
        auto error = make_error<decltype(Edge::function)>(std::move(edges));
        variable_list marked;
        for (const at::Tensor& gradient : gradients) {
            marked.push_back(gradient.defined() ? gradient.detach() : at::Tensor());
            if (!gradient.defined()) continue;
            auto number = static_cast<std::uint32_t>(error->add_input_metadata(marked.back()));
            torch::autograd::impl::set_gradient_edge(marked.back(), {error, number});
        }
        return marked;
    }

    Node* const node_;  // which owns this
    HeldAnywhere run_;
    std::vector<at::Tensor> tensors_;
    std::vector<std::int64_t> versions_;
    std::vector<std::unique_ptr<HeldAnywhere>> others_;
    std::vector<std::pair<std::size_t, std::size_t>> results_;
};

Node* history_of(PyObject* object) {
    if (!is_tensor(object)) return nullptr;
    const AutogradMeta* autograd = autograd_of(*implementation(object));
    return autograd == nullptr ? nullptr : autograd->grad_fn_.get();
}

}  // namespace

bool requires_gradient(PyObject* object) {
    return is_tensor(object) && requires_grad(autograd_of(*implementation(object)));
}

void allow_second_backward(std::span<PyObject* const> results, std::span<PyObject* const> inputs, PyObject* run) {
    Node* node = nullptr;
    for (std::size_t i = 0; i < results.size() && node == nullptr; ++i)
        node = compiled_function_behind(history_of(results[i]));
    if (node == nullptr) return;
    auto hook = std::make_unique<SecondBackward>(node, inputs, run);
    for (std::size_t i = 0; i < results.size(); ++i)
        if (history_of(results[i]) == node) hook->add_result(autograd_of(*implementation(results[i]))->output_nr_, i);
    node->add_post_hook(std::move(hook));
}

}  // namespace stator::torch_room
