#include "track/tracker.h"

#include <algorithm>
#include <utility>

#include "base/python_error.h"
#include "track/hooks.h"

namespace stator::track {

namespace {

/// From the outermost call around `path` that is not also around `base`, to `path`.
std::vector<const Path*> calls_inside(const Path* base, const Path* path) {
    std::vector<const Path*> calls;
    auto is_around_base = [&](const Path* call) {
        while (base->depth() > call->depth()) base = base->parent();
        return base == call;
    };
    for (; path->parent() != nullptr && !is_around_base(path); path = path->parent()) calls.push_back(path);
    std::reverse(calls.begin(), calls.end());
    return calls;
}

}  // namespace

void Tracker::enter() {
    if (is_active()) {
        PyErr_SetString(PyExc_RuntimeError, "this ModuleTracker is active already: make another one to nest them");
        throw PythonError();
    }
    auto tracking = std::make_shared<Tracking>(names_);
    activate(shared_from_this(), tracking);
    tracking_ = std::move(tracking);
}

void Tracker::exit() {
    if (!is_active()) return;
    std::shared_ptr<Tracking> tracking = std::move(tracking_);
    std::map<int, OpenBackward> left = std::exchange(backwards_, {});
    deactivate(tracking.get());
    for (auto& [backward, each] : left)
        for (; !each.open.empty(); each.open.pop_back()) call_back(on_leave, tracking, each.open.back(), true);
}

void Tracker::call_back(Ref<> callback, std::shared_ptr<Tracking> tracking, const Path* path, bool is_backward) {
    if (!callback) return;
    Ref<> name = Ref<>::share(path->name()), module = path->module();
    PyObject* arguments[] = {name.get(), module ? module.get() : Py_None, is_backward ? Py_True : Py_False};
    tracking->show(path);
    Ref<> result = Ref<>::steal(PyObject_Vectorcall(callback.get(), arguments, 3, nullptr));
    tracking->show(nullptr);
    if (!result) throw PythonError();
}

void Tracker::begin(Borrowed<> module) {
    std::shared_ptr<Tracking> tracking = tracking_;
    if (!tracking) return;
    if (!backwards_.empty() && torch_room::running_backward() == -1) end_failed_backwards();
    Tracking::Begun begun = tracking->begin(module);
    for (const Path* path : begun.abandoned) call_back(on_leave, tracking, path, false);
    if (begun.path != nullptr) call_back(on_enter, tracking, begun.path, false);
}

void Tracker::end(Borrowed<> module) {
    std::shared_ptr<Tracking> tracking = tracking_;
    if (!tracking) return;
    for (const Path* path : tracking->end(module)) call_back(on_leave, tracking, path, false);
}

void Tracker::move_backward(int backward, const Tracking::NodeRun& run) {
    std::shared_ptr<Tracking> tracking = tracking_;
    if (!tracking) return;
    auto found = backwards_.find(backward);
    if (found == backwards_.end()) {
        if (run.is_outermost) end_failed_backwards();
        found = backwards_.try_emplace(backward, OpenBackward{torch_room::this_thread(), run.enclosing, {}}).first;
        torch_room::at_end_of_backward([self = weak_from_this(), backward] {
            if (auto tracker = self.lock()) tracker->end_backward(backward);
        });
    }
    // The record is no longer used when a callback runs, which may do anything.
    std::vector<const Path*> wanted = calls_inside(found->second.around, run.made_at);
    std::vector<const Path*> open = std::exchange(found->second.open, wanted);
    auto is_in = [](const std::vector<const Path*>& calls, const Path* call) {
        return std::find(calls.begin(), calls.end(), call) != calls.end();
    };
    for (auto call = open.rbegin(); call != open.rend(); ++call)
        if (!is_in(wanted, *call)) call_back(on_leave, tracking, *call, true);
    for (const Path* call : wanted)
        if (!is_in(open, call)) call_back(on_enter, tracking, call, true);
}

void Tracker::end_backward(int backward) {
    std::shared_ptr<Tracking> tracking = tracking_;
    auto record = backwards_.extract(backward);
    if (!tracking || record.empty()) return;
    std::vector<const Path*>& open = record.mapped().open;
    for (; !open.empty(); open.pop_back()) call_back(on_leave, tracking, open.back(), true);
}

void Tracker::end_failed_backwards() {
    std::vector<int> failed;
    for (const auto& [backward, each] : backwards_)
        if (each.thread == torch_room::this_thread()) failed.push_back(backward);
    for (int backward : failed) end_backward(backward);
}

}  // namespace stator::track
