#include "track/hooks.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/boundary.h"
#include "base/names.h"
#include "track/checkpoint.h"
#include "track/engine.h"

namespace stator::track {

namespace {

struct Active {
    std::shared_ptr<Tracker> tracker;
    std::shared_ptr<Tracking> tracking;
    bool calls_back = false;
};

/// Changed with both locks, read with either. Never freed: static destructors run after the interpreter is finalized.
auto& all_active = *new std::vector<Active>;

/// The trackers that observe this thread now, in the order in which they were entered.
std::vector<std::shared_ptr<Tracker>> followers() {
    torch_room::RunningNode node = torch_room::running_node();
    std::uint64_t thread = torch_room::this_thread();
    auto is_owned = [&](const Active& each) { return each.tracking->owner == thread; };
    bool has_own = std::any_of(all_active.begin(), all_active.end(), is_owned);

    std::vector<std::shared_ptr<Tracker>> followers;
    std::lock_guard lock(gate);
    for (const Active& each : all_active)
        if (is_owned(each) || (node.identity != nullptr ? each.tracking->knows(node.birth) : !has_own))
            followers.push_back(each.tracker);
    return followers;
}

/// Calls every tracker, even after one of them raised; the first error is reported.
template <class Notify>
PyObject* notify_followers(Notify notify) {
    return at_boundary([&] {
        if (all_active.size() == 1 && all_active[0].tracking->owner == torch_room::this_thread()) {
            std::shared_ptr<Tracker> only = all_active[0].tracker;
            notify(*only);
            return Ref<>::share(Py_None);
        }
        TakenError first;
        for (const std::shared_ptr<Tracker>& each : followers()) {
            try {
                notify(*each);
            } catch (const PythonError&) {
                TakenError error = TakenError::take();
                if (!first) first = std::move(error);
            }
        }
        if (first) {
            std::move(first).restore();
            throw PythonError();
        }
        return Ref<>::share(Py_None);
    });
}

PyObject* module_begins(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count == 0) Py_RETURN_NONE;
    return notify_followers([&](Tracker& tracker) { tracker.begin(arguments[0]); });
}

PyObject* module_ends(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count == 0) Py_RETURN_NONE;
    return notify_followers([&](Tracker& tracker) { tracker.end(arguments[0]); });
}

/// A program can also call a node directly: that is not a backward pass, and nothing that the node does is reported.
bool is_called_by_a_pass() {
    return torch_room::running_backward() != -1;
}

void before_node() {
    if (!is_called_by_a_pass()) return;
    struct Observed {
        std::shared_ptr<Tracker> tracker;
        Tracking::NodeRun run;
    };
    std::vector<Observed> with_callbacks;
    {
        std::lock_guard lock(gate);
        for (const Active& each : all_active) {
            Tracking::NodeRun run = each.tracking->before_node();
            if (each.calls_back) with_callbacks.push_back({each.tracker, run});
        }
    }
    if (with_callbacks.empty()) return;
    PyGILState_STATE lock = PyGILState_Ensure();
    for (Observed& observed : with_callbacks) {
        bool succeeded =
            at_boundary([&] { observed.tracker->move_backward(torch_room::running_backward(), observed.run); });
        if (!succeeded) torch_room::raise_at_end_of_backward();
    }
    with_callbacks.clear();
    PyGILState_Release(lock);
}

void after_node() {
    if (!is_called_by_a_pass()) return;
    std::lock_guard lock(gate);
    for (const Active& each : all_active) each.tracking->after_node();
}

/// Nodes are observed while a tracker needs them. With `gate` held, as for the next one.
int observations = 0;

void begin_observation() {
    if (observations++ == 0) torch_room::observe_nodes({before_node, after_node});
}

void end_observation() {
    if (--observations == 0) torch_room::stop_observing_nodes();
}

void before_python_backward(bool create_graph) {
    // Not the frame of PyTorch's function that starts passes, which runs now.
    const cpython::Frame* starts = cpython::running_frame();
    torch_room::RunningNode node = node_at_work(starts == nullptr ? nullptr : cpython::caller_of(starts));
    std::lock_guard lock(gate);
    // Only then do nodes create nodes.
    if (create_graph) begin_observation();
    for (const Active& each : all_active) each.tracking->before_python_backward(node);
}

void before_native_backward(bool create_graph) {
    std::lock_guard lock(gate);
    if (create_graph) begin_observation();
    for (const Active& each : all_active) each.tracking->before_backward(torch_room::running_node());
}

void after_backward(bool create_graph) {
    std::lock_guard lock(gate);
    if (create_graph) end_observation();
    for (const Active& each : all_active) each.tracking->after_backward();
}

void before_checkpoint() {
    for (const Active& each : all_active) each.tracking->before_checkpoint();
}

/// PyTorch's dictionaries of hooks that it calls for every module.
struct HookTables {
    Ref<> before, after, after_errors_too;
};

HookTables hook_tables() {
    Ref<> module = checked(PyImport_ImportModule("torch.nn.modules.module"));
    auto get = [&](const char* name) { return checked(PyObject_GetAttrString(module.get(), name)); };
    return {get("_global_forward_pre_hooks"), get("_global_forward_hooks"), get("_global_forward_hooks_always_called")};
}

/// The same objects under the same key each time, so that code compiled with the hooks in place is found again.
PyObject* key() {
    return interned("stator.ModuleTracker");
}

Ref<> hook(PyMethodDef* definition) {
    return checked(PyCFunction_NewEx(definition, nullptr, interned("stator")));
}

PyMethodDef kModuleBegins = {"module_begins",
                             reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_begins)), METH_FASTCALL,
                             "Reports to trackers that the call of a module begins."};
PyMethodDef kModuleEnds = {"module_ends", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_ends)),
                           METH_FASTCALL,
                           "Reports to trackers that the call of a module has ended, also by an exception."};

void install() {
    static PyObject* begins = hook(&kModuleBegins).release();
    static PyObject* ends = hook(&kModuleEnds).release();
    HookTables tables = hook_tables();
    watch_backwards({before_python_backward, after_backward});
    torch_room::observe_native_passes({before_native_backward, after_backward});
    watch_checkpoints(before_checkpoint);
    checked(PyObject_SetItem(tables.before.get(), key(), begins));
    checked(PyObject_SetItem(tables.after.get(), key(), ends));
    checked(PyObject_SetItem(tables.after_errors_too.get(), key(), Py_True));
}

void uninstall() {
    stop_watching_backwards();
    torch_room::stop_observing_native_passes();
    stop_watching_checkpoints();
    ErrorAside aside;
    try {
        HookTables tables = hook_tables();
        for (const Ref<>& table : {tables.before, tables.after, tables.after_errors_too})
            if (PyObject_DelItem(table.get(), key()) < 0) PyErr_Clear();  // other code has cleared the table
    } catch (const PythonError&) {
        PyErr_Clear();
    }
}

}  // namespace

void activate(std::shared_ptr<Tracker> tracker, std::shared_ptr<Tracking> tracking) {
    if (all_active.empty()) install();
    bool calls_back = tracker->calls_back();
    std::lock_guard lock(gate);
    if (calls_back) begin_observation();
    all_active.push_back({std::move(tracker), std::move(tracking), calls_back});
}

void deactivate(const Tracking* tracking) {
    Active gone;  // released without the lock
    {
        std::lock_guard lock(gate);
        auto found = std::find_if(all_active.begin(), all_active.end(),
                                  [&](const Active& each) { return each.tracking.get() == tracking; });
        if (found == all_active.end()) return;
        gone = std::move(*found);
        all_active.erase(found);
        if (gone.calls_back) end_observation();
    }
    if (all_active.empty()) uninstall();
}

}  // namespace stator::track
