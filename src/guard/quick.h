/// The quick check of a model that has not changed, without running the guard program. For the files of this room only.
///
/// A guard program that succeeds repeatedly executes the same steps on the same objects. The quick check is the record
/// of such a run: the objects and what was checked of them, in arrays that are compared one after the other.
/// It succeeds only if the program would; on any difference the program runs from its start.
///
/// The objects are borrowed, and some may have been freed. Reading them is safe because of the order, which is in
/// levels: an object belongs to the level after that of the dict or class that holds it. A dict with the recorded
/// version is the recorded dict, and everything in it is alive. Objects that no recorded object holds, such as local
/// variables, are fetched again and compared by address first.
///
/// With dict watchers (see cpython/dict_watch.h), versions are read only after some watched dict has changed: until
/// then every dict here is alive and as it was recorded.
///
/// The quick check leaves registers and `fetched` as the program filled them. It is dropped as soon as the program
/// executes a block that the quick check assumes to be unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "guard/program.h"
#include "guard/step.h"
#include "torch/expected_tensor.h"

namespace stator {

class QuickCheck {
  public:
    using State = GuardProgram::State;

    bool is_there() const { return is_there_; }
    void forget() { is_there_ = false; }
    /// Needs `is_there`. On success registers and `fetched` are as after a success of the program.
    bool check(State& state, PyObject* const* slots, PyObject* function);

    std::size_t hits() const { return hits_; }
    /// How many of them read no version of a dict.
    std::size_t watched_hits() const { return watched_hits_; }
    std::vector<std::string> print(const State& state) const;

  private:
    friend class QuickCheckBuilder;

    /// An object of this class, with this dict in this state. The class determines the offset of the dict, so it
    /// is compared first; guards keep it alive.
    struct Instance {
        PyObject* object;
        PyTypeObject* type;
        Py_ssize_t dict_offset;
        PyObject* dict;
        std::uint64_t version;
    };
    struct Typed {
        PyObject* object;
        PyTypeObject* type;
    };
    struct Dict {
        PyObject* dict;
        std::uint64_t version;
    };
    struct Class {
        PyTypeObject* type;
        std::uint64_t version;
    };
    /// What is compared, with its register in the program, for messages.
    template <class Item>
    struct Listed {
        std::vector<Item> items;
        std::vector<std::int32_t> places;

        void add(const Item& item, std::int32_t place) {
            items.push_back(item);
            places.push_back(place);
        }
        void reserve(std::size_t count) {
            items.reserve(count);
            places.reserve(count);
        }
        std::uint32_t size() const { return static_cast<std::uint32_t>(items.size()); }
    };
    struct Parts {
        Listed<Step> steps;  // steps to execute, with their index in the program, or -1
        Listed<Instance> instances;
        Listed<Typed> typed;
        Listed<Dict> dicts;
        Listed<Class> classes;
        Listed<torch_room::ExpectedTensor> tensors;
    };
    /// The ends of the parts of a level. Its steps end with Done.
    struct Level {
        std::int32_t first_step = -1;  // none
        std::uint32_t instances = 0, typed = 0, dicts = 0, classes = 0, tensors = 0;
    };

    /// With `kWatched` dicts are not compared. Without, `all_watched` becomes false if one is not watched.
    template <bool kWatched>
    bool check_levels(State& state, PyObject* const* slots, PyObject* function, bool& all_watched);

    bool is_there_ = false;
    std::size_t hits_ = 0;
    std::size_t watched_hits_ = 0;
    std::uint64_t watched_since_ = 0;  // `watched_dict_changes` when all dicts were watched and as recorded; 0: never
    std::vector<Level> levels_;
    Parts parts_;
    std::vector<std::int32_t> distinct_;  // positions that may hold another object
    std::vector<std::int32_t> fetched_;   // indices of what may be another object
};

}  // namespace stator
