#include "cpython/iterators.h"

#include <utility>

#include "base/imported.h"
#include "cpython/generators.h"

namespace stator::cpython {

namespace {

// CPython's layouts. The names of members are CPython's.

struct SequenceIteration {  // of lists and tuples, forwards and backwards
    PyObject_HEAD Py_ssize_t it_index;
    PyObject* it_seq;  // null at the end
};

struct RangeIteration {
    PyObject_HEAD
#if PY_VERSION_HEX < 0x030C0000
        long index;
#endif
    long start;
    long step;
    long len;
};

struct DictView {
    PyObject_HEAD PyObject* dv_dict;
};

struct DictIteration {
    PyObject_HEAD PyObject* di_dict;  // null at the end
    Py_ssize_t di_used;
    Py_ssize_t di_pos;
};

struct Enumeration {
    PyObject_HEAD Py_ssize_t en_index;
    PyObject* en_sit;
};

struct Zip {
    PyObject_HEAD Py_ssize_t tuplesize;
    PyObject* ittuple;
    PyObject* result;
    int strict;
};

struct Counting {  // itertools.count
    PyObject_HEAD Py_ssize_t cnt;
    PyObject* long_cnt;  // null while `cnt` is the position
    PyObject* long_step;
};

struct Chain {                       // itertools.chain
    PyObject_HEAD PyObject* source;  // an iterator over what is chained; null at the end
    PyObject* active;                // the iterator over one of these; null before the first and between two
};

PyTypeObject* chain_class() {
    static PyTypeObject* const found = imported_class("itertools", "chain");
    return found;
}

PyTypeObject* counting_class() {
    static PyTypeObject* const found = imported_class("itertools", "count");
    return found;
}

template <class Layout>
const Layout& as(PyObject* object) {
    return *reinterpret_cast<const Layout*>(object);
}

bool is_over_dict(PyTypeObject* type) {
    return type == &PyDictIterValue_Type || type == &PyDictIterKey_Type || type == &PyDictIterItem_Type;
}

bool is_over_sequence(PyTypeObject* type) {
    return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyListRevIter_Type ||
           type == &PyReversed_Type;
}

Ahead found(PyObject* made, Ref<>* item) {
    *item = Ref<>::steal(made);
    if (made != nullptr) return Ahead::Item;
    PyErr_Clear();
    return Ahead::Unknown;
}

Ahead ahead_in_sequence(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& iteration = as<SequenceIteration>(iterator);
    PyTypeObject* type = Py_TYPE(iterator);
    PyObject* sequence = iteration.it_seq;
    if (sequence == nullptr) return Ahead::End;
    bool is_backwards = type == &PyListRevIter_Type || type == &PyReversed_Type;
    bool is_list = type == &PyListIter_Type || type == &PyListRevIter_Type;
    // `reversed` accepts anything with items and a length.
    if (type == &PyReversed_Type && !PyTuple_CheckExact(sequence)) return Ahead::Unknown;
    Py_ssize_t index = iteration.it_index + (is_backwards ? -steps : steps);
    if (index < 0 || index >= Py_SIZE(sequence)) return Ahead::End;
    return found(Py_NewRef(is_list ? PyList_GET_ITEM(sequence, index) : PyTuple_GET_ITEM(sequence, index)), item);
}

Ahead ahead_in_range(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& iteration = as<RangeIteration>(iterator);
    if (steps == kLast) return Ahead::Unknown;
    long at = static_cast<long>(steps);
#if PY_VERSION_HEX < 0x030C0000
    at += iteration.index;
#endif
    if (at >= iteration.len) return Ahead::End;
    return found(PyLong_FromLong(iteration.start + at * iteration.step), item);
}

Ahead ahead_in_dict(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& iteration = as<DictIteration>(iterator);
    if (iteration.di_dict == nullptr) return Ahead::End;
    if (PyDict_GET_SIZE(iteration.di_dict) != iteration.di_used || PyODict_Check(iteration.di_dict))
        return Ahead::Unknown;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = steps == kLast ? 0 : iteration.di_pos;
    for (Py_ssize_t i = 0; i <= steps; ++i)
        if (!PyDict_Next(iteration.di_dict, &position, &key, &value)) return Ahead::End;
    while (steps == kLast && position < iteration.di_pos)
        if (!PyDict_Next(iteration.di_dict, &position, &key, &value)) return Ahead::Unknown;
    if (key == nullptr) return Ahead::End;
    if (Py_IS_TYPE(iterator, &PyDictIterItem_Type)) return found(PyTuple_Pack(2, key, value), item);
    return found(Py_NewRef(Py_IS_TYPE(iterator, &PyDictIterKey_Type) ? key : value), item);
}

bool is_exact_number(PyObject* object) {
    return object != nullptr && (PyLong_CheckExact(object) || PyFloat_CheckExact(object));
}

Ahead ahead_in_count(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& counting = as<Counting>(iterator);
    if (steps == kLast) return Ahead::Unknown;
    if (counting.long_cnt == nullptr) {
        if (counting.cnt >= PY_SSIZE_T_MAX - steps) return Ahead::Unknown;
        return found(PyLong_FromSsize_t(counting.cnt + steps), item);
    }
    if (!is_exact_number(counting.long_cnt) || !is_exact_number(counting.long_step)) return Ahead::Unknown;
    Ref<> at = Ref<>::share(counting.long_cnt);
    for (Py_ssize_t i = 0; i < steps && at; ++i) at = Ref<>::steal(PyNumber_Add(at.get(), counting.long_step));
    return found(at.release(), item);
}

/// An iterator without other references can't be advanced by other code.
bool is_alone(PyObject* inner) {
    return Py_REFCNT(inner) == 1;
}

Ahead ahead_in_enumeration(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& enumeration = as<Enumeration>(iterator);
    if (enumeration.en_index > PY_SSIZE_T_MAX / 2 || !is_alone(enumeration.en_sit)) return Ahead::Unknown;
    Ref<> inner;
    if (Ahead ahead = look_ahead(enumeration.en_sit, steps, &inner); ahead != Ahead::Item) return ahead;
    Ref<> count = Ref<>::steal(PyLong_FromSsize_t(enumeration.en_index + steps));
    return found(count ? PyTuple_Pack(2, count.get(), inner.get()) : nullptr, item);
}

Ahead ahead_in_zip(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& zip = as<Zip>(iterator);
    if (zip.tuplesize == 0) return Ahead::End;
    if (!is_alone(zip.ittuple)) return Ahead::Unknown;
    Ref<> tuple = Ref<>::steal(PyTuple_New(zip.tuplesize));
    if (!tuple) return PyErr_Clear(), Ahead::Unknown;
    for (Py_ssize_t i = 0; i < zip.tuplesize; ++i) {
        PyObject* inner = PyTuple_GET_ITEM(zip.ittuple, i);
        if (!is_alone(inner)) return Ahead::Unknown;
        Ref<> part;
        Ahead ahead = look_ahead(inner, steps, &part);
        // With `strict`, the other iterators decide whether this is the end or an error.
        if (ahead == Ahead::End && zip.strict) return Ahead::Unknown;
        if (ahead != Ahead::Item) return ahead;
        PyTuple_SET_ITEM(tuple.get(), i, part.release());
    }
    *item = std::move(tuple);
    return Ahead::Item;
}

/// The container in a part of a chain that is not iterated over yet, where iterating runs no code; else null.
PyObject* container_of(PyObject* part) {
    if (is_dict_view(Py_TYPE(part))) part = as<DictView>(part).dv_dict;
    return PyList_CheckExact(part) || PyTuple_CheckExact(part) || PyDict_CheckExact(part) ? part : nullptr;
}

/// What iterating over a part of a chain gives after `steps` items, which `container_of` knows.
Ahead item_of_part(PyObject* part, Py_ssize_t steps, Ref<>* item) {
    PyObject* container = container_of(part);
    if (!PyDict_CheckExact(container)) {
        const bool is_list = PyList_CheckExact(container);
        return found(Py_NewRef(is_list ? PyList_GET_ITEM(container, steps) : PyTuple_GET_ITEM(container, steps)), item);
    }
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; i <= steps; ++i)
        if (!PyDict_Next(container, &position, &key, &value)) return Ahead::Unknown;
    if (Py_IS_TYPE(part, &PyDictItems_Type)) return found(PyTuple_Pack(2, key, value), item);
    return found(Py_NewRef(Py_IS_TYPE(part, &PyDictValues_Type) ? value : key), item);
}

/// In the parts of a chain that are not iterated over yet.
Ahead ahead_in_parts(PyObject* source, Py_ssize_t steps, Ref<>* item) {
    for (Py_ssize_t i = 0;; ++i) {
        Ref<> part;
        if (Ahead ahead = look_ahead(source, i, &part); ahead != Ahead::Item) return ahead;
        PyObject* container = container_of(part.get());
        if (container == nullptr) return Ahead::Unknown;
        const Py_ssize_t size = PyDict_CheckExact(container) ? PyDict_GET_SIZE(container) : Py_SIZE(container);
        if (steps < size) return item_of_part(part.get(), steps, item);
        steps -= size;
    }
}

Ahead ahead_in_chain(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    const auto& chain = as<Chain>(iterator);
    if (steps == kLast) return Ahead::Unknown;
    if (chain.source == nullptr) return Ahead::End;
    if (!is_alone(chain.source)) return Ahead::Unknown;
    if (chain.active != nullptr) {
        if (!is_alone(chain.active)) return Ahead::Unknown;
        if (Ahead ahead = look_ahead(chain.active, steps, item); ahead != Ahead::End) return ahead;
        Py_ssize_t count = 0;
        for (Ref<> passed; look_ahead(chain.active, count, &passed) == Ahead::Item;) ++count;
        steps -= count;
    }
    return ahead_in_parts(chain.source, steps, item);
}

}  // namespace

bool can_look_ahead(PyTypeObject* type) {
    return is_over_sequence(type) || is_over_dict(type) || type == &PyRangeIter_Type || type == &PyEnum_Type ||
           type == &PyZip_Type || type == counting_class() || type == chain_class();
}

bool counts(PyTypeObject* type) {
    return type == &PyRangeIter_Type || type == counting_class();
}

Ahead look_ahead(PyObject* iterator, Py_ssize_t steps, Ref<>* item) {
    if (steps == kState) {
        *item = generator_state(iterator);
        return *item ? Ahead::Item : Ahead::Unknown;
    }
    PyTypeObject* type = Py_TYPE(iterator);
    if (is_over_sequence(type)) return ahead_in_sequence(iterator, steps, item);
    if (is_over_dict(type)) return ahead_in_dict(iterator, steps, item);
    if (type == &PyRangeIter_Type) return ahead_in_range(iterator, steps, item);
    if (type == &PyEnum_Type) return ahead_in_enumeration(iterator, steps, item);
    if (type == &PyZip_Type) return ahead_in_zip(iterator, steps, item);
    if (type == counting_class()) return ahead_in_count(iterator, steps, item);
    if (type == chain_class()) return ahead_in_chain(iterator, steps, item);
    return Ahead::Unknown;
}

namespace {

PyObject* find_walked_over(PyObject* iterator, Py_ssize_t& left);

PyObject* find_walked_over_by_chain(const Chain& chain, Py_ssize_t& left) {
    if (chain.active != nullptr)
        if (PyObject* found = find_walked_over(chain.active, left)) return found;
    if (chain.source == nullptr) return nullptr;
    if (PyObject* found = find_walked_over(chain.source, left)) return found;
    Ref<> part;
    for (Py_ssize_t i = 0; look_ahead(chain.source, i, &part) == Ahead::Item; ++i) {
        PyObject* container = container_of(part.get());
        const bool changes = container != nullptr && !PyTuple_CheckExact(container);
        if (changes && left-- == 0) return container;  // (the chain holds it)
    }
    return nullptr;
}

/// Finds the container after `left` others; decrements `left` by the containers of this iterator.
PyObject* find_walked_over(PyObject* iterator, Py_ssize_t& left) {
    PyTypeObject* type = Py_TYPE(iterator);
    PyObject* container = nullptr;
    if (type == &PyListIter_Type || type == &PyListRevIter_Type) container = as<SequenceIteration>(iterator).it_seq;
    if (is_over_dict(type)) container = as<DictIteration>(iterator).di_dict;
    if (is_dict_view(type)) container = as<DictView>(iterator).dv_dict;
    if (container != nullptr && left-- == 0) return container;
    if (type == chain_class()) return find_walked_over_by_chain(as<Chain>(iterator), left);
    for (Py_ssize_t i = 0; PyObject* inner = inner_iterator(iterator, i); ++i)
        if (PyObject* found = find_walked_over(inner, left)) return found;
    return nullptr;
}

}  // namespace

Borrowed<> walked_over(PyObject* iterator, Py_ssize_t index) {
    return find_walked_over(iterator, index);
}

bool is_dict_view(PyTypeObject* type) {
    return type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type ||
           type == &PyODictKeys_Type || type == &PyODictValues_Type || type == &PyODictItems_Type;
}

Borrowed<> inner_iterator(PyObject* iterator, Py_ssize_t index) {
    if (Py_IS_TYPE(iterator, &PyEnum_Type)) return index == 0 ? as<Enumeration>(iterator).en_sit : nullptr;
    if (!Py_IS_TYPE(iterator, &PyZip_Type)) return nullptr;
    const auto& zip = as<Zip>(iterator);
    return index < zip.tuplesize ? PyTuple_GET_ITEM(zip.ittuple, index) : nullptr;
}

PyObject* reversed_from(PyObject* sequence, Py_ssize_t index) {
    Ref<> empty = Ref<>::steal(PyTuple_New(0));
    Ref<> arguments = empty ? Ref<>::steal(PyTuple_Pack(1, empty.get())) : Ref<>();
    if (!arguments) return nullptr;
    PyObject* made = PyReversed_Type.tp_new(&PyReversed_Type, arguments.get(), nullptr);
    if (made == nullptr || index < 0) return made;
    auto& iteration = *reinterpret_cast<SequenceIteration*>(made);
    iteration.it_index = index;
    Py_XSETREF(iteration.it_seq, Py_NewRef(sequence));
    return made;
}

}  // namespace stator::cpython
