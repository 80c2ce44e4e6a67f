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

namespace stator {

namespace {

std::unordered_set<EntryCache*>& all_caches() {
    static auto* const caches = new std::unordered_set<EntryCache*>();
    return *caches;
}

}  // namespace

EntryCache::EntryCache(CompileOptions options) : options_(std::move(options)) {
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

EntryCache::EntryPoint& EntryCache::point_at(cpython::Frame* frame, bytecode::Index at, bool is_main) {
    return is_main ? start_ : inner_[{cpython::code_of(frame), at}];
}

std::shared_ptr<Entry> EntryCache::find_or_capture(cpython::Frame* frame, bytecode::Index at, bool is_main) {
    EntryPoint& point = point_at(frame, at, is_main);
    const Stance& stance = current_stance();
    if (stance.kind == Stance::Kind::ForceEager) return nullptr;
    bool is_first_with_aot = stance.kind == Stance::Kind::AotEagerThenCompile && !point.has_run;
    Ref<> forced_backend = is_first_with_aot ? Ref<>::share(interned("aot_eager")) : stance.backend;
    std::vector<std::shared_ptr<Entry>>& entries = point.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i]->forced_backend != forced_backend || !entries[i]->matches(frame)) continue;
        auto place = entries.begin() + static_cast<std::ptrdiff_t>(i);
        if (i > 0) std::rotate(entries.begin(), place, place + 1);
        return entries[0];
    }
    return may_capture(point, frame, at) ? miss(frame, at, is_main, forced_backend) : nullptr;
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

int line_of(PyCodeObject* code, bytecode::Index at) {
    return at.value == 0 ? code->co_firstlineno : bytecode::decode(code)[at].line;
}

CompileOptions with_backend(const CompileOptions& options, const Ref<>& backend) {
    Ref<> backends = checked(PyImport_ImportModule("stator.backends"));
    CompileOptions other = options;
    other.backend = checked(PyObject_CallMethod(backends.get(), "resolve_forced", "O", backend.get()));
    return other;
}

[[noreturn]] void raise_recompile(const std::vector<std::shared_ptr<Entry>>& entries, cpython::Frame* frame,
                                  bytecode::Index at) {
    PyCodeObject* code = cpython::code_of(frame);
    std::string reasons;
    for (const auto& entry : entries) reasons += "\n- " + entry->explain(frame);
    if (reasons.empty()) reasons = " nothing was captured yet";
    PyErr_Format(PyExc_RuntimeError,
                 "Detected recompile when torch.compile stance is 'fail_on_recompile'. %U (%U:%d) would have to be "
                 "captured, because:%s\nMake that the same on every call, or call it once under the default stance.",
                 code->co_qualname, code->co_filename, line_of(code, at), reasons.c_str());
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
            raise_recompile(point.entries, frame, at);
        default:
            return true;
    }
}

bool EntryCache::has_room(EntryPoint& point, cpython::Frame* frame) {
    // However many instances there are, look-up is a walk over all of them.
    constexpr std::size_t kMostInstances = 32;
    auto bound = static_cast<std::size_t>(setting("entry_bound", 8));
    PyObject* instance = instance_of(frame);
    auto is_there = [&] {
        std::size_t competing = 0;
        for (const auto& entry : point.entries)
            competing += (entry->owner ? PyWeakref_GET_OBJECT(entry->owner.get()) : nullptr) == instance;
        return competing < bound && point.entries.size() < bound * kMostInstances;
    };
    if (is_there()) return true;
    std::vector<std::shared_ptr<Entry>> forgotten;  // to go when the list is whole again
    std::erase_if(point.entries, [&](const std::shared_ptr<Entry>& entry) {
        bool is_gone = entry->owner && PyWeakref_GET_OBJECT(entry->owner.get()) == Py_None;
        if (is_gone) forgotten.push_back(entry);
        return is_gone;
    });
    return is_there();
}

void EntryCache::learn_changes(const EntryPoint& point, cpython::Frame* frame) {
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    for (const auto& entry : point.entries) {
        if (cpython::code_of(frame) != entry->code.get()) continue;
        for (std::string& place : entry->guards.changed_numbers(cpython::slots(frame), function))
            dynamic_[cpython::code_of(frame)].changing.insert(std::move(place));
    }
}

bool EntryCache::compiles_like(const EntryCache& other) const {
    if (options_.fullgraph != other.options_.fullgraph ||
        options_.registers_attributes != other.options_.registers_attributes)
        return false;
    if (!options_.backend || !other.options_.backend) return false;
    int is_same = PyObject_RichCompareBool(options_.backend.get(), other.options_.backend.get(), Py_EQ);
    if (is_same < 0) PyErr_Clear();
    return is_same == 1;
}

std::shared_ptr<Entry> EntryCache::captured_for_another(cpython::Frame* frame, bytecode::Index at, bool is_main,
                                                        const Ref<>& forced_backend) const {
    PyObject* instance = instance_of(frame);
    if (instance == nullptr) return nullptr;
    PyCodeObject* code = cpython::code_of(frame);
    std::vector<std::shared_ptr<Entry>> candidates;
    for (const EntryCache* other : std::vector<EntryCache*>(all_caches().begin(), all_caches().end())) {
        // Comparing backends may run anything, and be the end of a cache.
        if (other == this || !all_caches().contains(const_cast<EntryCache*>(other))) continue;
        auto inner = other->inner_.find({code, at});
        const EntryPoint* point = is_main ? &other->start_ : inner == other->inner_.end() ? nullptr : &inner->second;
        if (point == nullptr || point->entries.empty() || point->entries[0]->code.get() != code) continue;
        std::vector<std::shared_ptr<Entry>> entries = point->entries;
        if (compiles_like(*other)) candidates.insert(candidates.end(), entries.begin(), entries.end());
    }
    for (const std::shared_ptr<Entry>& entry : candidates) {
        bool is_of_another = entry->owner && PyWeakref_GET_OBJECT(entry->owner.get()) != instance;
        if (entry->is_captured && is_of_another && entry->at == at && entry->forced_backend == forced_backend &&
            entry->matches(frame))
            return entry;
    }
    return nullptr;
}

std::shared_ptr<Entry> EntryCache::miss(cpython::Frame* frame, bytecode::Index at, bool is_main,
                                        const Ref<>& forced_backend) {
    if (EntryPoint& point = point_at(frame, at, is_main); !options_.fullgraph && !has_room(point, frame)) {
        warn_of_bound(point, frame, at);
        return nullptr;
    }
    if (std::shared_ptr<Entry> entry = captured_for_another(frame, at, is_main, forced_backend)) {
        EntryPoint& point = point_at(frame, at, is_main);
        point.entries.insert(point.entries.begin(), entry);
        return entry;
    }
    EntryPoint& point = point_at(frame, at, is_main);
    std::shared_ptr<Entry> entry;
    CaptureReport report;
    report.line = line_of(cpython::code_of(frame), at);
    if (report_listener != nullptr)
        for (const auto& other : point.entries) report.recompiled.push_back(other->explain(frame));
    learn_changes(point, frame);
    std::optional<BreakReport> failed;
    try {
        entry = capture(frame, at, forced_backend ? with_backend(options_, forced_backend) : options_, report);
    } catch (const std::exception& error) {
        failed = internal_error(cpython::code_of(frame), error.what());
    }
    // An error of Stator's own reaches the program only where that asks for it.
    if (failed && options_.fullgraph) raise_unsupported(*failed);
    if (failed) report_internal_error(cpython::code_of(frame), failed->reason);
    if (entry == nullptr) return nullptr;
    entry->forced_backend = forced_backend;
    if (PyObject* instance = instance_of(frame)) entry->owner = checked(PyWeakref_NewRef(instance, nullptr));
    // Capturing runs the backend, which may run anything, this callable included.
    EntryPoint& now = point_at(frame, at, is_main);
    now.entries.insert(now.entries.begin(), entry);
    // The first run takes the way of every later one.
    return !entry->is_captured || entry->matches(frame) ? entry : nullptr;
}

void EntryCache::warn_of_bound(EntryPoint& point, cpython::Frame* frame, bytecode::Index at) {
    if (point.warned) return;
    point.warned = true;
    PyCodeObject* code = cpython::code_of(frame);
    const int line = line_of(code, at);
    tell(NoteKind::Warning, NoteOnce::AtPlace, "entry_bound", code, line,
         "Stator has captured " + place_of(code, line) + " " + std::to_string(point.entries.size()) +
             " times, which is the bound: these are kept, and further variants run uncompiled. The last capture does "
             "not fit because " +
             point.entries.front()->explain(frame) +
             ". Make that the same on every call, or raise stator.config.entry_bound.");
}

void EntryCache::clear() {
    // Releasing an entry may run anything; it must find the cache empty by then.
    EntryPoint start;
    std::unordered_map<Place, EntryPoint, HashPlace> inner;
    std::swap(start, start_);
    std::swap(inner, inner_);
    dynamic_.clear();
    called_whole_.clear();
}

std::vector<std::shared_ptr<Entry>> EntryCache::entries() const {
    std::vector<std::shared_ptr<Entry>> all = start_.entries;
    for (const auto& [place, point] : inner_) all.insert(all.end(), point.entries.begin(), point.entries.end());
    return all;
}

void EntryCache::visit(const std::function<void(PyObject*)>& visitor) const {
    if (options_.backend) visitor(options_.backend.get());
    // What two caches share is nobody's alone: to the collector it is held from elsewhere.
    auto visit_own = [&](const std::shared_ptr<Entry>& entry) {
        if (entry.use_count() == 1) entry->visit(visitor);
    };
    for (const auto& entry : start_.entries) visit_own(entry);
    for (const auto& [place, point] : inner_)
        for (const auto& entry : point.entries) visit_own(entry);
}

}  // namespace stator
