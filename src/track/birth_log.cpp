#include "track/birth_log.h"

#include <algorithm>
#include <functional>

namespace stator::track {

void BirthLog::mark(std::uint64_t number, const Path* path) {
    // Marks at which no node was created are removed.
    while (!open_.empty() && open_.back().number == number) open_.pop_back();
    if (last() != path) open_.push_back({number, path});
}

void BirthLog::close() {
    if (open_.empty()) return;
    const std::uint64_t first = open_.front().number;
    std::size_t hash = open_.size();
    for (Mark& mark : open_) {
        mark.number -= first;
        hash = hash * 0x9E3779B97F4A7C15u + (mark.number ^ std::hash<const Path*>()(mark.path));
    }
    auto [begin, end] = patterns_.equal_range(hash);
    auto same = std::find_if(begin, end, [&](const auto& each) { return *each.second == open_; });
    if (same == end) same = patterns_.emplace(hash, std::make_unique<Pattern>(open_));
    calls_.push_back({first, same->second.get()});
    open_.clear();
}

const Path* BirthLog::at(std::uint64_t number) const {
    if (!open_.empty() && number >= open_.front().number) return found(open_, number, outside_);
    auto later = std::upper_bound(calls_.begin(), calls_.end(), number,
                                  [](std::uint64_t wanted, const Call& call) { return wanted < call.first; });
    if (later == calls_.begin()) return outside_;
    const Call& call = *std::prev(later);
    return found(*call.pattern, number - call.first, outside_);
}

const Path* BirthLog::found(const Pattern& marks, std::uint64_t number, const Path* otherwise) {
    auto later = std::upper_bound(marks.begin(), marks.end(), number,
                                  [](std::uint64_t wanted, const Mark& mark) { return wanted < mark.number; });
    return later == marks.begin() ? otherwise : std::prev(later)->path;
}

}  // namespace stator::track
