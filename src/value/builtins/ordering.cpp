/// `sorted`, `list.sort`, `min`, `max`. Keys and comparisons may run user code.
#include <algorithm>

#include "base/python_error.h"
#include "cpython/sorting.h"
#include "value/builtins/registry.h"
#include "value/kinds/changing_number.h"
#include "value/kinds/constant.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"
#include "value/protocol/raising.h"

namespace stator {

namespace {

/// An item with its sort key.
struct Keyed {
    Value* key;
    Value* item;
};

/// A sort with more comparisons than this that runs user code breaks the graph: each comparison costs as much as all
/// before it.
constexpr std::size_t kMostComparisons = 2000;

/// Whether C code can compare it: the comparison runs no user code and does not depend on identity.
bool is_compared_by_value(Tracer& tracer, Value* key, bool is_inside) {
    tracer.realize(key);
    if (key->kind == Kind::Constant)
        return !runs_program_code(key->object()) && !(is_inside && is_unequal_to_itself(key->object()));
    if (key->type() != &PyTuple_Type && key->type() != &PyList_Type) return false;
    const auto& items = as_sequence(key)->all(tracer);
    return std::ranges::all_of(items, [&](Value* item) { return is_compared_by_value(tracer, item, true); });
}

/// Sorts with Python's sort if all keys are constants; otherwise false.
bool sort_constants(Tracer& tracer, std::vector<Keyed>& keyed, bool reverse) {
    auto size = static_cast<Py_ssize_t>(keyed.size());
    Ref<> keys = checked(PyTuple_New(size)), order = checked(PyList_New(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
        Value* key = keyed[static_cast<std::size_t>(i)].key;
        Ref<> known = is_compared_by_value(tracer, key, false) ? key->as_constant(tracer) : Ref<>();
        if (!known) return false;
        PyTuple_SET_ITEM(keys.get(), i, known.release());
        PyList_SET_ITEM(order.get(), i, checked(PyLong_FromSsize_t(i)).release());
    }
    Ref<> sort = checked(PyObject_GetAttrString(order.get(), "sort"));
    Ref<> key = checked(PyObject_GetAttrString(keys.get(), "__getitem__"));
    Ref<> options = checked(Py_BuildValue("{sOsO}", "key", key.get(), "reverse", reverse ? Py_True : Py_False));
    Ref<> nothing = checked(PyTuple_New(0));
    Ref<> done = Ref<>::steal(PyObject_Call(sort.get(), nothing.get(), options.get()));
    std::vector<Keyed> sorted;
    for (Py_ssize_t i = 0; i < size; ++i)
        sorted.push_back(keyed[static_cast<std::size_t>(PyLong_AsSsize_t(PyList_GET_ITEM(order.get(), i)))]);
    keyed = std::move(sorted);
    if (!done) tracer.raise_from_python();
    return true;
}

/// What the sort determines about the keys before it compares any: it has shortcuts for keys of one class, and for
/// tuples whose first items are of one class.
struct KeyClasses {
    bool are_tuples = false;
    bool is_one = true;
};

KeyClasses classes_of(Tracer& tracer, const std::vector<Keyed>& keyed) {
    KeyClasses classes;
    auto is_filled_tuple = [&](Value* key) {
        tracer.realize(key);
        return key->kind == Kind::Tuple && key->type() == &PyTuple_Type && key->length(tracer) > 0;
    };
    classes.are_tuples = std::ranges::all_of(keyed, is_filled_tuple, &Keyed::key);
    auto first = [&](const Keyed& one) {
        Value* value = classes.are_tuples ? as_sequence(one.key)->item(tracer, 0) : one.key;
        tracer.realize(value);
        return value->type();
    };
    for (const Keyed& one : keyed) classes.is_one = classes.is_one && first(one) == first(keyed[0]);
    return classes;
}

/// `left < right` for objects of one class: if `__lt__` returns NotImplemented, Python starts over and calls it again.
Task is_less_in_class(Tracer& tracer, Value* left, Value* right) {
    if (Value* method = operations::user_method(tracer, left, "__lt__")) {
        Value* answer = co_await operations::call(tracer, method, Arguments::of(left, right));
        if (answer->object() != Py_NotImplemented) co_return co_await operations::truth(tracer, answer);
    }
    Value* answer = co_await operations::compare(tracer, Comparison::Less, left, right);
    co_return co_await operations::truth(tracer, answer);
}

Task is_less(Tracer& tracer, KeyClasses classes, Value* left, Value* right) {
    std::size_t at = 0;
    if (classes.are_tuples) {
        SequenceValue *one = as_sequence(left), *other = as_sequence(right);
        for (; at < one->items.size() && at < other->items.size(); ++at) {
            Value* equal = co_await same_or_equal(tracer, one->item(tracer, at), other->item(tracer, at));
            if (!is_true(equal)) break;
        }
        if (at >= one->items.size() || at >= other->items.size())
            co_return tracer.boolean(one->items.size() < other->items.size());
        left = one->item(tracer, at);
        right = other->item(tracer, at);
    }
    if (classes.is_one && at == 0) co_return co_await tracer.start(is_less_in_class(tracer, left, right));
    Value* answer = co_await operations::compare(tracer, Comparison::Less, left, right);
    co_return co_await operations::truth(tracer, answer);
}

std::vector<Keyed> in_order(const std::vector<Keyed>& keyed, const std::vector<std::size_t>& order) {
    std::vector<Keyed> ordered;
    for (std::size_t position : order) ordered.push_back(keyed[position]);
    return ordered;
}

/// Sorts as Python does. If a comparison raises, the partly sorted order is kept.
Task sort_keyed(Tracer& tracer, std::vector<Keyed>& keyed, bool reverse) {
    if (keyed.size() < 2 || sort_constants(tracer, keyed, reverse)) co_return tracer.none();
    if (reverse) std::ranges::reverse(keyed);
    KeyClasses classes = classes_of(tracer, keyed);
    cpython::StepwiseSort sort(keyed.size());
    try {
        while (auto pair = sort.next()) {
            if (sort.answered() == kMostComparisons)
                tracer.break_graph(BreakKind::UnknownFunction, "a long list is sorted with a user-defined comparison");
            Value* less =
                co_await tracer.start(is_less(tracer, classes, keyed[pair->left].key, keyed[pair->right].key));
            sort.answer(is_true(less));
        }
    } catch (const Raised&) {
        keyed = in_order(keyed, sort.order());
        if (reverse) std::ranges::reverse(keyed);
        throw;
    }
    keyed = in_order(keyed, sort.order());
    if (reverse) std::ranges::reverse(keyed);
    co_return tracer.none();
}

std::vector<Value*> items_of(const std::vector<Keyed>& keyed) {
    std::vector<Value*> items;
    for (const Keyed& one : keyed) items.push_back(one.item);
    return items;
}

Task sort_list(Tracer& tracer, ListValue* list, Value* key_function, Value* reverse) {
    bool descending = false;
    if (reverse != nullptr) {
        Value* truth = co_await operations::truth(tracer, reverse);
        descending = is_true(truth);
    }
    std::vector<Keyed> keyed;
    for (Value* item : list->begin_sort(tracer)) keyed.push_back(Keyed{item, item});
    try {
        for (std::size_t i = 0; key_function != nullptr && i < keyed.size(); ++i)
            keyed[i].key = co_await operations::call(tracer, key_function, Arguments::of(keyed[i].item));
        co_await tracer.start(sort_keyed(tracer, keyed, descending));
    } catch (const Raised&) {
        list->end_sort(tracer, items_of(keyed));
        throw;
    }
    list->end_sort(tracer, items_of(keyed));
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
        tracer.break_graph(BreakKind::UnknownFunction, "sort() is called with a `reverse` that is not an int");
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
        if (key_function != nullptr) key = co_await operations::call(tracer, key_function, Arguments::of(item));
        if (best != nullptr && key_function == nullptr)
            if (Value* both = symbolic::extreme(tracer, greatest, best, item)) {
                best = best_key = both;
                continue;
            }
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
    // The message depends on the Python version, so the real function raises it.
    Ref<> empty = Ref<>::steal(PyTuple_New(0));
    Ref<> failed = Ref<>::steal(PyObject_CallOneArg(builtin_function(greatest ? "max" : "min"), empty.get()));
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
            refuse_arguments(tracer, builtin_function(kName), kName, arguments);
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
