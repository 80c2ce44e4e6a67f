#include "run/entry_point.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace stator {

namespace {

using Expected = GuardProgram::Expected;

/// How well a source discriminates between entries.
struct Candidate {
    Expected at;
    Entry* entry = nullptr;  // the last counted entry that has it
    std::size_t entries = 0;
    std::unordered_map<std::uint64_t, std::size_t> count_by_key;

    /// How many entries remain to be checked in the worst case.
    std::size_t left(std::size_t all) const {
        std::size_t most = 0;
        for (const auto& [key, count] : count_by_key) most = std::max(most, count);
        return all - entries + most;
    }
};

const Expected* find_place(const std::vector<Expected>& expected, const Expected& at) {
    auto found = std::ranges::find_if(
        expected, [&](const Expected& one) { return one.kind == at.kind && one.place == at.place; });
    return found == expected.end() ? nullptr : &*found;
}

}  // namespace

void EntryIndex::build(const std::vector<Shared<Entry>>& entries) {
    std::map<std::pair<std::string, GuardKind>, Candidate> candidates;
    for (const Shared<Entry>& entry : entries)
        for (const Expected& expected : entry->guards.expected()) {
            Candidate& candidate = candidates[{expected.place, expected.kind}];
            // Of two guards of the same kind on one source the first one counts, here and in `find_place`.
            if (candidate.entry == entry.get()) continue;
            candidate.entry = entry.get();
            candidate.at = expected;
            ++candidate.entries;
            ++candidate.count_by_key[expected.key];
        }
    const Candidate* best = nullptr;
    std::size_t least = entries.size();
    for (const auto& [place, candidate] : candidates)
        if (std::size_t left = candidate.left(entries.size()); left < least) {
            least = left;
            best = &candidate;
        }
    reader_ = best == nullptr ? nullptr : best->entry;
    if (best != nullptr) at_ = best->at;
    buckets_.clear();
    anywhere_.clear();
    size_ = 0;
    for (const Shared<Entry>& entry : entries) add(entry.get());
    built_for_ = entries.size();
}

bool EntryIndex::add(Entry* entry) {
    ++size_;
    if (reader_ != nullptr) {
        std::vector<Expected> expected = entry->guards.expected();
        const Expected* here = find_place(expected, at_);
        (here == nullptr ? anywhere_ : buckets_[here->key]).push_back(entry);
    }
    return size_ >= 2 * built_for_;
}

EntryIndex::Bucket* EntryIndex::bucket_for(cpython::Frame* frame) {
    if (reader_ == nullptr) return nullptr;
    Shared<Entry> reader(reader_);
    auto* function = reinterpret_cast<PyObject*>(cpython::function_of(frame));
    auto key = reader->guards.found(at_, cpython::slots(frame), function);
    if (!key) return nullptr;
    auto found = buckets_.find(*key);
    return found == buckets_.end() ? &none_ : &found->second;
}

void EntryPoint::add(Shared<Entry> entry) {
    Entry* added = entry.get();
    entries_.insert(entries_.begin(), std::move(entry));
    ++changes_;
    recent_ = added;
    if (entries_.size() <= kFew) return;
    if (entries_.size() == kFew + 1 || index_.add(added)) index_.build(entries_);
}

std::vector<Shared<Entry>> EntryPoint::take_entries_of_freed_instances(bool has_to_be) {
    std::vector<Shared<Entry>> forgotten;
    if (!has_to_be && entries_.size() < sweep_at_) return forgotten;
    std::erase_if(entries_, [&](const Shared<Entry>& entry) {
        bool is_gone = entry->owner && PyWeakref_GET_OBJECT(entry->owner.get()) == Py_None;
        if (is_gone) forgotten.push_back(entry);
        return is_gone;
    });
    sweep_at_ = std::max<std::size_t>(32, 2 * entries_.size());
    if (forgotten.empty()) return forgotten;
    ++changes_;
    recent_ = nullptr;
    index_.build(entries_);
    return forgotten;
}

void EntryPoint::bring_to_front(const Entry* entry) {
    // Checking guards may have run code that changed the list.
    auto place = std::ranges::find_if(entries_, [&](const Shared<Entry>& one) { return one.get() == entry; });
    if (place != entries_.end()) std::rotate(entries_.begin(), place, place + 1);
}

Shared<Entry> EntryPoint::find_among_many(cpython::Frame* frame, const Ref<>& forced_backend) {
    const std::uint64_t changes = changes_;
    auto fits = [&](Entry* entry) { return entry->forced_backend == forced_backend && entry->matches(frame); };
    Entry* tried = recent_;
    if (tried != nullptr) {
        Shared<Entry> entry(tried);
        if (fits(tried)) return entry;
    }
    // If checking guards ran code that changed the list, the lookup fails.
    if (changes_ != changes) return nullptr;
    EntryIndex::Bucket* bucket = index_.bucket_for(frame);
    if (changes_ != changes) return nullptr;
    if (bucket == nullptr) {
        for (std::size_t i = 0; i < entries_.size() && changes_ == changes; ++i) {
            Shared<Entry> entry = entries_[i];
            if (entry.get() == tried || !fits(entry.get())) continue;
            if (changes_ == changes) recent_ = entry.get();
            return entry;
        }
        return nullptr;
    }
    for (EntryIndex::Bucket* candidates : {bucket, &index_.anywhere()})
        for (std::size_t i = 0; changes_ == changes && i < candidates->size(); ++i) {
            Shared<Entry> entry((*candidates)[i]);
            if (entry.get() == tried || !fits(entry.get())) continue;
            if (changes_ == changes) {
                recent_ = entry.get();
                std::swap(candidates->front(), (*candidates)[i]);
            }
            return entry;
        }
    return nullptr;
}

}  // namespace stator
