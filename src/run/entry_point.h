/// The entries that start at one instruction of a function, and the lookup of the one for a frame. A lookup may run
/// Python code that does anything: capture, reset, drop the callable. So the caller of a lookup owns the point
/// (`Shared`), and each entry while it is checked.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/shared.h"
#include "capture/entry.h"

namespace stator {

/// Finds entries by the value that they expect at one source of the frame: an argument's value or sizes, an attribute,
/// the instance. The source is the one that leaves the fewest entries to check.
class EntryIndex {
  public:
    /// Borrowed: the index is rebuilt when an entry is removed.
    using Bucket = std::vector<Entry*>;

    void build(const std::vector<Shared<Entry>>& entries);
    /// Adds an entry. True if the index should be rebuilt: whether the source is still the best one is not checked
    /// here.
    bool add(Entry* entry);
    /// The entries that may match the frame are in this bucket, or in `anywhere`. Null if every entry may match.
    Bucket* bucket_for(cpython::Frame* frame);
    Bucket& anywhere() { return anywhere_; }

  private:
    Entry* reader_ = nullptr;    // an entry with a guard on the source; null if there is no such source
    GuardProgram::Expected at_;  // the guard
    std::unordered_map<std::uint64_t, Bucket> buckets_;
    Bucket anywhere_;  // entries without a guard on that source
    Bucket none_;
    std::size_t size_ = 0, built_for_ = 0;
};

class EntryPoint : public Counted {
  public:
    bool warned = false;
    bool has_run = false;      // for a stance that does something else in the first call
    Shared<Entry> first_call;  // that ran uncompiled because of such a stance; empty once something was captured

    /// The entry whose guards hold; null if there is none. The objects that the guards fetched have to be used before
    /// any code runs.
    Shared<Entry> find(cpython::Frame* frame, const Ref<>& forced_backend) {
        if (entries_.size() > kFew) return find_among_many(frame, forced_backend);
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            Shared<Entry> entry = entries_[i];
            if (entry->forced_backend != forced_backend || !entry->matches(frame)) continue;
            if (i > 0) bring_to_front(entry.get());
            return entry;
        }
        return nullptr;
    }
    void add(Shared<Entry> entry);
    /// Removes the entries of freed instances, if room is needed or there are many. Releasing them runs code.
    [[nodiscard]] std::vector<Shared<Entry>> take_entries_of_freed_instances(bool has_to_be);

    bool is_empty() const { return entries_.empty(); }
    /// The last used one first, as long as they are few.
    const std::vector<Shared<Entry>>& entries() const { return entries_; }

  private:
    /// Up to this many are checked one after the other.
    static constexpr std::size_t kFew = 4;

    Shared<Entry> find_among_many(cpython::Frame* frame, const Ref<>& forced_backend);
    void bring_to_front(const Entry* entry);

    std::vector<Shared<Entry>> entries_;
    // For more than a few entries:
    EntryIndex index_;
    Entry* recent_ = nullptr;    // the last used one; among `entries_`
    std::uint64_t changes_ = 0;  // of `entries_`
    std::size_t sweep_at_ = 32;  // so many entries make it worth looking for those of freed instances
};

}  // namespace stator
