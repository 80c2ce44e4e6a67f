/// `sorted`, `list.sort`, `min`, `max`. Keys and comparisons may run the program's own code.
#include <algorithm>

#include "base/python_error.h"
#include "cpython/sorting.h"
#include "value/calling.h"
#include "value/identity.h"
#include "value/raising.h"
#include "value/registry.h"
#include "value/sequence.h"

namespace stator {

namespace {

/// An item with what it is ordered by.
struct Keyed {
    Value* key;
    Value* item;
};

/// Sorts by Python's own sort where all keys are constants; false if one is not.
bool sort_constants(Tracer& tracer, std::vector<Keyed>& keyed, bool reverse) {
    for (const Keyed& one : keyed) {
        tracer.realize(one.key);
        if (one.key->kind != Kind::Constant) return false;
    }
    auto size = static_cast<Py_ssize_t>(keyed.size());
    Ref<> keys = checked(PyTuple_New(size)), order = checked(PyList_New(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyTuple_SET_ITEM(keys.get(), i, Py_NewRef(keyed[static_cast<std::size_t>(i)].key->object()));
        PyList_SET_ITEM(order.get(), i, checked(PyLong_FromSsize_t(i)).release());
    }
    Ref<> sort = checked(PyObject_GetAttrString(order.get(), "sort"));
    Ref<> key = checked(PyObject_GetAttrString(keys.get(), "__getitem__"));
    Ref<> options = checked(Py_BuildValue("{sOsO}", "key", key.get(), "reverse", reverse ? Py_True : Py_False));
    Ref<> nothing = checked(PyTuple_New(0));
    Ref<> done = Ref<>::steal(PyObject_Call(sort.get(), nothing.get(), options.get()));
    if (!done) tracer.raise_from_python();
    std::vector<Keyed> sorted;
    for (Py_ssize_t i = 0; i < size; ++i)
        sorted.push_back(keyed[static_cast<std::size_t>(PyLong_AsSsize_t(PyList_GET_ITEM(order.get(), i)))]);
    keyed = std::move(sorted);
    return true;
}

/// Binary insertion: stable, and each comparison is awaited.
Task sort_keyed(Tracer& tracer, std::vector<Keyed> keyed, bool reverse, ListValue* into) {
    if (!sort_constants(tracer, keyed, reverse)) {
        if (reverse) std::ranges::reverse(keyed);
        for (std::size_t i = 1; i < keyed.size(); ++i) {
            Keyed moved = keyed[i];
            std::size_t low = 0, high = i;
            while (low < high) {
                std::size_t middle = low + (high - low) / 2;
                Value* less = co_await operations::compare(tracer, Comparison::Less, moved.key, keyed[middle].key);
                less = co_await operations::truth(tracer, less);
                if (is_true(less))
                    high = middle;
                else
                    low = middle + 1;
            }
            std::rotate(keyed.begin() + static_cast<std::ptrdiff_t>(low),
                        keyed.begin() + static_cast<std::ptrdiff_t>(i),
                        keyed.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
        if (reverse) std::ranges::reverse(keyed);
    }
    std::vector<Value*> items;
    for (const Keyed& one : keyed) items.push_back(one.item);
    into->assign(tracer, std::move(items));
    co_return tracer.none();
}

Task sort_list(Tracer& tracer, ListValue* list, Value* key_function, Value* reverse) {
    bool descending = false;
    if (reverse != nullptr) {
        Value* truth = co_await operations::truth(tracer, reverse);
        descending = is_true(truth);
    }
    std::vector<Value*> items = list->all(tracer);
    std::vector<Keyed> keyed;
    for (std::size_t i = 0; i < items.size(); ++i) {
        Value* key = items[i];
        if (key_function != nullptr) key = co_await call_with(tracer, key_function, items[i]);
        keyed.push_back(Keyed{key, items[i]});
    }
    std::size_t size = list->items.size();
    co_await tracer.start(sort_keyed(tracer, keyed, descending, list));
    if (size != items.size()) tracer.raise(PyExc_ValueError, "list modified during sort");
    co_return tracer.none();
}

Value* unless_none(Tracer& tracer, Value* value) {
    if (value == nullptr) return nullptr;
    tracer.realize(value);
    return value->object() == Py_None ? nullptr : value;
}

struct SortOptions {
    Value* key;
    Value* reverse;
};

[[noreturn]] void refuse_options(Tracer& tracer, const Arguments& arguments) {
    Arguments options;
    options.keywords = arguments.keywords;
    Ref<> list = checked(PyList_New(0));
    Ref<> sort = checked(PyObject_GetAttrString(list.get(), "sort"));
    refuse_arguments(tracer, sort.get(), "sort", options);
}

Value* expect_reverse(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (!cpython::kReverseIsAnything && !PyType_IsSubtype(value->type(), &PyLong_Type))
        tracer.break_graph(BreakKind::UnknownFunction, "sort() is called with a `reverse` that is no int");
    return value;
}

SortOptions sort_options(Tracer& tracer, const Arguments& arguments) {
    SortOptions options{nullptr, nullptr};
    for (const Keyword& keyword : arguments.keywords) {
        if (PyUnicode_CompareWithASCIIString(keyword.name, "key") == 0)
            options.key = unless_none(tracer, keyword.value);
        else if (PyUnicode_CompareWithASCIIString(keyword.name, "reverse") == 0)
            options.reverse = expect_reverse(tracer, keyword.value);
        else
            refuse_options(tracer, arguments);
    }
    return options;
}

Outcome list_sort(Tracer& tracer, const Arguments& arguments) {
    Arguments without_keywords;
    without_keywords.positional = arguments.positional;
    if (arguments.positional.size() > 1) tracer.raise(PyExc_TypeError, "sort() takes no positional arguments");
    auto* self = receiver<ListValue>(tracer, without_keywords, &PyList_Type, "sort", 0, 0);
    SortOptions options = sort_options(tracer, arguments);
    return tracer.start(sort_list(tracer, self, options.key, options.reverse));
}

Task sort_copy(Tracer& tracer, Value* iterable, Value* key, Value* reverse) {
    Value* collected = co_await operations::collect(tracer, iterable);
    auto* list = static_cast<ListValue*>(collected);
    co_await tracer.start(sort_list(tracer, list, key, reverse));
    co_return list;
}

Outcome builtin_sorted(Tracer& tracer, const Arguments& arguments) {
    if (arguments.positional.size() != 1)
        tracer.raise(PyExc_TypeError, "sorted expected 1 argument, got " + std::to_string(arguments.positional.size()));
    SortOptions options = sort_options(tracer, arguments);
    return tracer.start(sort_copy(tracer, arguments.positional[0], options.key, options.reverse));
}

// --- min and max
// -------------------------------------------------------------------------------------------------------

Task find_extreme(Tracer& tracer, bool greatest, Value* iterable, Value* key_function, Value* otherwise) {
    Value* iterator = co_await operations::iterate(tracer, iterable);
    Value* best = nullptr;
    Value* best_key = nullptr;
    while (true) {
        Value* item = co_await operations::next(tracer, iterator);
        if (item == tracer.exhausted()) break;
        Value* key = item;
        if (key_function != nullptr) key = co_await call_with(tracer, key_function, item);
        bool better = best == nullptr;
        if (!better) {
            Comparison op = greatest ? Comparison::Greater : Comparison::Less;
            Value* answer = co_await operations::compare(tracer, op, key, best_key);
            answer = co_await operations::truth(tracer, answer);
            better = is_true(answer);
        }
        if (better) {
            best = item;
            best_key = key;
        }
    }
    if (best != nullptr) co_return best;
    if (otherwise != nullptr) co_return otherwise;
    // The words differ between versions of Python; the real function has them.
    Ref<> empty = Ref<>::steal(PyTuple_New(0));
    Ref<> failed = Ref<>::steal(
        PyObject_CallOneArg(PyDict_GetItemString(PyEval_GetBuiltins(), greatest ? "max" : "min"), empty.get()));
    tracer.raise_from_python();
}

template <bool greatest>
Outcome builtin_extreme(Tracer& tracer, const Arguments& arguments) {
    constexpr const char* kName = greatest ? "max" : "min";
    Value *key = nullptr, *otherwise = nullptr;
    for (const Keyword& keyword : arguments.keywords) {
        if (PyUnicode_CompareWithASCIIString(keyword.name, "key") == 0)
            key = unless_none(tracer, keyword.value);
        else if (PyUnicode_CompareWithASCIIString(keyword.name, "default") == 0)
            otherwise = keyword.value;
        else
            raise_misuse(tracer, PyDict_GetItemString(PyEval_GetBuiltins(), kName), arguments);
    }
    if (arguments.positional.empty())
        tracer.raise(PyExc_TypeError, std::string(kName) + " expected at least 1 argument, got 0");
    if (arguments.positional.size() == 1)
        return tracer.start(find_extreme(tracer, greatest, arguments.positional[0], key, otherwise));
    if (otherwise != nullptr)
        tracer.raise(PyExc_TypeError,
                     std::string("Cannot specify a default for ") + kName + "() with multiple positional arguments");
    Value* items = make_tuple(tracer, arguments.positional);
    return tracer.start(find_extreme(tracer, greatest, items, key, nullptr));
}

}  // namespace

void register_ordering(Handlers& handlers) {
    handlers.add("builtins", "sorted", builtin_sorted);
    handlers.add_method(&PyList_Type, "sort", list_sort);
    handlers.add("builtins", "min", builtin_extreme<false>);
    handlers.add("builtins", "max", builtin_extreme<true>);
}

}  // namespace stator
