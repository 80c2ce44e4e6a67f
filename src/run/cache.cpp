#include "run/cache.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/python_error.h"

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

Shared<EntryPoint> EntryCache::inner_point(cpython::Frame* frame, bytecode::Index at) {
    Shared<EntryPoint>& point = inner_[{cpython::code_of(frame), at}];
    if (!point) point = Shared<EntryPoint>::make();
    return point;
}

CompileOptions EntryCache::options_with(const Ref<>& forced_backend) const {
    CompileOptions options = options_;
    if (forced_backend) {
        Ref<> backends = checked(PyImport_ImportModule("stator.backends"));
        options.backend = checked(PyObject_CallMethod(backends.get(), "resolve_forced", "O", forced_backend.get()));
    }
    return options;
}

SharedKnowledge& EntryCache::knowledge_of(PyCodeObject* code) {
    if (auto known = knowledge_.find(code); known != knowledge_.end()) return *known->second;
    // Instances of a class, and functions made by one `def`, share what was learned.
    Shared<SharedKnowledge> shared;
    for (EntryCache* other : std::vector<EntryCache*>(all_caches().begin(), all_caches().end())) {
        // Comparing backends may run any code, and may free a cache.
        if (other == this || !all_caches().contains(other)) continue;
        auto found = other->knowledge_.find(code);
        if (found == other->knowledge_.end()) continue;
        shared = found->second;
        if (compiles_like(*other)) break;
        shared = nullptr;
    }
    if (!shared) {
        shared = Shared<SharedKnowledge>::make();
        if (options_.is_isolated) shared->known.add(changes_seen_by_others(code));
    }
    return *knowledge_.insert_or_assign(code, std::move(shared)).first->second;
}

Knowledge EntryCache::changes_seen_by_others(PyCodeObject* code) const {
    Knowledge changes;
    for (const EntryCache* other : all_caches()) {
        auto found = other->knowledge_.find(code);
        if (other == this || found == other->knowledge_.end()) continue;
        const Knowledge& known = found->second->known;
        changes.changing_numbers.insert(known.changing_numbers.begin(), known.changing_numbers.end());
        changes.changing_in_place.insert(known.changing_in_place.begin(), known.changing_in_place.end());
    }
    return changes;
}

bool EntryCache::compiles_like(const EntryCache& other) const {
    if (other.options_.is_isolated || options_.fullgraph != other.options_.fullgraph ||
        options_.registers_attributes != other.options_.registers_attributes ||
        options_.dynamic_shapes != other.options_.dynamic_shapes ||
        options_.guard_filter != other.options_.guard_filter)
        return false;
    // Comparing backends may run code that frees the other cache.
    Ref<> own = options_.backend, others = other.options_.backend;
    if (!own || !others) return false;
    int is_same = PyObject_RichCompareBool(own.get(), others.get(), Py_EQ);
    if (is_same < 0) PyErr_Clear();
    return is_same == 1;
}

std::vector<OwnedEntry> EntryCache::entries_of_others(cpython::Frame* frame, bytecode::Index at, bool is_main) const {
    PyCodeObject* code = cpython::code_of(frame);
    std::vector<OwnedEntry> found;
    for (const EntryCache* other : std::vector<EntryCache*>(all_caches().begin(), all_caches().end())) {
        // Comparing backends may run any code, and may free a cache.
        if (other == this || !all_caches().contains(const_cast<EntryCache*>(other))) continue;
        auto inner = other->inner_.find({code, at});
        Shared<EntryPoint> point = is_main ? other->start_ : inner == other->inner_.end() ? nullptr : inner->second;
        if (!point || point->is_empty() || point->entries()[0]->code.get() != code) continue;
        if (other->use_.settings != use_.settings) continue;
        std::vector<OwnedEntry> entries;
        for (const Shared<Entry>& entry : point->entries()) entries.push_back(other->owned(entry));
        if (compiles_like(*other)) std::ranges::move(entries, std::back_inserter(found));
    }
    return found;
}

std::vector<OwnedEntry> EntryCache::entries_of(PyCodeObject* code, bytecode::Index at) {
    std::vector<OwnedEntry> found;
    auto add = [&](const EntryCache& cache, const EntryPoint& point) {
        for (const Shared<Entry>& entry : point.entries()) {
            const bool is_known = std::ranges::find(found, entry.get(), [](const OwnedEntry& one) {
                                      return one.entry.get();
                                  }) != found.end();
            if (entry->is_captured && entry->code.get() == code && entry->at == at && !is_known)
                found.push_back(cache.owned(entry));
        }
    };
    for (const EntryCache* cache : all_caches()) {
        add(*cache, *cache->start_);
        if (auto inner = cache->inner_.find({code, at}); inner != cache->inner_.end()) add(*cache, *inner->second);
    }
    return found;
}

std::vector<bytecode::Index> EntryCache::resumed_at(PyCodeObject* code) {
    std::vector<bytecode::Index> found;
    for (const EntryCache* cache : all_caches())
        for (const auto& [place, point] : cache->inner_) {
            const auto& [its_code, at] = place;
            const bool is_resumed = its_code == code && at.value != 0 && !point->is_empty();
            if (is_resumed && std::ranges::find(found, at) == found.end()) found.push_back(at);
        }
    std::ranges::sort(found, {}, &bytecode::Index::value);
    return found;
}

void EntryCache::take_over(EntryCache& other) {
    // The last used one is the first.
    std::vector<Shared<Entry>> entries = other.start_->entries();
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) start_->add(*entry);
    start_->warned = other.start_->warned;
    start_->has_run = other.start_->has_run;
    inner_.merge(other.inner_);
    knowledge_.merge(other.knowledge_);
}

void EntryCache::learn_from(const EntryCache& other) {
    for (const auto& [code, knowledge] : other.knowledge_) knowledge_.try_emplace(code, knowledge);
}

void EntryCache::clear() {
    // Releasing an entry may run any code, which must find the cache empty.
    Shared<EntryPoint> start = std::exchange(start_, Shared<EntryPoint>::make());
    auto inner = std::exchange(inner_, {});
    auto knowledge = std::exchange(knowledge_, {});
}

std::vector<Shared<Entry>> EntryCache::entries() const {
    std::vector<Shared<Entry>> all = start_->entries();
    for (const auto& [place, point] : inner_) all.insert(all.end(), point->entries().begin(), point->entries().end());
    return all;
}

void EntryCache::visit(const std::function<void(PyObject*)>& visitor) const {
    if (options_.backend) visitor(options_.backend.get());
    if (options_.listener) visitor(options_.listener.get());
    if (options_.before_capture) visitor(options_.before_capture.get());
    if (options_.guard_filter) visitor(options_.guard_filter.get());
    // Points and entries that are shared with another cache or are in use have other owners: the collector must treat
    // them as referenced from outside.
    auto visit_own = [&](const Shared<EntryPoint>& point) {
        if (!point.is_only_owner()) return;
        for (const Shared<Entry>& entry : point->entries())
            if (entry.is_only_owner()) entry->visit(visitor);
    };
    visit_own(start_);
    for (const auto& [place, point] : inner_) visit_own(point);
}

}  // namespace stator
