#include "run/miss.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/imported.h"
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "capture/capture.h"
#include "capture/notes.h"
#include "capture/report.h"
#include "capture/settings.h"
#include "cpython/code_object.h"
#include "run/counts.h"
#include "run/orphans.h"
#include "run/skipped_code.h"
#include "run/stance.h"
#include "torch/fake.h"

namespace stator {

namespace {

/// The instance whose method a frame executes, if it supports weak references; borrowed.
PyObject* instance_of(cpython::Frame* frame) {
    PyCodeObject* code = cpython::code_of(frame);
    if (code->co_argcount == 0 || utf8(cpython::slot_name(code, 0)) != "self") return nullptr;
    PyObject* first = cpython::slots(frame)[0];
    if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
    if (first == nullptr || PyType_Check(first) || !PyType_HasFeature(Py_TYPE(first), Py_TPFLAGS_HEAPTYPE))
        return nullptr;
    return PyType_SUPPORTS_WEAKREFS(Py_TYPE(first)) ? first : nullptr;
}

/// The instance that an entry was captured for; null if there is none, None if it was freed.
PyObject* owner_of(const Entry& entry) {
    return entry.owner ? PyWeakref_GET_OBJECT(entry.owner.get()) : nullptr;
}

/// `forbidden_by` is a stance, or a setting of torch.
[[noreturn]] void raise_recompile(const std::vector<Shared<Entry>> entries, cpython::Frame* frame, bytecode::Index at,
                                  const char* forbidden_by) {
    Ref<> reasons = checked(PyList_New(0));
    for (const Shared<Entry>& entry : entries) {
        const std::string reason = entry->explain(frame);
        Ref<> id = entry->compile_id ? entry->compile_id : Ref<>::share(Py_None);
        checked(PyList_Append(reasons.get(), checked(Py_BuildValue("(Os)", id.get(), reason.c_str())).get()));
    }
    Ref<> errors = checked(PyImport_ImportModule("stator.errors"));
    checked(PyObject_CallMethod(errors.get(), "raise_recompile", "ssOO", forbidden_by,
                                callee_of(frame, at).print().c_str(), cpython::code_of(frame), reasons.get()));
    PyErr_SetString(PyExc_RuntimeError, "stator.errors.raise_recompile did not raise");
    throw PythonError();
}

/// Whether the stance allows a capture. Throws PythonError if it requires an error.
bool may_capture(EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    const Stance& stance = current_stance();
    if (stance.has_all_graphs) raise_recompile(point.entries(), frame, at, "skip_guard_eval_unsafe");
    switch (stance.kind) {
        case Stance::Kind::EagerThenCompile:
            return std::exchange(point.has_run, true);
        case Stance::Kind::AotEagerThenCompile:
            point.has_run = true;
            return true;
        case Stance::Kind::EagerOnRecompile:
            return false;
        case Stance::Kind::FailOnRecompile:
            raise_recompile(point.entries(), frame, at, "fail_on_recompile");
        default:
            return true;
    }
}

/// Whether a dispatch mode sees the operations of the frame one by one, so that it runs as it is, even with
/// `fullgraph=True`. A mode with `ignore_compile_internals` does not count.
bool is_seen_by_dispatch_mode() {
    // Older PyTorch has neither of them: operations under a mode break the graph.
    static PyObject* const on_stack =
        find_imported("torch.utils._python_dispatch", "any_torch_dispatch_mode_on_stack").release();
    static PyObject* const around =
        find_imported("torch.utils._python_dispatch", "is_in_any_mode_without_ignore_compile_internals").release();
    if (on_stack == nullptr || around == nullptr) return false;
    const bool reads_stack = dynamo_number("inline_torch_dispatch_torch_compile", 1) != 0;
    return checked(PyObject_CallNoArgs(reads_stack ? on_stack : around)).get() == Py_True;
}

/// FX would record what the uncompiled function does. torch.compile refuses that, unless
/// `torch._dynamo.config.error_on_nested_fx_trace` is off; so does Stator in its place.
void refuse_fx_tracing() {
    static PyObject* const is_tracing = find_imported("torch.fx._symbolic_trace", "is_fx_symbolic_tracing").release();
    if (is_tracing == nullptr || !dynamo_switch("error_on_nested_fx_trace", "")) return;
    if (dynamo_number("force_compile_during_fx_trace", 0) != 0) return;
    if (checked(PyObject_CallNoArgs(is_tracing)).get() != Py_True) return;
    Ref<> is_installed = find_imported("stator.installation", "is_installed");
    if (!is_installed || checked(PyObject_CallNoArgs(is_installed.get())).get() != Py_True) return;
    PyErr_SetString(PyExc_RuntimeError,
                    "Detected that you are using FX to symbolically trace a function that is compiled by "
                    "torch.compile. Trace the function itself, or set "
                    "torch._dynamo.config.error_on_nested_fx_trace = False.");
    throw PythonError();
}

/// Whether the function runs on FakeTensors: a custom operator is asked for the metadata of its result, or a program
/// measures itself. Then it runs as it is, even with `fullgraph=True`.
bool runs_on_fake_tensors(std::span<PyObject* const> held) {
    static PyObject* const mode = find_imported("torch._C", "_get_dispatch_mode").release();
    static PyObject* const key = find_imported("torch._C", "_TorchDispatchModeKey.FAKE").release();
    if (mode != nullptr && key != nullptr && checked(PyObject_CallOneArg(mode, key)).get() != Py_None) return true;
    return std::ranges::any_of(held, [](PyObject* one) { return one != nullptr && torch_room::is_fake(one); });
}

/// Whether the recompile limit allows another entry; removes the entries of freed instances.
bool has_room(EntryPoint& point, cpython::Frame* frame, bytecode::Index at, const CompileOptions& options) {
    // Each instance may have as many entries as the recompile limit allows; more than this in total is considered a
    // mistake, unless the program has set torch's limit on the total.
    constexpr std::size_t kMostInstances = 1024;
    constexpr long kLimit = 8, kAccumulated = 256;  // the defaults
    const long chosen = options.recompile_limit ? *options.recompile_limit : shared_setting("recompile_limit", kLimit);
    const auto limit = static_cast<std::size_t>(std::max(0L, chosen));
    const long accumulated = dynamo_number("accumulated_recompile_limit", kAccumulated);
    const bool is_default = accumulated == kAccumulated;
    const std::size_t most = is_default ? limit * kMostInstances : static_cast<std::size_t>(std::max(0L, accumulated));
    PyObject* instance = instance_of(frame);
    auto is_there = [&] {
        std::size_t competing = 0;
        for (const auto& entry : point.entries()) competing += owner_of(*entry) == instance;
        // torch's limit is for all callables of the code.
        const std::size_t all =
            is_default ? point.entries().size() : EntryCache::entries_of(cpython::code_of(frame), at).size();
        return competing < limit && all < most;
    };
    std::vector<Shared<Entry>> forgotten = point.take_entries_of_freed_instances(/*has_to_be=*/!is_there());
    return is_there();
}

/// Finds numbers that have changed, from the failing guards of existing entries.
void learn_changes(const EntryPoint& point, cpython::Frame* frame, Knowledge& knowledge) {
    // The last ones, so that a capture does not take longer the more there are.
    constexpr std::size_t kMostEntries = 32;
    const std::vector<Shared<Entry>>& all = point.entries();
    std::vector<Shared<Entry>> entries(all.begin(),
                                       all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMostEntries)));
    if (point.first_call) entries.push_back(point.first_call);
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    PyObject* const instance = instance_of(frame);
    for (const Shared<Entry>& entry : entries) {
        if (cpython::code_of(frame) != entry->code.get()) continue;
        const bool is_of_instance = owner_of(*entry) == instance;
        for (std::string& place : entry->guards.changed_numbers(cpython::slots(frame), function)) {
            if (is_of_instance) knowledge.changing_in_place.insert(place);
            knowledge.changing_numbers.insert(std::move(place));
        }
    }
}

/// The stance lets the first call run uncompiled. Sizes and numbers that differ in the second one are symbols at once.
void observe_first_call(EntryCache& cache, EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    Shared<SharedKnowledge> knowledge(&cache.knowledge_of(cpython::code_of(frame)));
    const CompileOptions options = cache.options_with({});
    if (!options.backend) return;
    try {
        point.first_call = observe({frame, at, options}, knowledge->known);
    } catch (const PythonError&) {
        PyErr_Clear();
    } catch (const std::exception& error) {
        report_internal_error(cpython::code_of(frame), error.what());
    }
}

/// The first miss of a callable: it may go on with what a freed one has captured.
bool takes_over_orphan(EntryCache& cache, cpython::Frame* frame, const Ref<>& forced_backend) {
    if (cache.use().code != nullptr) return false;
    PyObject* instance = instance_of(frame);
    cache.set_use({cpython::code_of(frame), cpython::globals_of(frame),
                   instance == nullptr ? nullptr : Py_TYPE(instance), print_capture_settings(cache.options())});
    return orphans::take_over(cache, frame, forced_backend);
}

/// An entry of another callable that was compiled alike for the same code, and that matches this frame too; null if
/// there is none. Many equal layers then cost one capture, and so does a function that is compiled in many places.
Shared<Entry> captured_elsewhere(const EntryCache& cache, cpython::Frame* frame, bytecode::Index at, bool is_main,
                                 const Ref<>& forced_backend) {
    PyObject* instance = instance_of(frame);
    PyObject* const globals = cpython::globals_of(frame);
    for (const auto& [entry, backend, listener, region] : cache.entries_of_others(frame, at, is_main)) {
        const bool is_of_this_kind = (instance != nullptr) == static_cast<bool>(entry->owner);
        if (entry->is_captured && is_of_this_kind && entry->globals == globals && entry->at == at &&
            entry->forced_backend == forced_backend && entry->matches(frame))
            return entry;
    }
    return nullptr;
}

std::string why_last_does_not_fit(const EntryPoint& point, cpython::Frame* frame) {
    if (point.is_empty()) return "the recompile limit is 0";
    Shared<Entry> last = point.entries().front();
    return "the guards of the last entry fail because " + last->explain(frame);
}

/// With `fullgraph=True` nothing runs uncompiled; a setting of torch requires it for all.
bool must_not_run_uncompiled(const CompileOptions& options) {
    return options.fullgraph || dynamo_switch("fail_on_recompile_limit_hit", "");
}

[[noreturn]] void raise_recompile_limit(const EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    std::string callee = callee_of(frame, at).print();
    std::size_t captures = point.entries().size();
    std::string reason = why_last_does_not_fit(point, frame);
    Ref<> errors = checked(PyImport_ImportModule("stator.errors"));
    checked(PyObject_CallMethod(errors.get(), "raise_recompile_limit_hit", "sns", callee.c_str(),
                                static_cast<Py_ssize_t>(captures), reason.c_str()));
    PyErr_SetString(PyExc_RuntimeError, "stator.errors.raise_recompile_limit_hit did not raise");
    throw PythonError();
}

[[noreturn]] void raise_nothing_compiled(cpython::Frame* frame, bytecode::Index at) {
    PyErr_Format(PyExc_RuntimeError,
                 "torch.compile with fullgraph=True found no compiled frames: %s is not compiled, because "
                 "torch._dynamo.config.disable or TORCH_COMPILE_DISABLE is set.",
                 callee_of(frame, at).print().c_str());
    throw PythonError();
}

/// Raises an error if a setting of torch forbids recompiles. Throws PythonError.
void refuse_recompile(const EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    if (!dynamo_switch("error_on_recompile", "")) return;
    raise_recompile(point.entries(), frame, at, "error_on_recompile");
}

void warn_of_recompile_limit(EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    if (point.warned) return;
    point.warned = true;
    const Callee at_limit = callee_of(frame, at);
    std::size_t captures = point.entries().size();
    std::string reason = why_last_does_not_fit(point, frame);
    issue_note(NoteKind::Warning, NoteOnce::AtPlace, "recompile_limit", at_limit,
               "Stator has captured " + at_limit.print() + " " + std::to_string(captures) +
                   " times, which is the recompile limit. Calls that match none of these entries run uncompiled: " +
                   reason + ". Make that value the same on every call, or raise stator.config.recompile_limit.");
}

/// The entries of callables that are compiled alike were tried too: their listeners hear why they do not match.
void tell_others_of_recompile(const EntryCache& cache, cpython::Frame* frame, bytecode::Index at, bool is_main) {
    for (const auto& [entry, backend, listener, region] : cache.entries_of_others(frame, at, is_main))
        if (listener && entry->is_captured) tell_listener_of_recompile(listener.get(), {entry->explain(frame)});
}

/// A new entry for the frame; null if it runs uncompiled. Throws PythonError.
Shared<Entry> capture_new(EntryCache& cache, EntryPoint& point, cpython::Frame* frame, bytecode::Index at,
                          const Ref<>& forced_backend) {
    Shared<Entry> entry;
    CaptureReport report;
    ObservedCapture observed(cache.options(), frame, at, point.entries().size(), report);
    if (report.has_texts || shared_setting("enable_compiler_collectives", 0) != 0) {
        report.callee = callee_of(frame, {0});
        report.start = callee_of(frame, at);
    }
    if (report.has_texts || observed.is_followed())
        for (const Shared<Entry>& other : std::vector(point.entries())) {
            report.recompiled.push_back(other->explain(frame));
            report.compile_ids.push_back(other->compile_id);
            if (!report.has_texts) break;  // the metrics have only the first
        }
    observed.tell_of_recompile(report);
    // Owned here, because a reset may happen meanwhile.
    Shared<SharedKnowledge> knowledge(&cache.knowledge_of(cpython::code_of(frame)));
    if (cache.options().dynamic_shapes != DynamicShapes::Never) learn_changes(point, frame, knowledge->known);
    const CompileOptions options = cache.options_with(forced_backend);
    std::optional<BreakReport> failed;
    try {
        entry = capture({frame, at, options}, *knowledge, report);
    } catch (const std::exception& error) {
        failed = internal_error(cpython::code_of(frame), error.what());
    }
    // Internal errors propagate only with `fullgraph=True`.
    if (failed && cache.options().fullgraph) raise_unsupported(*failed);
    if (failed) report_internal_error(cpython::code_of(frame), failed->reason);
    if (!entry) return nullptr;
    entry->compile_id = observed.compile_id();
    point.first_call = nullptr;
    entry->forced_backend = forced_backend;
    entry->globals = cpython::globals_of(frame);
    if (PyObject* instance = instance_of(frame)) entry->owner = checked(PyWeakref_NewRef(instance, nullptr));
    return entry;
}

/// Tells the callable that a capture is about to begin (python/stator/checks.py); nothing of the frame has run yet if
/// `is_main`. Throws PythonError.
void announce(const EntryCache& cache, bool is_main) {
    ++run_counts.captures;
    if (Ref<> listener = cache.options().before_capture)
        checked(PyObject_CallOneArg(listener.get(), is_main ? Py_True : Py_False));
}

}  // namespace

namespace {

/// Whether anything is lost if no more calls are captured.
bool has_graphs(const EntryPoint& point) {
    return std::ranges::any_of(point.entries(), [](const Shared<Entry>& entry) { return entry->has_graph(); });
}

}  // namespace

Shared<Entry> capture_missing(EntryCache& cache, EntryPoint& point, cpython::Frame* frame, bytecode::Index at,
                              bool is_main, const Ref<>& forced_backend) {
    if (is_main && takes_over_orphan(cache, frame, forced_backend))
        if (Shared<Entry> entry = point.find(frame, forced_backend)) return entry;
    const bool had_run = point.has_run;
    if (!may_capture(point, frame, at)) {
        if (!had_run && point.has_run) observe_first_call(cache, point, frame, at);
        return nullptr;
    }
    refuse_fx_tracing();
    if (dynamo_switch("disable", "TORCH_COMPILE_DISABLE")) {
        // As in torch.compile, which checks that only for the default stance.
        if (is_main && cache.options().fullgraph && current_stance().kind == Stance::Kind::Default)
            raise_nothing_compiled(frame, at);
        return nullptr;
    }
    const std::span<PyObject*> held(cpython::slots(frame), static_cast<std::size_t>(cpython::slot_count(frame)));
    if (is_seen_by_dispatch_mode() || runs_on_fake_tensors(held) || is_skipped(cpython::code_of(frame))) return nullptr;
    cache.note_entered();
    // The garbage collector has cleared the callable, and a finalizer calls it.
    if (!cache.options().backend) return nullptr;
    if (!point.is_empty()) refuse_recompile(point, frame, at);
    if (!has_room(point, frame, at, cache.options())) {
        if (must_not_run_uncompiled(cache.options())) raise_recompile_limit(point, frame, at);
        if (is_main || has_graphs(point)) warn_of_recompile_limit(point, frame, at);
        return nullptr;
    }
    if (Shared<Entry> entry = captured_elsewhere(cache, frame, at, is_main, forced_backend)) {
        point.add(entry);
        return entry->matches(frame) ? entry : nullptr;
    }
    announce(cache, is_main);
    if (!point.is_empty()) tell_others_of_recompile(cache, frame, at, is_main);
    // What observes the capture runs code at its end. That is before the guards are checked: another thread may check
    // the guards of an entry as soon as a cache has it.
    Shared<Entry> entry = capture_new(cache, point, frame, at, forced_backend);
    if (!entry) return nullptr;
    point.add(entry);
    // The first run takes the same path as every later one.
    return !entry->is_captured || entry->matches(frame) ? entry : nullptr;
}

void rehearse_miss() {
    current_stance();
    refuse_fx_tracing();
    is_seen_by_dispatch_mode();
    PyObject* const no_tensor = Py_None;
    runs_on_fake_tensors({&no_tensor, 1});
    dynamo_switch("disable", "TORCH_COMPILE_DISABLE");
    dynamo_number("accumulated_recompile_limit", 0);
    shared_setting("recompile_limit", 0);
}

}  // namespace stator
