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
    Path* from = const_cast<Path*>(from_const);  // this object owns all of them
    if (Path* to = known_step(from, module)) return to;
    if (from->steps_.size() >= from->sweep_at_) sweep(from);

    Known known = know(module);
    Naming naming = name_at(from, known);
    // Finding the name may have run other code that added the step.
    if (Path* to = known_step(from, module)) return to;
    Path* to = unused_with(from, naming);
    if (to == nullptr) {
        to = &all_.emplace_back();
        to->parent_ = from;
        to->depth_ = from->depth_ + 1;
        to->named_below_ = naming.below;
        to->suffix_ = std::move(naming.suffix);
    }
    to->module_ = known;
    from->steps_.push_back({module, std::move(known), to});
    from->last_step_ = from->steps_.size() - 1;
    return to;
}

Path* Paths::known_step(Path* from, Borrowed<> module) {
    std::size_t count = from->steps_.size();
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t at = from->last_step_ + 1 + i;
        while (at >= count) at -= count;
        const Path::Step& step = from->steps_[at];
        if (step.address != module.get() || !step.module->is(module)) continue;
        from->last_step_ = at;
        return step.to;
    }
    return nullptr;
}

Path::Rarely& Path::rarely() {
    if (rarely_ == nullptr) rarely_ = std::make_unique<Rarely>();
    return *rarely_;
}

const Path* Paths::enter_again(const Path* from, Borrowed<> module) {
    if (known_step(const_cast<Path*>(from), module)) return enter(from, module);
    Known known = know(module);
    for (const Path* around = from; around->module_; around = around->parent_) {
        if (around->module_ == known) return enter(around->parent_, module);
        if (name_below(around->module_, known)) return enter(around, module);
    }
    return enter(from, module);
}

Paths::Naming Paths::name_at(Path* from, const Known& module) {
    if (Naming naming = name_around(from, module); naming.suffix) return naming;
    Ref<> object = module->module();
    const PyTypeObject* type = Py_TYPE(object.get());
    auto is_stranger = [&] {
        return from->rarely_ && std::ranges::find(from->rarely_->strangers, type) != from->rarely_->strangers.end();
    };
    if (from->module_ && !names_.is_root(module) && !is_stranger()) {
        // It may have been registered since the last walk.
        const Path* outermost = from;
        while (outermost->parent_->module_) outermost = outermost->parent_;
        learn(outermost->module_);
        if (Naming naming = name_around(from, module); naming.suffix) return naming;
        from->rarely().strangers.push_back(type);
    }
    Ref<> name = names_.by_itself(module);
    if (module->walk == 0) learn(module);
    return {nullptr, std::move(name)};
}

Paths::Naming Paths::name_around(const Path* from, const Known& module) const {
    for (const Path* around = from; around->module_; around = around->parent_) {
        if (around->module_ == module) return {around->named_below_, around->suffix_};
        if (Ref<> rest = name_below(around->module_, module)) return {around, std::move(rest)};
    }
    return {};
}

void Paths::sweep(Path* from) {
    std::erase_if(from->steps_, [&](const Path::Step& step) {
        if (step.module->module()) return false;
        from->rarely().unused.push_back(step.to);
        return true;
    });
    from->last_step_ = 0;
    from->sweep_at_ = std::max<std::size_t>(64, 2 * from->steps_.size());
}

Path* Paths::unused_with(Path* from, const Naming& naming) {
    if (from->rarely_ == nullptr) return nullptr;
    std::vector<Path*>& unused = from->rarely_->unused;
    auto found = std::ranges::find_if(unused, [&](const Path* each) {
        return each->named_below_ == naming.below && PyUnicode_Compare(each->suffix_.get(), naming.suffix.get()) == 0;
    });
    if (found == unused.end()) return nullptr;
    Path* path = *found;
    unused.erase(found);
    return path;
}

}  // namespace stator::track
