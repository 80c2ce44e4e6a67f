#include "track/tracking.h"

#include <algorithm>

#include "base/names.h"
#include "track/checkpoint.h"

namespace stator::track {

using torch_room::Birth;
using torch_room::RunningNode;

std::mutex gate;

namespace {

/// The frame of `Module._call_impl` that called the hook: directly, or from its inner function. Compilers that rewrite
/// bytecode may add a frame or two in between.
const cpython::Frame* frame_of_call() {
    constexpr int kFarthest = 6;
    static PyObject* const name = interned("_call_impl");
    const cpython::Frame* frame = cpython::running_frame();
    for (int i = 0; i < kFarthest && frame != nullptr; ++i, frame = cpython::caller_of(frame))
        if (cpython::function_name(frame) == name) return frame;
    return nullptr;
}

bool is_around(const cpython::Frame* wanted, const cpython::Frame* frame) {
    for (; frame != nullptr; frame = cpython::caller_of(frame))
        if (frame == wanted) return true;
    return false;
}

/// How many of the calls still run as seen from `frame`: a call whose frame is gone ended with an exception that was
/// not reported, and so did those inside of it. Normally the innermost frame is only a few steps away.
std::size_t running_count(const std::vector<RunningCall>& calls, const cpython::Frame* frame) {
    std::size_t count = calls.size();
    while (count > 0 && calls[count - 1].frame != nullptr && !is_around(calls[count - 1].frame, frame)) --count;
    return count;
}

std::vector<const Path*> cut(std::vector<RunningCall>& calls, std::size_t count) {
    std::vector<const Path*> paths;
    for (; calls.size() > count; calls.pop_back())
        if (calls.back().is_reported) paths.push_back(calls.back().path);
    return paths;
}

}  // namespace

Tracking::Tracking(std::shared_ptr<Names> names)
    : owner(torch_room::this_thread()), names_(std::move(names)), paths_(*names_) {
    state().is_followed = true;
}

ThreadState& Tracking::state() {
    std::unique_ptr<ThreadState>& state = threads_[torch_room::this_thread()];
    if (state == nullptr) state = std::make_unique<ThreadState>(outside());
    return *state;
}

const Path* Tracking::made_at(Birth birth) const {
    auto thread = threads_.find(birth.thread);
    return thread == threads_.end() ? outside() : thread->second->births.at(birth.number);
}

void Tracking::mark(ThreadState& thread, const Path* path) {
    thread.since = torch_room::next_birth_number();
    thread.births.mark(thread.since, path);
    if (thread.calls.empty() && thread.enclosing.empty()) thread.births.close();
}

bool Tracking::knows(Birth birth) const {
    auto thread = threads_.find(birth.thread);
    return thread != threads_.end() && thread->second->is_followed && birth.number >= thread->second->began;
}

void Tracking::mark_abandoned(ThreadState& thread, std::size_t running) {
    thread.births.mark(thread.since, running == 0 ? outside() : thread.calls[running - 1].path);
}

void Tracking::mark_made_by(ThreadState& thread, const RunningNode& node) {
    thread.births.mark(thread.since, made_at(node.birth));
}

Tracking::Begun Tracking::begin(Borrowed<> module) {
    const cpython::Frame* frame = frame_of_call();
    RunningNode node = node_at_work();
    Begun begun;
    const Path* from;
    bool by_backward, is_inside_wrapper;
    Ref<> called = called_by(module);
    {
        std::lock_guard lock(gate);
        ThreadState& thread = state();
        // Frames are reused at the same addresses: a call that seems to have this very frame has ended.
        std::size_t count =
            frame == nullptr ? thread.calls.size() : running_count(thread.calls, cpython::caller_of(frame));
        if (count < thread.calls.size()) {
            mark_abandoned(thread, count);
            begun.abandoned = cut(thread.calls, count);
        }
        by_backward = node.identity != nullptr && (count == 0 || thread.calls.back().node != node.identity);
        from = count == 0 ? outside() : thread.calls.back().path;
        if (by_backward) {
            mark_made_by(thread, node);
            from = made_at(node.birth);
        }
        is_inside_wrapper =
            !by_backward && count > 0 && thread.calls.back().is_wrapper && called == thread.calls.back().path->module();
    }
    bool is_reported = called && !is_inside_wrapper;
    const Path* path = !is_reported  ? from
                       : by_backward ? paths_.enter_again(from, called.get())
                                     : paths_.enter(from, called.get());
    std::lock_guard lock(gate);
    ThreadState& thread = state();
    thread.is_followed = true;
    thread.calls.push_back({path, frame, node.identity, called && called.get() != module.get(), is_reported});
    mark(thread, path);
    if (is_reported) begun.path = path;
    return begun;
}

std::vector<const Path*> Tracking::end(Borrowed<> module) {
    const cpython::Frame* frame = frame_of_call();
    RunningNode node = node_at_work();
    Ref<> called = called_by(module);
    std::lock_guard lock(gate);
    ThreadState& thread = state();
    std::size_t at = thread.calls.size();
    auto is_the_call = [&](const RunningCall& call) {
        return frame != nullptr ? call.frame == frame : call.frame == nullptr && call.path->module() == called;
    };
    while (at > 0 && !is_the_call(thread.calls[at - 1])) --at;
    if (at == 0) return {};
    if (at < thread.calls.size()) mark_abandoned(thread, at);
    std::vector<const Path*> ended = cut(thread.calls, at - 1);

    const Path* now = outside();
    if (!thread.calls.empty() && thread.calls.back().node == node.identity)
        now = thread.calls.back().path;
    else if (node.identity != nullptr)
        now = made_at(node.birth);
    mark(thread, now);
    return ended;
}

const Path* Tracking::here() {
    RunningNode node = node_at_work();
    const cpython::Frame* frame = cpython::running_frame();
    std::lock_guard lock(gate);
    ThreadState& thread = state();
    if (thread.shown != nullptr) return thread.shown;
    std::size_t count = running_count(thread.calls, frame);
    if (count > 0 && (node.identity == nullptr || thread.calls[count - 1].node == node.identity))
        return thread.calls[count - 1].path;
    return node.identity != nullptr ? made_at(node.birth) : outside();
}

void Tracking::before_checkpoint() {
    const Path* path = here();
    std::lock_guard lock(gate);
    ThreadState& thread = state();
    thread.births.mark(thread.since, path);
    mark(thread, path);
}

void Tracking::show(const Path* path) {
    std::lock_guard lock(gate);
    state().shown = path;
}

void Tracking::before_python_backward(const RunningNode& node) {
    ThreadState& thread = state();
    if (std::size_t count = running_count(thread.calls, cpython::running_frame()); count < thread.calls.size())
        mark_abandoned(thread, count);
    before_backward(node);
}

void Tracking::before_backward(const RunningNode& node) {
    ThreadState& thread = state();
    thread.enclosing.push_back(thread.births.last());
    if (node.identity != nullptr && (thread.calls.empty() || thread.calls.back().node != node.identity))
        mark_made_by(thread, node);
    thread.since = torch_room::next_birth_number();
}

void Tracking::after_backward() {
    ThreadState& thread = state();
    if (thread.enclosing.empty()) return;  // the tracking began inside
    const Path* before = thread.enclosing.back();
    thread.enclosing.pop_back();
    mark(thread, before);
}

Tracking::NodeRun Tracking::before_node() {
    ThreadState& thread = state();
    NodeRun run{made_at(torch_room::running_node().birth), thread.births.last(), thread.running_nodes == 0};
    ++thread.running_nodes;
    thread.enclosing.push_back(run.enclosing);
    mark(thread, run.made_at);
    return run;
}

void Tracking::after_node() {
    ThreadState& thread = state();
    if (thread.running_nodes == 0) return;  // the tracking began inside
    --thread.running_nodes;
    after_backward();
}

}  // namespace stator::track
