#include "run/failed_graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/names.h"
#include "capture/capture.h"
#include "capture/report.h"
#include "run/execute.h"
#include "run/frame_run.h"
#include "torch/tensor.h"

namespace stator {

namespace {

/// A value that the run has freed, and that can't be recomputed.
struct Lost {};

/// The results of nodes in the run that failed.
class Values {
  public:
    Values(const Trace& trace, const graph::Failure& failure) : graph_(*trace.graph) {
        std::size_t inputs = 0;
        for (const graph::Node* node : graph_.nodes())
            if (node->kind == graph::NodeKind::Placeholder) {
                known_.emplace(node, Ref<>::share(trace.inputs[inputs++]->object));
            } else if (auto found = failure.values.find(node->serial); found != failure.values.end()) {
                known_.emplace(node, Ref<>::share(found->second.get()));
            } else if (const graph::Node* same = written_argument(*node); same != nullptr && known_.contains(same)) {
                known_.emplace(node, Ref<>::share(known_.at(same).get()));
            }
    }

    /// The graph's results, as a tuple. Throws Lost and PythonError.
    Ref<> results() {
        graph::Graph rest;
        std::vector<PyObject*> inputs;
        std::unordered_map<const graph::Node*, graph::Node*> made;
        // Nodes in order, so that inputs come first; unused ones are removed at the end.
        for (const graph::Node* node : graph_.nodes()) {
            graph::Node* copy = nullptr;
            if (auto found = known_.find(node); found != known_.end()) {
                copy = rest.add(graph::NodeKind::Placeholder,
                                node->target == nullptr ? interned("known") : node->target, {});
                inputs.push_back(found->second.get());
            } else if (node->kind == graph::NodeKind::Output || is_repeatable(*node)) {
                copy = add_copy(rest, *node, made);
            }
            if (copy != nullptr) made.emplace(node, copy);
        }
        if (!made.contains(graph_.nodes().back())) throw Lost();
        return run(rest, inputs);
    }

  private:
    /// The argument that an in-place operation returns.
    static const graph::Node* written_argument(const graph::Node& node) {
        int number = node.result.same_as_argument;
        if (number < 0) return nullptr;
        std::vector<const graph::Node*> tensors;
        graph::for_each_input(node, [&](const graph::Node* input) {
            if (input->result.kind == graph::Result::Kind::Tensor && std::ranges::find(tensors, input) == tensors.end())
                tensors.push_back(input);
        });
        auto index = static_cast<std::size_t>(number);
        return index < tensors.size() ? tensors[index] : nullptr;
    }

    bool is_repeatable(const graph::Node& node) const {
        return !node.has_effect && node.kind != graph::NodeKind::Attribute;
    }

    /// Null if an input is lost.
    static graph::Node* add_copy(graph::Graph& to, const graph::Node& node,
                                 const std::unordered_map<const graph::Node*, graph::Node*>& made) {
        bool is_lost = false;
        graph::for_each_input(node, [&](const graph::Node* input) { is_lost |= !made.contains(input); });
        if (is_lost) return nullptr;
        std::vector<graph::Argument> arguments;
        for (const graph::Argument& argument : node.arguments) arguments.push_back(copied(to, argument, made));
        std::vector<graph::KeywordArgument> keywords;
        for (const graph::KeywordArgument& keyword : node.keywords)
            keywords.push_back({keyword.name, copied(to, keyword.value, made)});
        return to.add(node.kind, node.target, std::move(arguments), std::move(keywords));
    }

    static graph::Argument copied(graph::Graph& to, const graph::Argument& argument,
                                  const std::unordered_map<const graph::Node*, graph::Node*>& made) {
        if (argument.kind == graph::Argument::Kind::Node) return graph::Argument::of(made.at(argument.node));
        if (argument.kind == graph::Argument::Kind::Constant) return argument;
        auto* items = to.arena().make<graph::Argument::Items>();
        items->keys = argument.items->keys;
        items->type = argument.items->type;
        for (const graph::Argument& value : argument.items->values) items->values.push_back(copied(to, value, made));
        return graph::Argument::of_items(argument.kind, items);
    }

    Ref<> run(graph::Graph& rest, const std::vector<PyObject*>& inputs) {
        std::vector<graph::Node*> placeholders;
        for (graph::Node* node : rest.nodes())
            if (node->kind == graph::NodeKind::Placeholder) placeholders.push_back(node);
        rest.finish();
        std::vector<PyObject*> used;
        bool computes = false;
        for (const graph::Node* node : rest.nodes()) {
            if (node->kind == graph::NodeKind::Placeholder)
                used.push_back(
                    inputs[static_cast<std::size_t>(std::ranges::find(placeholders, node) - placeholders.begin())]);
            else if (node->kind != graph::NodeKind::Output)
                computes = true;
        }
        if (computes) expect_unwritten(used);
        return checked(graph::Runner(rest).run(used).release());
    }

    /// A recomputation that depends on a tensor written to since, or on another mode, would have another result.
    void expect_unwritten(const std::vector<PyObject*>& inputs) const {
        for (const graph::Node* node : graph_.nodes()) {
            if (!node->has_effect || node->kind == graph::NodeKind::Output) continue;
            bool has_tensors = false;
            graph::for_each_input(*node, [&](const graph::Node* input) {
                if (input->result.kind != graph::Result::Kind::Tensor) return;
                has_tensors = true;
                auto value = known_.find(input);
                if (value == known_.end()) throw Lost();
                const void* storage = torch_room::storage_identity(value->second.get());
                for (PyObject* used : inputs)
                    if (torch_room::is_tensor(used) && torch_room::storage_identity(used) == storage) throw Lost();
            });
            if (!has_tensors) throw Lost();
        }
    }

    const graph::Graph& graph_;
    std::unordered_map<const graph::Node*, Ref<>> known_;
};

}  // namespace

bool exit_before_failure(EntryCache& cache, PyThreadState* thread, cpython::Frame* frame, bytecode::Index at,
                         const graph::Failure& failure, Exit* exit) {
    ErrorAside aside;
    PyCodeObject* code = cpython::code_of(frame);
    try {
        const Knowledge knowledge = cache.knowledge_of(code).known;
        const CompileOptions options = cache.options_with(exit->entry->forced_backend);
        if (!options.backend) return false;  // the garbage collector has cleared the callable
        TraceRequest request = CaptureRequest{frame, at, options}.for_trace();
        request.stop_before = {failure.serial, failure.target.get()};
        std::variant<Trace, Again> traced = stator::trace(request, knowledge);
        if (!std::holds_alternative<Trace>(traced)) return false;
        Trace& trace = std::get<Trace>(traced);
        if (trace.end != TraceEnd::Broke || !trace.has_stopped) return false;
        // Those after the operation were drawn too.
        if (!trace.draws.empty()) return false;
        // An operation with a partial effect can't be executed again.
        if (failure.has_effect && trace.plan.frames.back().runs_callbacks) return false;
        Ref<> results = Values(trace, failure).results();
        auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(results.get()));
        std::vector<PyObject*> fetched;
        for (const Source* source : trace.fetched) fetched.push_back(source->object);
        exit->entry = Shared<Entry>::make(code, at, torch_room::snapshot_global_state(), GuardProgram({}, {}));
        exit->entry->plan = std::move(trace.plan);
        run_plan(*exit->entry, thread, frame, {&PyTuple_GET_ITEM(results.get(), 0), count}, fetched, exit->registers);
        return true;
    } catch (const Lost&) {
    } catch (const PythonError&) {
        PyErr_Clear();
    } catch (const std::exception& error) {
        report_internal_error(code, error.what());
    }
    return false;
}

}  // namespace stator
