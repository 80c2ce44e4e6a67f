#include "guard/distinct.h"

#include <algorithm>
#include <bit>

namespace stator {

DistinctObjects::DistinctObjects(std::vector<std::int32_t> registers)
    : registers_(std::move(registers)), last_(registers_.size()), table_(std::bit_ceil(2 * registers_.size() + 2)) {
    changed_.reserve(registers_.size());
}

std::size_t DistinctObjects::home(PyObject* object) const {
    return (reinterpret_cast<std::uintptr_t>(object) * 0x9E3779B97F4A7C15ull >> 32) & (table_.size() - 1);
}

bool DistinctObjects::insert(std::int32_t position) {
    std::size_t place = home(last_[position]);
    for (; table_[place] != 0; place = (place + 1) & (table_.size() - 1))
        if (last_[table_[place] - 1] == last_[position]) return false;
    table_[place] = position + 1;
    return true;
}

void DistinctObjects::erase(std::int32_t position) {
    std::size_t mask = table_.size() - 1;
    std::size_t hole = home(last_[position]);
    while (table_[hole] != position + 1) hole = (hole + 1) & mask;
    // Later entries of the cluster move up, except in front of their home slot, so that probing needs no tombstones.
    for (std::size_t next = (hole + 1) & mask; table_[next] != 0; next = (next + 1) & mask) {
        std::size_t distance_from_home = (next - home(last_[table_[next] - 1])) & mask;
        if (distance_from_home < ((next - hole) & mask)) continue;
        table_[hole] = table_[next];
        hole = next;
    }
    table_[hole] = 0;
}

bool DistinctObjects::are_few_distinct(PyObject* const* registers) const {
    for (std::size_t second = 1; second < registers_.size(); ++second)
        for (std::size_t first = 0; first < second; ++first)
            if (registers[registers_[first]] == registers[registers_[second]]) return false;
    return true;
}

bool DistinctObjects::check(PyObject* const* registers) {
    if (registers_.size() <= kFew) return are_few_distinct(registers);
    changed_.clear();
    for (std::size_t i = 0; i < registers_.size(); ++i)
        if (registers[registers_[i]] != last_[i]) changed_.push_back(static_cast<std::int32_t>(i));
    if (valid_ && changed_.empty()) return true;
    if (valid_) {
        for (std::int32_t position : changed_) erase(position);
    } else {
        std::fill(table_.begin(), table_.end(), 0);
        changed_.resize(registers_.size());
        for (std::size_t i = 0; i < registers_.size(); ++i) changed_[i] = static_cast<std::int32_t>(i);
    }
    return replace_changed(registers);
}

bool DistinctObjects::check(PyObject* const* registers, std::span<const std::int32_t> positions) {
    if (!valid_ || registers_.size() <= kFew) return check(registers);
    changed_.clear();
    for (std::int32_t position : positions)
        if (registers[registers_[position]] != last_[position]) changed_.push_back(position);
    if (changed_.empty()) return true;
    for (std::int32_t position : changed_) erase(position);
    return replace_changed(registers);
}

bool DistinctObjects::replace_changed(PyObject* const* registers) {
    for (std::int32_t position : changed_) last_[position] = registers[registers_[position]];
    valid_ = std::all_of(changed_.begin(), changed_.end(), [&](std::int32_t position) { return insert(position); });
    return valid_;
}

std::pair<std::size_t, std::size_t> DistinctObjects::clash(PyObject* const* registers) const {
    for (std::size_t second = 0; second < registers_.size(); ++second)
        for (std::size_t first = 0; first < second; ++first)
            if (registers[registers_[first]] == registers[registers_[second]]) return {first, second};
    return {0, 0};
}

}  // namespace stator
