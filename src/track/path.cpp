#include "track/path.h"

#include <algorithm>

#include "base/names.h"
#include "base/python_error.h"

namespace stator::track {

Borrowed<> Path::name() const {
    if (!name_)
        name_ = named_below_ == nullptr
                    ? suffix_
                    : checked(PyUnicode_FromFormat("%U.%U", named_below_->name().get(), suffix_.get()));
    return name_.get();
}

Ref<> Path::names() const {
    if (!names_) {
        Ref<> names = checked(PySet_New(nullptr));
        for (const Path* each = this; each != nullptr; each = each->parent_)
            checked(PySet_Add(names.get(), each->name()));
        names_ = std::move(names);
    }
    return checked(PySet_New(names_.get()));
}

Paths::Paths(Names& names) : names_(names) {
    all_.emplace_back().suffix_ = Ref<>::share(interned("Global"));
}

const Path* Paths::enter(const Path* from_const, Borrowed<> module) {
    Path* from = const_cast<Path*>(from_const);  // all of them are this object's
    if (auto found = from->steps_.find(module); found != from->steps_.end() && found->second.first->is(module))
        return found->second.second;
    if (from->steps_.size() >= from->sweep_at_) sweep(from);

    Known known = names_.know(module);
    Naming naming = is_transparent(module) ? Naming() : name_at(from, known);
    Path* to = from;
    if (naming.suffix && (to = unused_with(from, naming)) == nullptr) {
        to = &all_.emplace_back();
        to->parent_ = from;
        to->depth_ = from->depth_ + 1;
        to->named_below_ = naming.below;
        to->suffix_ = std::move(naming.suffix);
    }
    if (to != from) to->module_ = known;
    from->steps_.insert_or_assign(module, std::pair(std::move(known), to));
    return to;
}

const Path* Paths::enter_again(const Path* from, Borrowed<> module) {
    if (!is_transparent(module)) {
        Known known = names_.know(module);
        for (const Path* around = from; around->module_; around = around->parent_) {
            if (around->module_ == known) return enter(around->parent_, module);
            if (names_.below(*around->module_, known)) return enter(around, module);
        }
    }
    return enter(from, module);
}

Paths::Naming Paths::name_at(Path* from, const Known& module) {
    if (Naming naming = name_around(from, module); naming.suffix) return naming;
    Ref<> object = module->module();
    PyTypeObject* type = Py_TYPE(object.get());
    if (from->module_ && !module->root_name && !from->strangers_.contains(type)) {
        // It may have been registered since the last look.
        const Path* outermost = from;
        while (outermost->parent_->module_) outermost = outermost->parent_;
        names_.learn(outermost->module_);
        if (Naming naming = name_around(from, module); naming.suffix) return naming;
        from->strangers_.insert(type);
    }
    bool is_known_root = bool(module->root_name);
    Ref<> name = names_.by_itself(module);
    if (!is_known_root && module->root_name) names_.learn(module);
    return {nullptr, std::move(name)};
}

Paths::Naming Paths::name_around(const Path* from, const Known& module) const {
    for (const Path* around = from; around->module_; around = around->parent_) {
        if (around->module_ == module) return {around->named_below_, around->suffix_};
        if (Ref<> rest = names_.below(*around->module_, module)) return {around, std::move(rest)};
    }
    return {};
}

void Paths::sweep(Path* from) {
    std::erase_if(from->steps_, [&](const auto& step) {
        const auto& [known, to] = step.second;
        if (known->module()) return false;
        if (to != from) from->unused_.push_back(to);
        return true;
    });
    from->sweep_at_ = std::max<std::size_t>(64, 2 * from->steps_.size());
}

Path* Paths::unused_with(Path* from, const Naming& naming) {
    auto found = std::find_if(from->unused_.begin(), from->unused_.end(), [&](const Path* each) {
        return each->named_below_ == naming.below && PyUnicode_Compare(each->suffix_.get(), naming.suffix.get()) == 0;
    });
    if (found == from->unused_.end()) return nullptr;
    Path* path = *found;
    from->unused_.erase(found);
    return path;
}

}  // namespace stator::track
