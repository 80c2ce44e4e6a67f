/// The entries that start at one instruction of a function, and how the one for a frame is found among them.
///
/// A look-up may run Python code, and that code may do anything: capture, reset, drop the callable. So whoever looks up
/// owns the point (`Shared`), and each entry while it is asked.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/shared.h"
#include "capture/entry.h"

namespace stator {

/// Finds entries by what they expect at one place of the frame: an argument's value or sizes, an attribute, the
/// instance. The place is the one that leaves the fewest entries to be asked.
class EntryIndex {
  public:
    /// Borrowed: whoever removes an entry builds the index anew.
    using Bucket = std::vector<Entry*>;

    void build(const std::vector<Shared<Entry>>& entries);
    /// One more entry. True if it is time to build anew: that the place is still the best is not checked here.
    bool add(Entry* entry);
    /// The entries that may fit the frame are in this bucket, or among `anywhere`. Null where every entry may.
    Bucket* bucket_for(cpython::Frame* frame);
    Bucket& anywhere() { return anywhere_; }

  private:
    Entry* reader_ = nullptr;    // has a guard at the place; null if there is no such place
    GuardProgram::Expected at_;  // the guard
    std::unordered_map<std::uint64_t, Bucket> buckets_;
    Bucket anywhere_;  // entries that expect nothing there
    Bucket none_;
    std::size_t size_ = 0, built_for_ = 0;
};

class EntryPoint : public Counted {
  public:
    bool warned = false;
    bool has_run = false;  // under a stance that does something else the first time

    /// The entry whose guards hold; null if there is none. What the guards fetched is to be used before any code runs.
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
    /// Takes the entries out whose instances are gone, if they have to be or there are many. Releasing them runs code.
    [[nodiscard]] std::vector<Shared<Entry>> take_forgotten(bool has_to_be);

    bool is_empty() const { return entries_.empty(); }
    /// The one used last first, as long as they are few.
    const std::vector<Shared<Entry>>& entries() const { return entries_; }

  private:
    /// So many are asked one after the other.
    static constexpr std::size_t kFew = 4;

    Shared<Entry> find_among_many(cpython::Frame* frame, const Ref<>& forced_backend);
    void bring_to_front(const Entry* entry);

    std::vector<Shared<Entry>> entries_;
    // For more than a few:
    EntryIndex index_;
    Entry* recent_ = nullptr;    // used last; among `entries_`
    std::uint64_t changes_ = 0;  // of `entries_`
    std::size_t sweep_at_ = 32;  // so many entries make it worth looking for those of instances that are gone
};

}  // namespace stator
