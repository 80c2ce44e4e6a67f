/// Views of dicts and iteration over them.
#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "effect/plan.h"
#include "value/kinds/dict.h"
#include "value/kinds/rebuilding.h"
#include "value/kinds/sequence.h"
#include "value/kinds/set.h"
#include "value/protocol/attributes.h"
#include "value/protocol/identity.h"
#include "value/protocol/operations.h"
#include "value/protocol/refusal.h"

namespace stator {

namespace {

using What = DictViewValue::What;

PyTypeObject* view_class(const DictValue* dict, What what) {
    bool ordered = PyType_IsSubtype(dict->class_, &PyODict_Type) != 0;
    switch (what) {
        case What::Keys:
            return ordered ? &PyODictKeys_Type : &PyDictKeys_Type;
        case What::Values:
            return ordered ? &PyODictValues_Type : &PyDictValues_Type;
        case What::Items:
            return ordered ? &PyODictItems_Type : &PyDictItems_Type;
        case What::Proxy:
            return &PyDictProxy_Type;
    }
    return nullptr;
}

PyTypeObject* iterator_class(const DictValue* dict, What what, bool reversed) {
    if (PyType_IsSubtype(dict->class_, &PyODict_Type)) return &PyODictIter_Type;
    switch (what) {
        case What::Values:
            return reversed ? &PyDictRevIterValue_Type : &PyDictIterValue_Type;
        case What::Items:
            return reversed ? &PyDictRevIterItem_Type : &PyDictIterItem_Type;
        default:
            return reversed ? &PyDictRevIterKey_Type : &PyDictIterKey_Type;
    }
}

const char* method_of(What what) {
    return what == What::Keys ? "keys" : what == What::Values ? "values" : "items";
}

/// Adds a call of `dict.keys`, `values` or `items` to a plan.
int rebuild_view(PlanBuilder& plan, int from, What what, bool ordered) {
    if (what == What::Proxy) return plan.add(PlanOp::Call, {from}, reinterpret_cast<PyObject*>(&PyDictProxy_Type));
    PyTypeObject* owner = ordered ? &PyODict_Type : &PyDict_Type;
    Ref<> method = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(owner), method_of(what)));
    return plan.add(PlanOp::Call, {from}, method);
}

Task item_in(Tracer& tracer, DictValue* dict, Value* key, Value* value) {
    Value* found = dict->find(tracer, key);
    if (found == nullptr) co_return tracer.boolean(false);
    co_return co_await same_or_equal(tracer, found, value);
}

Task value_in(Tracer& tracer, DictValue* dict, Value* wanted) {
    std::vector<Table::Entry*> entries = dict->entries(tracer);
    for (Table::Entry* entry : entries) {
        Value* answer = co_await same_or_equal(tracer, dict->value_of(tracer, entry), wanted);
        if (is_true(answer)) co_return answer;
    }
    co_return tracer.boolean(false);
}

/// The operand of a set operation as a set of its items. Null for values other than sets and views.
SetValue* as_set(Tracer& tracer, Value* value) {
    tracer.realize(value);
    if (auto* set = cast<SetValue>(value)) return set;
    auto* view = cast<DictViewValue>(value);
    if (view == nullptr || view->what == What::Values || view->what == What::Proxy) return nullptr;
    return make_set(tracer, *items_now(tracer, view));
}

/// A real dict with the keys of this one, and its values where they matter.
Ref<> real_dict(Tracer& tracer, DictValue* dict, bool with_values) {
    Ref<> made = checked(PyDict_New());
    for (Table::Entry* entry : dict->entries(tracer)) {
        Ref<> key = element_object(tracer, entry->key);
        Ref<> value = Ref<>::share(Py_None);
        if (with_values) {
            Value* held = dict->value_of(tracer, entry);
            tracer.realize(held);
            value = element_object(tracer, held);
        }
        if (!key || !value) return nullptr;
        checked(PyDict_SetItem(made.get(), key.get(), value.get()));
    }
    return made;
}

/// The other operand of a view as a real object; empty if an element is not a constant.
Ref<> real_side(Tracer& tracer, Value* side, const std::vector<Value*>& items) {
    if (auto* set = cast<SetValue>(side)) return Ref<>::share(set->real(tracer));
    if (auto* dict = cast<DictValue>(side)) return real_dict(tracer, dict, false);
    if (auto* view = cast<DictViewValue>(side); view != nullptr && view->what != What::Values) {
        Ref<> dict = real_dict(tracer, view->dict, view->what == What::Items);
        return dict ? checked(PyObject_CallMethod(dict.get(), method_of(view->what), nullptr)) : nullptr;
    }
    Ref<> list = checked(PyList_New(0));
    for (Value* item : items) {
        Ref<> object = element_object(tracer, item);
        if (!object) return nullptr;
        checked(PyList_Append(list.get(), object.get()));
    }
    return list;
}

/// Looks up the items of one operand in the other, so that values need no hash.
Task compare_as_sets(Tracer& tracer, Comparison op, Value* left, Value* right) {
    std::ptrdiff_t mine = left->length(tracer), theirs = right->length(tracer);
    bool fits = true;
    if (op == Comparison::Equal || op == Comparison::NotEqual)
        fits = mine == theirs;
    else if (op == Comparison::Less || op == Comparison::Greater)
        fits = op == Comparison::Less ? mine < theirs : mine > theirs;
    else
        fits = op == Comparison::LessEqual ? mine <= theirs : mine >= theirs;
    bool is_reversed = op == Comparison::Greater || op == Comparison::GreaterEqual;
    if (fits) {
        std::vector<Value*> items = *items_now(tracer, is_reversed ? right : left);
        for (std::size_t i = 0; i < items.size() && fits; ++i) {
            Value* found = co_await (is_reversed ? left : right)->contains(tracer, items[i]);
            fits = is_true(found);
        }
    }
    co_return tracer.boolean(fits == (op != Comparison::NotEqual));
}

}  // namespace

void DictViewValue::realize(Tracer& tracer) {
    // The contents are read from the dict itself, which is another place of a view; that of a proxy is pinned.
    if (what == What::Proxy) {
        tracer.guard({GuardKind::Identity, source, outside});
        return;
    }
    tracer.guard({GuardKind::Type, source, reinterpret_cast<PyObject*>(Py_TYPE(outside))});
    tracer.realize(dict);
}

PyTypeObject* DictViewValue::type() const {
    return view_class(dict, what);
}

Outcome DictViewValue::get_attribute(Tracer& tracer, Borrowed<> name) {
    if (what != What::Proxy && name.get() == interned("mapping")) return tracer.make<DictViewValue>(dict, What::Proxy);
    return Value::get_attribute(tracer, name);
}

Outcome DictViewValue::get_item(Tracer& tracer, Value* key) {
    if (what != What::Proxy) return Value::get_item(tracer, key);
    return operations::get_item(tracer, dict, key);
}

Outcome DictViewValue::contains(Tracer& tracer, Value* item) {
    switch (what) {
        case What::Keys:
            return dict->contains(tracer, item);
        case What::Proxy:
            return operations::contains(tracer, dict, item);
        case What::Values:
            return tracer.start(value_in(tracer, dict, item));
        case What::Items:
            break;
    }
    tracer.realize(item);
    auto* pair = cast<TupleValue>(item);
    if (pair == nullptr || pair->length(tracer) != 2) return tracer.boolean(false);
    return tracer.start(item_in(tracer, dict, pair->item(tracer, 0), pair->item(tracer, 1)));
}

std::ptrdiff_t DictViewValue::length(Tracer& tracer) {
    return dict->length(tracer);
}

bool DictViewValue::truth(Tracer& tracer) {
    return dict->length(tracer) != 0;
}

Outcome DictViewValue::iterate(Tracer& tracer) {
    if (what == What::Proxy) return operations::iterate(tracer, dict);
    return tracer.make<DictIterator>(tracer, dict, what, false);
}

Value* DictViewValue::binary(Tracer& tracer, BinaryOperator op, Value* other, bool reflected) {
    if (what == What::Values) return nullptr;
    if (what == What::Proxy) {
        auto* view = cast<DictViewValue>(other);
        return dict->binary(tracer, op, view != nullptr && view->what == What::Proxy ? view->dict : other, reflected);
    }
    if (op != BinaryOperator::And && op != BinaryOperator::Or && op != BinaryOperator::Subtract &&
        op != BinaryOperator::Xor)
        return nullptr;
    // The other operand of a view may be any iterable.
    auto items = items_now(tracer, other);
    if (!items) {
        if (!is_iterable(other)) return nullptr;
        tracer.break_graph(BreakKind::UnknownObject, "a set operation of a dict view and a user-defined iterator");
    }
    SetValue* mine = as_set(tracer, this);
    SetValue* theirs = make_set(tracer, *items);
    // Python computes the order of the result differently for each operation, so the real operation is executed.
    Ref<> my_side = real_side(tracer, this, {});
    Ref<> their_side = my_side ? real_side(tracer, other, *items) : nullptr;
    if (their_side) {
        Ref<> real = Ref<>::steal(reflected ? python_binary(op, false, their_side.get(), my_side.get())
                                            : python_binary(op, false, my_side.get(), their_side.get()));
        if (!real) tracer.raise_from_python();
        auto* result = tracer.make<SetValue>();
        result->take_over(tracer, std::move(real), reflected ? theirs : mine, reflected ? mine : theirs);
        return result;
    }
    return reflected ? theirs->binary(tracer, op, mine, false) : mine->binary(tracer, op, theirs, false);
}

Outcome DictViewValue::compare(Tracer& tracer, Comparison op, Value* other) {
    if (what == What::Values) return nullptr;
    if (what == What::Proxy) {
        auto* view = cast<DictViewValue>(other);
        return dict->compare(tracer, op, view != nullptr && view->what == What::Proxy ? view->dict : other);
    }
    tracer.realize(other);
    auto* view = cast<DictViewValue>(other);
    bool is_view = view != nullptr && view->what != What::Values && view->what != What::Proxy;
    if (!is_view && cast<SetValue>(other) == nullptr) return nullptr;
    return tracer.start(compare_as_sets(tracer, op, this, other));
}

Py_hash_t DictViewValue::hash(Tracer& tracer) {
    if (what == What::Values) return static_cast<Py_hash_t>(reinterpret_cast<std::size_t>(this) >> 4);
    return Value::hash(tracer);
}

int DictViewValue::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    if (source != nullptr) return plan.fetch(source);
    int from = dict->rebuild(plan);
    if (int known = plan.known(this); known >= 0) return known;
    int view = rebuild_view(plan, from, what, PyType_IsSubtype(dict->class_, &PyODict_Type) != 0);
    plan.remember(this, view);
    return view;
}

std::string DictViewValue::print() const {
    if (what == What::Proxy) return "mappingproxy(" + dict->print() + ")";
    return dict->print() + "." + method_of(what) + "()";
}

DictIterator::DictIterator(Tracer& tracer, DictValue* dict, What what, bool reversed)
    : IteratorValue(iterator_class(dict, what, reversed)), dict(dict), what(what), reversed(reversed) {
    dict->complete_now(tracer);
    size_ = dict->table.size();
    places_ = dict->table.all().size();
    if (reversed) position = dict->table.all().size();
}

Outcome DictIterator::next(Tracer& tracer) {
    if (dict == nullptr) return tracer.exhausted();
    // An OrderedDict detects any inserted or removed key, other dicts only a change of the size.
    bool ordered = PyType_IsSubtype(dict->class_, &PyODict_Type) != 0;
    if (dict->table.size() != size_ || (ordered && dict->table.all().size() > places_)) {
        tracer.raise(PyExc_RuntimeError,
                     ordered ? "OrderedDict mutated during iteration" : "dictionary changed size during iteration");
    }
    tracer.on_undo([this, at = position, count = taken, over = dict] {
        position = at;
        taken = count;
        dict = over;
    });
    std::size_t places = dict->table.all().size();
    Table::Entry* entry = nullptr;
    while (entry == nullptr && (reversed ? position > 0 : position < places)) {
        Table::Entry* at = dict->table.at(reversed ? --position : position++);
        if (at->live) entry = at;
    }
    if (entry == nullptr) {
        dict = nullptr;
        return tracer.exhausted();
    }
    if (taken == size_) tracer.raise(PyExc_RuntimeError, "dictionary keys changed during iteration");
    ++taken;
    if (what == What::Keys) return entry->key;
    Value* value = dict->value_of(tracer, entry);
    if (what == What::Values) return value;
    return make_tuple(tracer, {entry->key, value});
}

int DictIterator::rebuild(PlanBuilder& plan) {
    if (int known = plan.known(this); known >= 0) return known;
    bool ordered = class_ == &PyODictIter_Type;
    std::size_t given = 0;
    int over = -1;
    if (dict == nullptr) {
        over =
            ordered ? plan.add(PlanOp::Call, {}, reinterpret_cast<PyObject*>(&PyODict_Type)) : plan.add(PlanOp::Dict);
    } else {
        // An iterator over a dict that was mutated meanwhile may have to raise, or may have passed other entries than
        // the first ones.
        std::size_t passed = 0, places = dict->table.all().size();
        for (std::size_t at = reversed ? position : 0; at < (reversed ? places : position); ++at)
            passed += dict->table.at(at)->live ? 1 : 0;
        if (dict->table.size() != size_ || passed != taken) return IteratorValue::rebuild(plan);
        expect_complete(plan, dict, this);
        over = dict->rebuild(plan);
        if (int known = plan.known(this); known >= 0) return known;
        given = taken;
    }
    if (what != What::Keys) over = rebuild_view(plan, over, what, ordered);
    int to = plan.reserve(this);
    // The builtin functions, not methods that a subclass may override.
    PyObject* make = builtin_function(reversed ? "reversed" : "iter");
    if (what == What::Keys)
        make = method_of_class(ordered ? &PyODict_Type : &PyDict_Type, reversed ? "__reversed__" : "__iter__");
    plan.add_to(to, PlanOp::Call, {over}, make);
    rebuild_steps(plan, to, given);
    return to;
}

}  // namespace stator
