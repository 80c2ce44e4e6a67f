#include "track/structure.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/names.h"
#include "base/python_error.h"
#include "cpython/objects.h"
#include "cpython/weak.h"

namespace stator::track {

namespace {

/// The dictionary of submodules. Scripted modules have another mapping instead; other objects may have none.
Ref<> registered_modules(Borrowed<> module) {
    Ref<> modules = Ref<>::share(cpython::instance_attribute(module, interned("_modules")));
    if (!modules) {
        modules = Ref<>::steal(PyObject_GetAttr(module, interned("_modules")));
        if (!modules) PyErr_Clear();
    }
    return modules;
}

/// By name, so that torch._dynamo need not be imported.
bool has_class_name(const PyTypeObject* type, const char* name) {
    return type != nullptr && std::strcmp(type->tp_name, name) == 0;
}

/// The wrapper of `torch.compile`.
bool is_wrapper(Borrowed<> module) {
    return has_class_name(Py_TYPE(module.get()), "OptimizedModule") &&
           cpython::instance_attribute(module, interned("_modules")).get() != nullptr;
}

/// The module inside of compiled wrappers, otherwise the module itself.
Ref<> unwrapped(Borrowed<> module) {
    Ref<> inner = Ref<>::share(module.get());
    for (;;) {
        Ref<> next;
        if (cpython::lookup_in_mro(Py_TYPE(inner.get()), interned("_stator_original")).get() != nullptr) {
            next = Ref<>::steal(PyObject_GetAttr(inner.get(), interned("_stator_original")));
            if (!next) PyErr_Clear();
        } else if (is_wrapper(inner.get())) {
            Ref<> modules = registered_modules(inner.get());
            if (modules && PyDict_Check(modules.get()))
                next = Ref<>::share(PyDict_GetItemWithError(modules.get(), interned("_orig_mod")));
        }
        if (!next || next == inner) return inner;
        inner = std::move(next);
    }
}

bool holds(Borrowed<> parent, Borrowed<> key, Borrowed<> child) {
    Ref<> modules = registered_modules(parent);
    if (!modules) return false;
    Ref<> found = PyDict_Check(modules.get()) ? Ref<>::share(PyDict_GetItemWithError(modules.get(), key.get()))
                                              : Ref<>::steal(PyObject_GetItem(modules.get(), key.get()));
    if (!found) PyErr_Clear();
    return found && (found.get() == child.get() || unwrapped(found.get()).get() == child.get());
}

// Never freed: static destructors run after the interpreter is finalized.
auto& all_known = *new std::unordered_map<PyObject*, Known>;
std::uint64_t walks = 0;

void forget_freed_modules() {
    static std::size_t sweep_at = 1024;
    if (all_known.size() < sweep_at) return;
    std::erase_if(all_known, [](const auto& each) { return !each.second->module(); });
    sweep_at = std::max<std::size_t>(1024, 2 * all_known.size());
}

}  // namespace

Ref<> called_by(Borrowed<> module) {
    Ref<> called = is_wrapper(module) ? unwrapped(module) : Ref<>::share(module.get());
    // Compilers create lazy ones; those that a program creates with `torch.fx` are not lazy, and are modules of the
    // program.
    if (has_class_name(Py_TYPE(called.get())->tp_base, "_LazyGraphModule")) return nullptr;
    return called;
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

Ref<> KnownModule::module() const {
    return cpython::weak_target(weak.get());
}

Known know(Borrowed<> module) {
    if (auto found = all_known.find(module); found != all_known.end() && found->second->is(module))
        return found->second;
    auto known = std::make_shared<KnownModule>();
    known->weak = checked(PyWeakref_NewRef(module, nullptr));
    forget_freed_modules();
    // Creating the reference may have run other code that added the module.
    Known& place = all_known[module];
    if (place == nullptr || !place->is(module)) place = std::move(known);
    return place;
}

void learn(const Known& root) {
    std::uint64_t walk = ++walks;
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
            if (is_new) {
                std::erase_if(known->registered, [](const auto& each) { return each.parent.expired(); });
                known->registered.push_back({parent, std::move(key)});
            }
            if (known->walk != walk) {
                known->walk = walk;
                queue.push_back(std::move(known));
            }
        }
    }
}

Ref<> name_below(const Known& ancestor, const Known& module) {
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
            Known parent = at->registered[i].parent.lock();
            Ref<> key = at->registered[i].key, holder = parent ? parent->module() : Ref<>();
            bool is_visited =
                std::any_of(climbs.begin(), climbs.end(), [&](const Climb& each) { return each.at == parent; });
            if (!holder || is_visited || !holds(holder.get(), key.get(), child.get())) continue;
            if (parent != ancestor) {
                climbs.push_back({std::move(parent), next, std::move(key)});
                continue;
            }
            for (std::size_t back = next; back != 0; back = climbs[back].from)
                key = checked(PyUnicode_FromFormat("%U.%U", key.get(), climbs[back].key.get()));
            return key;
        }
    }
    return nullptr;
}

}  // namespace stator::track
