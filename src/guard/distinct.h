/// Checks that objects are pairwise different, at a cost proportional to how many changed since the last check.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stator {

class DistinctObjects {
  public:
    /// For these registers.
    explicit DistinctObjects(std::vector<std::int32_t> registers);

    bool check(PyObject* const* registers);
    /// The same, where at most the registers at these positions hold other objects than in the last check.
    bool check(PyObject* const* registers, std::span<const std::int32_t> positions);
    /// After a failed check: the positions of two registers that hold the same object.
    std::pair<std::size_t, std::size_t> clash(PyObject* const* registers) const;
    std::size_t size() const { return registers_.size(); }
    std::int32_t register_at(std::size_t position) const { return registers_[position]; }

  private:
    static constexpr std::size_t kFew = 4;  // are compared with each other
    bool are_few_distinct(PyObject* const* registers) const;
    std::size_t home(PyObject* object) const;
    /// False if the object of this position is there already, in another position.
    bool insert(std::int32_t position);
    void erase(std::int32_t position);
    /// Takes over the objects at `changed_`.
    bool replace_changed(PyObject* const* registers);

    std::vector<std::int32_t> registers_;
    std::vector<PyObject*> last_;      // by position; only compared by address
    std::vector<std::int32_t> table_;  // open addressing over the objects: position + 1, or 0 if free
    std::vector<std::int32_t> changed_;
    bool valid_ = false;  // the table holds exactly the objects of `last_`
};

}  // namespace stator
