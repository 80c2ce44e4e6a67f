#include "run/execute.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/boundary.h"
#include "bytecode/code.h"
#include "capture/notes.h"
#include "cpython/code_object.h"
#include "cpython/objects.h"
#include "torch/function_modes.h"
#include "torch/function_transforms.h"
#include "torch/profiled_region.h"
#include "torch/second_backward.h"
#include "torch/settings.h"
#include "torch/tensor.h"
#include "torch/wrappers.h"

namespace stator {

namespace {

/// A private array of objects; small ones need no allocation.
class Copied {
  public:
    explicit Copied(std::span<PyObject* const> objects) {
        if (objects.size() > inline_.size()) {
            allocated_ = std::make_unique_for_overwrite<PyObject*[]>(objects.size());
            data_ = allocated_.get();
        }
        std::ranges::copy(objects, data_);
    }
    Copied(const Copied&) = delete;
    Copied& operator=(const Copied&) = delete;

    PyObject* const* data() const { return data_; }

  private:
    std::array<PyObject*, 32> inline_;
    std::unique_ptr<PyObject*[]> allocated_;
    PyObject** data_ = inline_.data();
};

/// Objects kept alive for the duration of a call.
class Held {
  public:
    explicit Held(std::span<PyObject* const> objects) : copied_(objects), count_(objects.size()) {
        for (PyObject* object : this->objects()) Py_INCREF(object);
    }
    ~Held() {
        for (PyObject* object : objects()) Py_DECREF(object);
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    std::span<PyObject* const> objects() const { return {copied_.data(), count_}; }

  private:
    Copied copied_;
    std::size_t count_;
};

/// The graph's results. A backend may return a tuple or a list; for a list, which other code may change while the plan
/// runs, `answer` becomes a copy.
std::span<PyObject* const> results_of(Ref<>& answer) {
    if (PyList_Check(answer.get())) answer = checked(PyList_AsTuple(answer.get()));
    if (PyTuple_Check(answer.get()))
        return {&PyTuple_GET_ITEM(answer.get(), 0), static_cast<std::size_t>(PyTuple_GET_SIZE(answer.get()))};
    PyErr_Format(PyExc_TypeError, "the compiled graph returned a %.200s, not a tuple of its results",
                 Py_TYPE(answer.get())->tp_name);
    throw PythonError();
}

Ref<PyFrameObject> object_of(PyThreadState* thread, cpython::Frame* frame, bytecode::Index at) {
    const bytecode::Code& code = bytecode::decode(cpython::code_of(frame));
    Ref<PyFrameObject> object;
    {
        // A frame that has not started has no frame object.
        cpython::LinkedFrame link(thread, frame, code[std::max(at, code.body())].offset);
        object = Ref<PyFrameObject>::share(PyEval_GetFrame());
    }
    cpython::resume_at(frame, code[at].start);
    return object;
}

void note_aliased_inputs(const Entry& entry) {
    const Callee at = callee_of(entry.code.get());
    issue_note(
        NoteKind::Information, NoteOnce::AtPlace, "shared_memory", at,
        "A graph of " + at.print() +
            " runs as it was captured, without the backend, in calls where a tensor that it writes to shares memory "
            "with another one. Backends assume that inputs don't alias: pass a copy to run the compiled graph.");
}

/// `inputs` may be overwritten as soon as any code runs.
[[gnu::always_inline]] inline Ref<> run_graph_on(Entry& entry, std::span<PyObject* const> inputs,
                                                 GraphFailure* failure) {
    const bool shares_memory = entry.graph.as_captured && entry.graph.shared_memory.matters(inputs);
    PyObject* compiled = shares_memory ? entry.graph.as_captured.get() : entry.graph.compiled.get();
    failure->before = entry.graph.undo.keep(inputs);
    torch_room::WithoutTorchFunctions without_torch_functions(entry.graph.has_wrappers);
    const std::size_t hooks_before = entry.graph.enters_hooks ? torch_room::saved_tensors_hooks_depth() : 0;
    Ref<> answer;
    if (entry.graph.is_recorded && compiled == entry.graph.compiled.get()) {
        Held held(inputs);
        answer = Ref<>::steal(PyObject_Vectorcall(compiled, held.objects().data(), held.objects().size(), nullptr));
        PyObject* again = entry.graph.is_repeatable ? entry.graph.as_captured.get() : nullptr;
        if (answer) torch_room::allow_second_backward(results_of(answer), held.objects(), again);
    } else if (cpython::holds_arguments(compiled)) {
        // The callee takes references first. But then it creates objects, which may trigger a garbage collection and
        // let another thread check these guards, before it has read the array for the last time.
        Copied copied(inputs);
        answer = Ref<>::steal(PyObject_Vectorcall(compiled, copied.data(), inputs.size(), nullptr));
    } else {
        Held held(inputs);
        inputs = held.objects();
        // Elsewhere a failure is undone as a whole, and need not be described.
        std::optional<graph::Failure>* described = entry.graph.is_visible_to_program ? &failure->at : nullptr;
        const graph::Runner* runner = graph::runner_of(compiled);
        auto run = [&] { return runner->run(inputs, graph::module_of_runner(compiled), described); };
        answer = Ref<>::steal(runner != nullptr ? at_boundary(run)
                                                : PyObject_Vectorcall(compiled, inputs.data(), inputs.size(), nullptr));
    }
    if (answer) {
        failure->before = nullptr;
        if (shares_memory && !std::exchange(entry.graph.has_noted_sharing, true)) note_aliased_inputs(entry);
        return answer;
    }
    // (A graph with operations was captured, and runs, outside of all function transforms.)
    torch_room::leave_transforms(torch_room::has_transforms(entry.state) ? torch_room::transform_depth() : 0);
    if (entry.graph.enters_hooks) torch_room::leave_saved_tensors_hooks(hooks_before);
    torch_room::ForwardMode{entry.state.is_in_dual_level, entry.state.forward_grad}.restore();
    torch_room::restore_modes(entry.state.modes);
    torch_room::restore_settings(entry.state);
    failure->has_happened = true;
    failure->was_seen = failure->at ? failure->at->is_visible_to_program : entry.graph.is_visible_to_program;
    throw PythonError();
}

Ref<> run_graph(Entry& entry, std::span<PyObject* const> inputs, GraphFailure* failure) {
    const CompiledGraph& graph = entry.graph;
    if (graph.of_classes.empty() && graph.wrapped_numbers.empty() && graph.draws.empty())
        return run_graph_on(entry, inputs, failure);
    // Creating a view may run code: that of the first one may overwrite the second input.
    Held held(inputs);
    inputs = held.objects();
    std::vector<Ref<>> made;
    std::vector<PyObject*> given(inputs.begin(), inputs.end());
    auto give = [&](std::uint32_t place, Ref<> input) {
        given[place] = input.get();
        made.push_back(std::move(input));
    };
    for (const DrawnInput& draw : graph.draws)
        give(static_cast<std::uint32_t>(draw.input), stator::draw(draw, inputs[draw.input], failure->generators));
    for (std::uint32_t place : graph.of_classes) give(place, torch_room::plain_view(inputs[place]));
    for (std::uint32_t place : graph.wrapped_numbers) give(place, torch_room::wrapped_number(given[place]));
    return run_graph_on(entry, given, failure);
}

}  // namespace

Ref<> run_plan(Entry& entry, PyThreadState* thread, cpython::Frame* frame, std::span<PyObject* const> results,
               std::span<PyObject* const> fetched, PlanRegisters& registers) {
    if (!entry.plan.uses_frame) [[likely]]
        return run(entry.plan, results, fetched, registers);
    Ref<PyFrameObject> object = object_of(thread, frame, entry.at);
    return run(entry.plan, results, fetched, registers, object.get());
}

Ref<> execute(Entry& entry, PyThreadState* thread, cpython::Frame* frame, PlanRegisters& registers,
              GraphFailure* failure) {
    // Running the graph may run any code, including another check of these guards, so the objects for the plan are held
    // here.
    std::span<PyObject* const> fetched = entry.guards.fetched();
    Held for_plan(fetched.subspan(entry.graph.input_count));
    // Modes of the program have seen what they see of the region when it was traced.
    torch_room::ProfiledRegion profiled(entry.compile_id.get());
    torch_room::WithFunctionModesDisabled disabled(entry.state.has_function_modes_of_program());
    Ref<> answer;
    std::span<PyObject* const> results;
    if (entry.graph.compiled) {
        answer = run_graph(entry, fetched.first(entry.graph.input_count), failure);
        results = results_of(answer);
    }
    Ref<> returned = run_plan(entry, thread, frame, results, for_plan.objects(), registers);
    entry.guards.release();
    return returned;
}

}  // namespace stator
