/// Iterates over a set in the order of its table, which is Python's order, without an iterator object.
#pragma once

#include "base/ref.h"

namespace stator {

class SetEntries {
  public:
    explicit SetEntries(Borrowed<> set) : set_(reinterpret_cast<PySetObject*>(set.get())) {}

    bool next() {
        while (++position_ <= set_->mask) {
            const setentry& entry = set_->table[position_];
            // A removed element leaves a dummy with this hash, which no object has.
            if (entry.key != nullptr && entry.hash != -1) return true;
        }
        return false;
    }
    PyObject* key() const { return set_->table[position_].key; }
    Py_hash_t hash() const { return set_->table[position_].hash; }

  private:
    PySetObject* set_;
    Py_ssize_t position_ = -1;
};

}  // namespace stator
