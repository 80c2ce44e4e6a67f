#include "run/cache.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/code_object.h"
#include "run/frame_run.h"
#include "run/notes.h"
#include "run/report.h"
#include "run/settings.h"
#include "run/stance.h"
#include "value/compiling.h"

namespace stator {

namespace {

std::unordered_set<EntryCache*>& all_caches() {
    static auto* const caches = new std::unordered_set<EntryCache*>();
    return *caches;
}

}  // namespace

EntryCache::EntryCache(CompileOptions options) : options_(std::move(options)), start_(Shared<EntryPoint>::make()) {
    all_caches().insert(this);
}

EntryCache::~EntryCache() {
    all_caches().erase(this);
}

PyObject* EntryCache::run(PyThreadState* thread, cpython::Frame* frame, bool is_main) {
    const bytecode::Code* code = nullptr;
    try {
        code = &bytecode::decode(cpython::code_of(frame));
    } catch (const PythonError&) {
        return cpython::run_raising(thread, frame, cpython::body_start(cpython::code_of(frame)));
    } catch (const std::exception& error) {
        report_internal_error(cpython::code_of(frame), error.what());
        return cpython::run_untouched(thread, frame);
    }
    return FrameRun(*this, thread, frame, *code, {0}, is_main).go_on();
}

Shared<EntryPoint> EntryCache::inner_point(cpython::Frame* frame, bytecode::Index at) {
    Shared<EntryPoint>& point = inner_[{cpython::code_of(frame), at}];
    if (!point) point = Shared<EntryPoint>::make();
    return point;
}

Shared<Entry> EntryCache::find_or_capture(cpython::Frame* frame, bytecode::Index at, bool is_main) {
    Shared<EntryPoint> point = point_at(frame, at, is_main);
    const Stance& stance = current_stance();
    if (stance.kind == Stance::Kind::ForceEager) return nullptr;
    bool is_first_with_aot = stance.kind == Stance::Kind::AotEagerThenCompile && !point->has_run;
    Ref<> forced_backend = is_first_with_aot ? Ref<>::share(interned("aot_eager")) : stance.backend;
    Shared<Entry> entry = point->find(frame, forced_backend);
    if (!entry && may_capture(*point, frame, at)) entry = miss(*point, frame, at, is_main, forced_backend);
    if (point.is_only_owner() && entry) [[unlikely]] {
        // A reset took the point away meanwhile. Releasing it may run code, and what the guards have fetched is only
        // good until code runs.
        point = nullptr;
        if (entry->is_captured && !entry->matches(frame)) return nullptr;
    }
    return entry;
}

namespace {

/// The instance whose method a frame executes, if it is one that can be referred to weakly; borrowed.
PyObject* instance_of(cpython::Frame* frame) {
    PyCodeObject* code = cpython::code_of(frame);
    if (code->co_argcount == 0 || utf8(cpython::slot_name(code, 0)) != "self") return nullptr;
    PyObject* first = cpython::slots(frame)[0];
    if (first != nullptr && PyCell_Check(first)) first = PyCell_GET(first);
    if (first == nullptr || PyType_Check(first) || !PyType_HasFeature(Py_TYPE(first), Py_TPFLAGS_HEAPTYPE))
        return nullptr;
    return PyType_SUPPORTS_WEAKREFS(Py_TYPE(first)) ? first : nullptr;
}

CompileOptions with_backend(const CompileOptions& options, const Ref<>& backend) {
    Ref<> backends = checked(PyImport_ImportModule("stator.backends"));
    CompileOptions other = options;
    other.backend = checked(PyObject_CallMethod(backends.get(), "resolve_forced", "O", backend.get()));
    return other;
}

[[noreturn]] void raise_recompile(const std::vector<Shared<Entry>> entries, cpython::Frame* frame, bytecode::Index at) {
    std::string reasons;
    for (const auto& entry : entries) reasons += "\n- " + entry->explain(frame);
    if (reasons.empty()) reasons = " nothing was captured yet";
    PyErr_Format(PyExc_RuntimeError,
                 "Detected recompile when torch.compile stance is 'fail_on_recompile'. %s would have to be "
                 "captured, because:%s\nMake that the same on every call, or call it once under the default stance.",
                 callee_of(frame, at).print().c_str(), reasons.c_str());
    throw PythonError();
}

}  // namespace

bool EntryCache::may_capture(EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    switch (current_stance().kind) {
        case Stance::Kind::EagerThenCompile:
            return std::exchange(point.has_run, true);
        case Stance::Kind::AotEagerThenCompile:
            point.has_run = true;
            return true;
        case Stance::Kind::EagerOnRecompile:
            return false;
        case Stance::Kind::FailOnRecompile:
            raise_recompile(point.entries(), frame, at);
        default:
            return true;
    }
}

bool EntryCache::has_room(EntryPoint& point, cpython::Frame* frame) {
    // Each instance may have as many as the recompile limit allows; this many together are taken for a mistake.
    constexpr std::size_t kMostInstances = 1024;
    auto limit = static_cast<std::size_t>(std::max(0L, setting("recompile_limit", 8)));
    PyObject* instance = instance_of(frame);
    auto is_there = [&] {
        std::size_t competing = 0;
        for (const auto& entry : point.entries())
            competing += (entry->owner ? PyWeakref_GET_OBJECT(entry->owner.get()) : nullptr) == instance;
        return competing < limit && point.entries().size() < limit * kMostInstances;
    };
    std::vector<Shared<Entry>> forgotten = point.take_forgotten(/*has_to_be=*/!is_there());
    return is_there();
}

void EntryCache::learn_changes(const EntryPoint& point, cpython::Frame* frame) {
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    for (const Shared<Entry>& entry : std::vector(point.entries())) {
        if (cpython::code_of(frame) != entry->code.get()) continue;
        for (std::string& place : entry->guards.changed_numbers(cpython::slots(frame), function))
            dynamic_[cpython::code_of(frame)].changing.insert(std::move(place));
    }
}

Learnt EntryCache::learnt_of(PyCodeObject* code) const {
    auto numbers = dynamic_.find(code);
    return {numbers == dynamic_.end() ? DynamicSources() : numbers->second, called_whole_};
}

bool EntryCache::compiles_like(const EntryCache& other) const {
    if (options_.fullgraph != other.options_.fullgraph ||
        options_.registers_attributes != other.options_.registers_attributes)
        return false;
    // Comparing may be the end of the other cache.
    Ref<> own = options_.backend, others = other.options_.backend;
    if (!own || !others) return false;
    int is_same = PyObject_RichCompareBool(own.get(), others.get(), Py_EQ);
    if (is_same < 0) PyErr_Clear();
    return is_same == 1;
}

Shared<Entry> EntryCache::captured_for_another(cpython::Frame* frame, bytecode::Index at, bool is_main,
                                               const Ref<>& forced_backend) const {
    PyObject* instance = instance_of(frame);
    if (instance == nullptr) return nullptr;
    PyCodeObject* code = cpython::code_of(frame);
    std::vector<Shared<Entry>> candidates;
    for (const EntryCache* other : std::vector<EntryCache*>(all_caches().begin(), all_caches().end())) {
        // Comparing backends may run anything, and be the end of a cache.
        if (other == this || !all_caches().contains(const_cast<EntryCache*>(other))) continue;
        auto inner = other->inner_.find({code, at});
        Shared<EntryPoint> point = is_main ? other->start_ : inner == other->inner_.end() ? nullptr : inner->second;
        if (!point || point->is_empty() || point->entries()[0]->code.get() != code) continue;
        std::vector<Shared<Entry>> entries = point->entries();
        if (compiles_like(*other)) candidates.insert(candidates.end(), entries.begin(), entries.end());
    }
    for (const Shared<Entry>& entry : candidates) {
        bool is_of_another = entry->owner && PyWeakref_GET_OBJECT(entry->owner.get()) != instance;
        if (entry->is_captured && is_of_another && entry->at == at && entry->forced_backend == forced_backend &&
            entry->matches(frame))
            return entry;
    }
    return nullptr;
}

Shared<Entry> EntryCache::miss(EntryPoint& point, cpython::Frame* frame, bytecode::Index at, bool is_main,
                               const Ref<>& forced_backend) {
    was_entered_ = true;
    // The collector has taken the callable apart, and something that it finalizes calls it all the same.
    if (!options_.backend) return nullptr;
    if (!has_room(point, frame)) {
        if (options_.fullgraph) raise_recompile_limit(point, frame, at);
        warn_of_recompile_limit(point, frame, at);
        return nullptr;
    }
    if (Shared<Entry> entry = captured_for_another(frame, at, is_main, forced_backend)) {
        point.add(entry);
        return entry->matches(frame) ? entry : nullptr;
    }
    Shared<Entry> entry;
    CaptureReport report;
    if (report_listener != nullptr || setting("enable_compiler_collectives", 0) != 0) {
        report.callee = callee_of(frame, {0});
        report.start = callee_of(frame, at);
    }
    if (report_listener != nullptr)
        for (const Shared<Entry>& other : std::vector(point.entries()))
            report.recompiled.push_back(other->explain(frame));
    learn_changes(point, frame);
    Learnt learnt = learnt_of(cpython::code_of(frame));
    std::optional<BreakReport> failed;
    try {
        OuterTraceAside aside;
        entry = capture(frame, at, forced_backend ? with_backend(options_, forced_backend) : options_, learnt, report);
    } catch (const std::exception& error) {
        failed = internal_error(cpython::code_of(frame), error.what());
    }
    // An error of Stator's own reaches the program only where that asks for it.
    if (failed && options_.fullgraph) raise_unsupported(*failed);
    if (failed) report_internal_error(cpython::code_of(frame), failed->reason);
    if (!entry) return nullptr;
    entry->forced_backend = forced_backend;
    if (PyObject* instance = instance_of(frame)) entry->owner = checked(PyWeakref_NewRef(instance, nullptr));
    point.add(entry);
    // The first run takes the way of every later one.
    return !entry->is_captured || entry->matches(frame) ? entry : nullptr;
}

namespace {

std::string why_last_does_not_fit(const EntryPoint& point, cpython::Frame* frame) {
    if (point.is_empty()) return "nothing may be captured";
    Shared<Entry> last = point.entries().front();
    return "the last capture does not fit because " + last->explain(frame);
}

}  // namespace

void EntryCache::raise_recompile_limit(const EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    std::string callee = callee_of(frame, at).print();
    std::size_t captures = point.entries().size();
    std::string reason = why_last_does_not_fit(point, frame);
    Ref<> errors = checked(PyImport_ImportModule("stator.errors"));
    checked(PyObject_CallMethod(errors.get(), "raise_recompile_limit_hit", "sns", callee.c_str(),
                                static_cast<Py_ssize_t>(captures), reason.c_str()));
    PyErr_SetString(PyExc_RuntimeError, "stator.errors.raise_recompile_limit_hit did not raise");
    throw PythonError();
}

void EntryCache::warn_of_recompile_limit(EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    if (point.warned) return;
    point.warned = true;
    const Callee at_limit = callee_of(frame, at);
    std::size_t captures = point.entries().size();
    std::string reason = why_last_does_not_fit(point, frame);
    tell(NoteKind::Warning, NoteOnce::AtPlace, "recompile_limit", at_limit,
         "Stator has captured " + at_limit.print() + " " + std::to_string(captures) +
             " times, which is the recompile limit: these are kept, and further variants run uncompiled: " + reason +
             ". Make that the same on every call, or raise stator.config.recompile_limit.");
}

void EntryCache::clear() {
    // Releasing an entry may run anything; it must find the cache empty by then.
    Shared<EntryPoint> start = std::exchange(start_, Shared<EntryPoint>::make());
    auto inner = std::exchange(inner_, {});
    auto whole = std::exchange(called_whole_, {});
    dynamic_.clear();
}

std::vector<Shared<Entry>> EntryCache::entries() const {
    std::vector<Shared<Entry>> all = start_->entries();
    for (const auto& [place, point] : inner_) all.insert(all.end(), point->entries().begin(), point->entries().end());
    return all;
}

void EntryCache::visit(const std::function<void(PyObject*)>& visitor) const {
    if (options_.backend) visitor(options_.backend.get());
    // What two caches share, or what runs, is nobody's alone: to the collector it is held from elsewhere.
    auto visit_own = [&](const Shared<EntryPoint>& point) {
        if (!point.is_only_owner()) return;
        for (const Shared<Entry>& entry : point->entries())
            if (entry.is_only_owner()) entry->visit(visitor);
    };
    visit_own(start_);
    for (const auto& [place, point] : inner_) visit_own(point);
}

}  // namespace stator
