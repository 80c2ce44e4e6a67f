#include "track/names.h"

#include <algorithm>
#include <cstring>

#include "base/names.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/objects.h"
#include "cpython/weak.h"

namespace stator::track {

namespace {

/// The dictionary of submodules. Scripted modules have another mapping in its place, objects without any may be met.
Ref<> registered_modules(Borrowed<> module) {
    Ref<> modules = Ref<>::share(cpython::instance_attribute(module, interned("_modules")));
    if (!modules) {
        modules = Ref<>::steal(PyObject_GetAttr(module, interned("_modules")));
        if (!modules) PyErr_Clear();
    }
    return modules;
}

bool holds(const Registration& registration, Borrowed<> child) {
    Known parent = registration.parent.lock();
    if (!parent) return false;
    Ref<> module = parent->module();
    return module && child_of(module.get(), registration.key.get()).get() == child.get();
}

}  // namespace

bool is_transparent(Borrowed<> module) {
    // By name, so that torch._dynamo is not imported for the question.
    const char* name = Py_TYPE(module.get())->tp_name;
    return std::strcmp(name, "OptimizedModule") == 0 &&
           cpython::instance_attribute(module, interned("_modules")).get() != nullptr;
}

Ref<> unwrapped(Borrowed<> module) {
    Ref<> inner = Ref<>::share(module.get());
    for (;;) {
        Ref<> next;
        if (cpython::lookup_in_mro(Py_TYPE(inner.get()), interned("_stator_original")).get() != nullptr) {
            next = Ref<>::steal(PyObject_GetAttr(inner.get(), interned("_stator_original")));
            if (!next) PyErr_Clear();
        } else if (is_transparent(inner.get())) {
            Ref<> modules = registered_modules(inner.get());
            if (modules && PyDict_Check(modules.get()))
                next = Ref<>::share(PyDict_GetItemWithError(modules.get(), interned("_orig_mod")));
        }
        if (!next || next == inner) return inner;
        inner = std::move(next);
    }
}

std::vector<std::pair<Ref<>, Ref<>>> children_of(Borrowed<> module) {
    std::vector<std::pair<Ref<>, Ref<>>> children;
    Ref<> modules = registered_modules(module);
    if (!modules) return children;
    auto add = [&](PyObject* key, PyObject* child) {
        if (child != Py_None && PyUnicode_Check(key)) children.emplace_back(Ref<>::share(key), Ref<>::share(child));
    };
    if (PyDict_Check(modules.get())) {
        PyObject *key, *child;
        for (Py_ssize_t at = 0; PyDict_Next(modules.get(), &at, &key, &child);) add(key, child);
    } else if (Ref<> items = Ref<>::steal(PyMapping_Items(modules.get()))) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
            PyObject* item = PyList_GET_ITEM(items.get(), i);
            if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 2)
                add(PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
        }
    } else {
        PyErr_Clear();
    }
    for (auto& [key, child] : children) child = unwrapped(child.get());
    return children;
}

Ref<> child_of(Borrowed<> module, Borrowed<> key) {
    Ref<> modules = registered_modules(module);
    if (!modules) return nullptr;
    Ref<> child = PyDict_Check(modules.get()) ? Ref<>::share(PyDict_GetItemWithError(modules.get(), key.get()))
                                              : Ref<>::steal(PyObject_GetItem(modules.get(), key.get()));
    if (!child) PyErr_Clear();
    return !child || child.get() == Py_None ? Ref<>() : unwrapped(child.get());
}

Ref<> KnownModule::module() const {
    return cpython::weak_target(weak.get());
}

Known Names::know(Borrowed<> module) {
    if (auto found = known_.find(module); found != known_.end() && found->second->is(module)) return found->second;
    auto known = std::make_shared<KnownModule>();
    known->weak = checked(PyWeakref_NewRef(module, nullptr));
    // Making the reference may have run other code that came by here.
    Known& place = known_[module];
    if (place == nullptr || !place->is(module)) place = std::move(known);
    Known result = place;
    forget_the_gone();
    return result;
}

void Names::forget_the_gone() {
    if (known_.size() < sweep_at_) return;
    std::erase_if(known_, [](const auto& each) { return !each.second->module(); });
    sweep_at_ = std::max<std::size_t>(256, 2 * known_.size());
}

void Names::learn(const Known& root) {
    std::uint64_t walk = ++walks_;
    std::vector<Known> queue{root};
    root->walk = walk;
    // Breadth first, so that registrations near the root come first.
    for (std::size_t next = 0; next < queue.size(); ++next) {
        Known parent = queue[next];
        Ref<> module = parent->module();
        if (!module) continue;
        for (auto& [key, child] : children_of(module.get())) {
            if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(child.get()))) continue;
            Known known = know(child.get());
            bool is_new = std::none_of(known->registered.begin(), known->registered.end(), [&](const auto& each) {
                return each.parent.lock() == parent && PyUnicode_Compare(each.key.get(), key.get()) == 0;
            });
            if (is_new) known->registered.push_back({parent, std::move(key)});
            if (known->walk != walk) {
                known->walk = walk;
                queue.push_back(std::move(known));
            }
        }
    }
}

Ref<> Names::below(const KnownModule& ancestor, const Known& module) const {
    struct Climb {
        Known at;
        std::size_t from;
        Ref<> key;
    };
    std::vector<Climb> climbs{{module, 0, nullptr}};
    for (std::size_t next = 0; next < climbs.size(); ++next) {
        Known at = climbs[next].at;
        Ref<> child = at->module();
        if (!child) continue;
        for (std::size_t i = 0; i < at->registered.size(); ++i) {
            Registration registration = at->registered[i];
            Known parent = registration.parent.lock();
            bool seen = std::any_of(climbs.begin(), climbs.end(), [&](const Climb& each) { return each.at == parent; });
            if (seen || !holds(registration, child.get())) continue;
            if (parent.get() != &ancestor) {
                climbs.push_back({std::move(parent), next, std::move(registration.key)});
                continue;
            }
            Ref<> name = std::move(registration.key);
            for (std::size_t back = next; back != 0; back = climbs[back].from)
                name = checked(PyUnicode_FromFormat("%U.%U", name.get(), climbs[back].key.get()));
            return name;
        }
    }
    return nullptr;
}

Ref<> Names::by_itself(const Known& module) {
    if (module->root_name) return module->root_name;
    for (const auto& [name, root] : roots())
        if (Ref<> rest = below(*know(root.get()), module))
            return checked(PyUnicode_FromFormat("%U.%U", name.get(), rest.get()));
    Ref<> object = module->module();
    return object ? new_root_name(object.get(), module) : checked(PyUnicode_FromString("gone"));
}

Ref<> Names::new_root_name(Borrowed<> module, const Known& known) {
    Ref<> type_name = checked(PyType_GetName(Py_TYPE(module.get())));
    std::string class_name(utf8(type_name.get()));
    auto is_gone = [](const std::weak_ptr<KnownModule>& each) {
        Known holder = each.lock();
        return !holder || !holder->module();
    };
    auto same_class =
        std::find_if(roots_.begin(), roots_.end(), [&](const auto& each) { return each.name == class_name; });
    if (same_class == roots_.end()) same_class = roots_.insert(roots_.end(), {class_name, {}});
    std::vector<std::weak_ptr<KnownModule>>& holders = same_class->holders;
    auto place = std::find_if(holders.begin(), holders.end(), is_gone);
    auto number = static_cast<std::size_t>(place - holders.begin());
    if (place == holders.end())
        holders.push_back(known);
    else
        *place = known;
    known->root_name = number == 0
                           ? std::move(type_name)
                           : checked(PyUnicode_FromString((class_name + "#" + std::to_string(number + 1)).c_str()));
    return known->root_name;
}

std::vector<std::pair<Ref<>, Ref<>>> Names::roots() const {
    std::vector<std::pair<Ref<>, Ref<>>> live;
    for (const auto& [class_name, holders] : roots_)
        for (const auto& each : holders)
            if (Known holder = each.lock())
                if (Ref<> module = holder->module()) live.emplace_back(holder->root_name, std::move(module));
    return live;
}

}  // namespace stator::track
