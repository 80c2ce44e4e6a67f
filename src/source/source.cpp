#include "source/source.h"

#include "base/text.h"

namespace stator {

Source* Provenance::root(Access access, Borrowed<> key, int number, Borrowed<> object) {
    for (Source* root : roots_) {
        if (root->access != access || root->number != number) continue;
        if (access == Access::Pinned && root->object != object.get()) continue;
        return root;
    }
    auto* root = arena_.make<Source>();
    root->access = access;
    root->number = number;
    if (key != nullptr) root->key = arena_.keep(Ref<>::share(key));
    if (object != nullptr) root->object = arena_.keep(Ref<>::share(object));
    roots_.push_back(root);
    return root;
}

Source* Provenance::slot(int number, Borrowed<> name, Borrowed<> object) {
    return root(Access::Slot, name, number, object);
}

Source* Provenance::function(Borrowed<> object) {
    return root(Access::Function, nullptr, 0, object);
}

Source* Provenance::pinned(Borrowed<> object) {
    if (auto found = pinned_.find(object.get()); found != pinned_.end()) return found->second;
    auto* source = root(Access::Pinned, nullptr, static_cast<int>(pinned_.size()), object);
    pinned_.emplace(object.get(), source);
    return source;
}

Source* Provenance::child(Source* parent, Access access, Borrowed<> key, int number, Borrowed<> object,
                          bool* is_new) {
    ChildKey place{parent, access, number, key.get()};
    if (is_new != nullptr) *is_new = false;
    if (auto found = children_.find(place); found != children_.end()) return found->second;
    if (is_new != nullptr) *is_new = true;
    auto* source = arena_.make<Source>();
    source->access = access;
    source->number = number;
    source->parent = parent;
    if (key != nullptr) source->key = arena_.keep(Ref<>::share(key));
    if (object != nullptr) source->object = arena_.keep(Ref<>::share(object));
    parent->children.push_back(source);
    children_.emplace(place, source);
    return source;
}

std::string print(const Source& source) {
    auto of_parent = [&] { return print(*source.parent); };
    if (source.label != nullptr) return std::string(utf8(source.label));
    switch (source.access) {
        case Access::Slot:
            return "L[" + short_repr(source.key) + "]";
        case Access::Function:
            return "<function>";
        case Access::Pinned:
            if (source.key != nullptr) return std::string(utf8(source.key));
            return PyModule_Check(source.object) ? std::string(PyModule_GetName(source.object)) : short_repr(source.object);
        case Access::Globals:
            return source.parent->access == Access::Function ? "G" : of_parent() + ".__globals__";
        case Access::Builtins:
            return "builtins";
        case Access::ClosureCell:
            return of_parent() + ".__closure__[" + std::to_string(source.number) + "]";
        case Access::CellContents: {
            const Source& cell = *source.parent;
            // A variable of the entered function reads as a local, wherever CPython keeps it.
            if (cell.access == Access::ClosureCell && cell.parent->access == Access::Function && source.key != nullptr)
                return "L[" + short_repr(source.key) + "]";
            return of_parent() + ".cell_contents";
        }
        case Access::Default:
            return of_parent() + ".__defaults__[" + std::to_string(source.number) + "]";
        case Access::KeywordDefault:
            return of_parent() + ".__kwdefaults__[" + short_repr(source.key) + "]";
        case Access::Item:
            return of_parent() + "[" + std::to_string(source.number) + "]";
        case Access::DictItem:
            if (source.parent->access == Access::InstanceDict)
                return print(*source.parent->parent) + "." + std::string(utf8(source.key));
            return of_parent() + "[" + short_repr(source.key) + "]";
        case Access::InstanceDict:
            return of_parent() + ".__dict__";
        case Access::ClassAttribute:
        case Access::Member:
            return of_parent() + "." + std::string(utf8(source.key));
        case Access::MethodSelf:
            return of_parent() + ".__self__";
        case Access::MethodFunction:
            return of_parent() + ".__func__";
    }
    return "?";
}

}  // namespace stator
