#include "trace/exits/owners.h"

#include <unordered_set>

#include "cpython/iterators.h"
#include "cpython/objects.h"

namespace stator {

namespace {

void expect_class(Tracer& tracer, Source* place) {
    tracer.guard({GuardKind::Type, place, reinterpret_cast<PyObject*>(Py_TYPE(place->object))});
}

/// What the trace has read is guarded to be none of the objects that it mutates.
void expect_unchanged(Tracer& tracer, Source* place) {
    expect_class(tracer, place);
    tracer.realize(tracer.outside(place, place->object));
}

/// A search over real objects, nearest first. Only the path that it finds is guarded.
class Search {
  public:
    Search(Tracer& tracer, PyObject* wanted) : tracer_(tracer), wanted_(wanted) {}

    Source* from(const std::vector<const Value*>& values) {
        for (const Value* value : values)
            if (value != nullptr && value->source != nullptr && value->object() != nullptr &&
                value->object() != wanted_ && seen_.insert(value->object()).second)
                steps_.push_back({value->object(), kRoot, Access::Slot, nullptr, 0, value->source});
        for (std::size_t at = 0; at < steps_.size() && steps_.size() < kMost && found_ == kRoot; ++at) expand(at);
        return found_ == kRoot ? nullptr : place_of(found_);
    }

  private:
    static constexpr std::size_t kRoot = static_cast<std::size_t>(-1);
    static constexpr std::size_t kMost = 4000;

    struct Step {
        PyObject* object;
        std::size_t holder;
        Access access;  // `InstanceDict`: an attribute
        PyObject* key;
        int number;
        Source* place;
    };

    void reach(PyObject* object, std::size_t holder, Access access, PyObject* key, int number) {
        if (found_ != kRoot || !seen_.insert(object).second) return;
        if (object == wanted_) found_ = steps_.size();
        steps_.push_back({object, holder, access, key, number, nullptr});
    }

    void reach_entries(PyObject* dict, std::size_t holder, Access access) {
        PyObject *key = nullptr, *value = nullptr;
        for (Py_ssize_t position = 0; PyDict_Next(dict, &position, &key, &value);)
            if (PyUnicode_CheckExact(key) || (PyLong_CheckExact(key) && access == Access::DictItem))
                reach(value, holder, access, key, 0);
    }

    void expand(std::size_t at) {
        PyObject* object = steps_[at].object;
        if (PyType_Check(object) || PyModule_Check(object)) return;
        if (PyDict_CheckExact(object)) return reach_entries(object, at, Access::DictItem);
        if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
                reach(PySequence_Fast_GET_ITEM(object, i), at, Access::Item, nullptr, static_cast<int>(i));
            return;
        }
        PyObject* dict = cpython::instance_dict_if_made(object).get();
        if (dict != nullptr && PyDict_CheckExact(dict)) reach_entries(dict, at, Access::InstanceDict);
    }

    Source* place_of(std::size_t number) {
        const Step& step = steps_[number];
        if (step.holder == kRoot) return step.place;
        Source* holder = place_of(step.holder);
        expect_unchanged(tracer_, holder);
        Provenance& places = tracer_.provenance();
        if (step.access == Access::InstanceDict) {
            PyObject* dict = cpython::instance_dict_if_made(holder->object).get();
            holder = places.child(holder, Access::InstanceDict, nullptr, 0, dict);
            return places.child(holder, Access::DictItem, step.key, 0, step.object);
        }
        return places.child(holder, step.access, step.key, step.number, step.object);
    }

    Tracer& tracer_;
    PyObject* wanted_;
    std::vector<Step> steps_;
    std::unordered_set<PyObject*> seen_;
    std::size_t found_ = kRoot;
};

}  // namespace

Source* last_item_place(Tracer& tracer, const OutsideIterator* iterator, PyObject* wanted) {
    if (iterator->source == nullptr || iterator->source->access == Access::Pinned) return nullptr;
    Ref<> item;
    if (cpython::look_ahead(iterator->outside, cpython::kLast, &item) != cpython::Ahead::Item) return nullptr;
    PyObject* last = tracer.keep(std::move(item));
    Provenance& places = tracer.provenance();
    auto expect_containers = [&] {
        for (int i = 0; PyObject* container = cpython::walked_over(iterator->outside, i); ++i)
            expect_unchanged(tracer, places.child(iterator->source, Access::WalkedOver, nullptr, i, container));
    };
    auto place = [&] {
        return places.child(iterator->source, Access::Upcoming, nullptr, static_cast<int>(cpython::kLast), last);
    };
    if (last == wanted) return expect_containers(), place();
    const bool is_made = cpython::inner_iterator(iterator->outside, 0) != nullptr;
    for (Py_ssize_t i = 0; is_made && PyTuple_CheckExact(last) && i < PyTuple_GET_SIZE(last); ++i) {
        if (PyTuple_GET_ITEM(last, i) != wanted) continue;
        expect_containers();
        expect_class(tracer, place());
        return places.child(place(), Access::Item, nullptr, static_cast<int>(i), wanted);
    }
    return nullptr;
}

Source* path_to(Tracer& tracer, const std::vector<const Value*>& from, PyObject* wanted) {
    return Search(tracer, wanted).from(from);
}

}  // namespace stator
