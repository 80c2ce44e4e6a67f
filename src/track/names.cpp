#include "track/names.h"

#include <algorithm>

#include "base/python_error.h"
#include "base/text.h"

namespace stator::track {

Ref<> Names::by_itself(const Known& module) {
    if (auto found = root_names_.find(module.get()); found != root_names_.end()) return found->second;
    for (const auto& [name, root] : roots())
        if (Ref<> rest = name_below(know(root.get()), module))
            return checked(PyUnicode_FromFormat("%U.%U", name.get(), rest.get()));
    return new_root_name(module);
}

Ref<> Names::new_root_name(const Known& module) {
    Ref<> object = module->module();
    if (!object) return checked(PyUnicode_FromString("gone"));
    Ref<> name = checked(PyType_GetName(Py_TYPE(object.get())));
    std::string class_name(utf8(name.get()));
    auto same_class =
        std::find_if(roots_.begin(), roots_.end(), [&](const auto& each) { return each.name == class_name; });
    if (same_class == roots_.end()) same_class = roots_.insert(roots_.end(), {class_name, {}});
    std::vector<Known>& holders = same_class->holders;
    auto place = std::find_if(holders.begin(), holders.end(), [](const Known& each) { return !each->module(); });
    auto number = static_cast<std::size_t>(place - holders.begin()) + 1;
    if (place == holders.end()) {
        holders.push_back(module);
    } else {
        root_names_.erase(place->get());
        *place = module;
    }
    if (number > 1) name = checked(PyUnicode_FromFormat("%U#%zu", name.get(), number));
    root_names_[module.get()] = name;
    return name;
}

std::vector<std::pair<Ref<>, Ref<>>> Names::roots() const {
    std::vector<std::pair<Ref<>, Ref<>>> live;
    for (const RootClass& each : roots_)
        for (const Known& holder : each.holders)
            if (Ref<> module = holder->module()) live.emplace_back(root_names_.at(holder.get()), std::move(module));
    return live;
}

}  // namespace stator::track
