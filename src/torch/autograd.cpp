#include "torch/autograd.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <memory>
#include <utility>

#include "base/python_error.h"

namespace stator::torch_room {

namespace {

NodeObserver told;
at::CallbackHandle observation = at::INVALID_CALLBACK_HANDLE;

Birth birth_of(const at::RecordFunction& run) {
    return {run.forwardThreadId(), static_cast<std::uint64_t>(run.seqNr())};
}

std::unique_ptr<at::ObserverContext> before_node(const at::RecordFunction& run) {
    told.before(birth_of(run));
    return nullptr;
}

void after_node(const at::RecordFunction& run, at::ObserverContext*) {
    told.after(birth_of(run));
}

}  // namespace

RunningNode running_node() {
    auto node = torch::autograd::get_current_node();
    if (!node) return {};
    return {node.get(), {node->thread_id(), node->sequence_nr()}};
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

void observe_nodes(NodeObserver observer) {
    told = observer;
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
            python_error error;
            error.persist();
            throw error;
        }
    });
}

void raise_at_end_of_backward() {
    // Shared, because the engine copies the callback without the lock.
    auto error = std::make_shared<python_error>();
    error->persist();
    torch::autograd::Engine::get_default_engine().queue_callback([error] { throw python_error(*error); });
}

}  // namespace stator::torch_room
