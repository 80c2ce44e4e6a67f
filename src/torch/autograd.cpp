#include "torch/autograd.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/python_error.h"
#include "torch/errors.h"

namespace stator::torch_room {

namespace {

NodeObserver node_observer;
at::CallbackHandle observation = at::INVALID_CALLBACK_HANDLE;

std::unique_ptr<at::ObserverContext> before_node(const at::RecordFunction&) {
    node_observer.before();
    return nullptr;
}

void after_node(const at::RecordFunction&, at::ObserverContext*) {
    node_observer.after();
}

struct Start {
    /// Null for a pass with several roots: those are among the nodes that PyTorch lists for the pass; a single root is
    /// not.
    const torch::autograd::Node* node;
    Birth moment{this_thread(), next_birth_number()};
};
/// The passes that this thread runs, nested.
thread_local std::vector<Start> starts;

struct StartsHere {
    explicit StartsHere(const torch::autograd::Node* node) { starts.push_back({node}); }
    ~StartsHere() { starts.pop_back(); }
};

PassObserver pass_observer;

/// Reference counting differs between versions of PyTorch.
using NodePointer = decltype(torch::autograd::Edge::function);

/// Replaces PyTorch's engine for calls from C++ code, and delegates to it.
class WatchedEngine : public torch::autograd::Engine {
  public:
    torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                           const torch::autograd::variable_list& inputs, bool keep_graph,
                                           bool create_graph, bool accumulate_grad,
                                           const torch::autograd::edge_list& outputs) override {
        struct Reported {
            explicit Reported(bool create_graph) : create_graph_(create_graph) { observer_.before(create_graph_); }
            ~Reported() { observer_.after(create_graph_); }
            bool create_graph_;
            PassObserver observer_ = pass_observer;
        } reported(create_graph);
        StartsHere start(roots.size() == 1 ? roots[0].function.get() : nullptr);
        return plain().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
    }
    c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
        const std::shared_ptr<torch::autograd::GraphTask>& pass, NodePointer root,
        torch::autograd::InputBuffer&& inputs) override {
        return plain().execute_with_graph_task(pass, std::move(root), std::move(inputs));
    }
    std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
        return plain().make_anomaly_metadata();
    }
    std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
        return plain().get_default_saved_variable_hooks();
    }

    /// PyTorch's engine, a singleton. To be read before this one replaces it.
    static Engine& plain() {
        static Engine& engine = get_default_engine();
        return engine;
    }
    /// Never destroyed: the destructor of an engine waits for threads. This one has none.
    static Engine& instance() {
        static auto& engine = *new WatchedEngine;
        return engine;
    }
};

constexpr std::uint64_t kGathersGradient = UINT64_MAX;

/// For each node that accumulates a gradient, the birth of the node that produces the last part of it: nodes run in the
/// reverse order of their numbers. Computed once for each backward pass that needs it.
class LastContributors {
  public:
    Birth operator[](const torch::autograd::Node* gathering) {
        if (int running = running_backward(); running != backward_) find(running);
        auto found = givers_.find(gathering);
        if (found != givers_.end()) return found->second;
        // A pass may start at a leaf.
        return starts.empty() ? Birth{0, kGathersGradient} : starts.back().moment;
    }

  private:
    void find(int backward) {
        givers_.clear();
        backward_ = backward;
        const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
        const auto* chosen = torch::autograd::get_current_graph_task_exec_info();
        if (nodes == nullptr) return;
        for (torch::autograd::Node* node : *nodes) {
            // If only some gradients are requested, not all nodes run.
            if (chosen != nullptr && !chosen->empty()) {
                auto found = chosen->find(node);
                if (found == chosen->end() || !found->second.needed_) continue;
            }
            add(*node);
        }
        if (!starts.empty() && starts.back().node != nullptr) add(*starts.back().node);
    }

    void add(const torch::autograd::Node& node) {
        for (const torch::autograd::Edge& edge : node.next_edges()) {
            if (!edge.is_valid() || edge.function->sequence_nr() != kGathersGradient) continue;
            auto [place, is_new] = givers_.try_emplace(edge.function.get());
            if (is_new || node.sequence_nr() < place->second.number)
                place->second = {node.thread_id(), node.sequence_nr()};
        }
    }

    int backward_ = -1;
    std::unordered_map<const torch::autograd::Node*, Birth> givers_;
};

}  // namespace

RunningNode running_node() {
    auto node = torch::autograd::get_current_node();
    if (!node) return {};
    if (node->sequence_nr() != kGathersGradient) return {node.get(), {node->thread_id(), node->sequence_nr()}};
    thread_local LastContributors contributors;
    return {node.get(), contributors[node.get()]};
}

StartedPass::StartedPass(PyObject* tensors) {
    const torch::autograd::Node* start = nullptr;
    if (PyTuple_Check(tensors) && PyTuple_GET_SIZE(tensors) == 1 && THPVariable_Check(PyTuple_GET_ITEM(tensors, 0)))
        start = THPVariable_Unpack(PyTuple_GET_ITEM(tensors, 0)).grad_fn().get();
    starts.push_back({start});
}

StartedPass::~StartedPass() {
    starts.pop_back();
}

int running_backward() {
    return torch::autograd::get_current_graph_task_id();
}

std::uint64_t this_thread() {
    return at::RecordFunction::currentThreadId();
}

std::uint64_t next_birth_number() {
    return at::sequence_number::peek();
}

Birth take_birth() {
    return {this_thread(), at::sequence_number::get_and_increment()};
}

void observe_native_passes(PassObserver observer) {
    pass_observer = observer;
    WatchedEngine::plain();
    torch::autograd::set_default_engine_stub(WatchedEngine::instance);
}

void stop_observing_native_passes() {
    torch::autograd::set_default_engine_stub(WatchedEngine::plain);
}

void observe_nodes(NodeObserver observer) {
    node_observer = observer;
    observation = at::addGlobalCallback(
        at::RecordFunctionCallback(before_node, after_node).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

void stop_observing_nodes() {
    at::removeCallback(std::exchange(observation, at::INVALID_CALLBACK_HANDLE));
}

void at_end_of_backward(std::function<void()> work) {
    torch::autograd::Engine::get_default_engine().queue_callback([work = std::move(work)] {
        pybind11::gil_scoped_acquire lock;
        try {
            work();
        } catch (const PythonError&) {
            throw persisted_error();
        }
    });
}

void raise_at_end_of_backward() {
    // Shared, because the engine copies the callback without the lock.
    auto error = std::make_shared<python_error>(persisted_error());
    torch::autograd::Engine::get_default_engine().queue_callback([error] { throw python_error(*error); });
}

}  // namespace stator::torch_room
