#include "graph/names.h"

#include <algorithm>

#include "base/python_error.h"
#include "base/text.h"

namespace stator::graph {

namespace {

bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_identifier_part(char c) {
    return is_lower(c) || is_upper(c) || is_digit(c) || c == '_';
}
bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 128; });
}

/// `pascalCase` -> `pascal_case`, `ALL_CAPS` -> `all_caps`.
void append_snake_case(std::string& snake, std::string_view text, std::size_t from) {
    for (std::size_t i = from; i < text.size(); ++i) {
        if (i > 0 && is_lower(text[i - 1]) && is_upper(text[i])) snake += '_';
        snake += is_upper(text[i]) ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    }
}

std::string snake_case(std::string_view text) {
    std::string snake;
    snake.reserve(text.size() + 2);
    append_snake_case(snake, text, 0);
    if (is_ascii(snake)) return snake;
    // Lowercasing beyond ASCII needs Python's tables.
    ErrorAside aside;
    Ref<> string = Ref<>::steal(PyUnicode_FromStringAndSize(snake.data(), static_cast<Py_ssize_t>(snake.size())));
    Ref<> lower = string ? Ref<>::steal(PyObject_CallMethod(string.get(), "lower", nullptr)) : Ref<>();
    if (!lower) {
        PyErr_Clear();
        return snake;
    }
    return std::string(utf8(lower.get()));
}

/// Runs of characters that an identifier can't have become one `_` each; a leading digit gets a `_` before it.
std::string legal_identifier(std::string_view candidate) {
    std::string legal;
    for (std::size_t i = 0; i < candidate.size(); ++i) {
        if (is_identifier_part(candidate[i]))
            legal += candidate[i];
        else if (i == 0 || is_identifier_part(candidate[i - 1]))
            legal += '_';
    }
    if (legal.empty()) return "_unnamed";
    return is_digit(legal[0]) ? "_" + legal : legal;
}

struct Split {
    std::string_view base;
    long number = -1;  // -1: the name does not end in `_` and digits
};

/// `add_12` -> `add`, 12. A base is never empty: `_12` is its own base.
Split split_number(std::string_view name) {
    std::size_t digits = name.size();
    while (digits > 0 && is_digit(name[digits - 1])) --digits;
    if (digits == name.size() || digits < 2 || name[digits - 1] != '_' || name.size() - digits > 17) return {name};
    return {name.substr(0, digits - 1), std::stol(std::string(name.substr(digits)))};
}

}  // namespace

std::string name_of_target(Borrowed<> target) {
    if (PyUnicode_Check(target.get())) {
        std::string_view text = utf8(target);
        bool is_magic = text.starts_with("__") && text.ends_with("__");
        if (is_magic) text = text.size() >= 4 ? text.substr(2, text.size() - 4) : std::string_view();
        return snake_case(text);
    }
    // A subgraph that is not an attribute yet.
    if (PyCapsule_CheckExact(target.get())) return static_cast<const char*>(PyCapsule_GetContext(target));
    ErrorAside aside;
    Ref<> name = Ref<>::steal(PyObject_GetAttrString(target, "__name__"));
    if (!name || !PyUnicode_Check(name.get())) {
        PyErr_Clear();
        return snake_case(Py_TYPE(target.get())->tp_name);
    }
    return snake_case(utf8(name.get()));
}

void PathNames::go_to(const PathText& path) {
    std::vector<const PathText*> unknown;
    const PathText* at = &path;
    for (; at != nullptr && !places_.contains(at); at = at->before) unknown.push_back(at);
    std::size_t kept = at == nullptr ? 0 : places_.at(at) + 1;
    for (; pieces_.size() > kept; pieces_.pop_back()) places_.erase(pieces_.back().text);
    target_.resize(kept == 0 ? 0 : pieces_.back().target_end);
    name_.resize(kept == 0 ? 0 : pieces_.back().name_end);
    for (auto next = unknown.rbegin(); next != unknown.rend(); ++next) {
        std::size_t from = target_.size();
        append_identifier(target_, (*next)->piece);
        append_snake_case(name_, target_, from);
        places_.emplace(*next, pieces_.size());
        pieces_.push_back({*next, target_.size(), name_.size()});
    }
}

bool is_reserved_name(const std::string& name) {
    // `torch.fx` keeps them in one dict that may grow: read again when it has another size.
    static PyObject* table = nullptr;
    static Py_ssize_t table_size = -1;
    static std::unordered_set<std::string> reserved;
    ErrorAside aside;
    if (table == nullptr) {
        Ref<> module = Ref<>::steal(PyImport_ImportModule("torch.fx.graph"));
        table = module ? PyObject_GetAttrString(module.get(), "_illegal_names") : nullptr;
        if (table == nullptr) PyErr_Clear();
    }
    if (table == nullptr || !PyDict_Check(table)) return false;
    if (table_size != PyDict_Size(table)) {
        table_size = PyDict_Size(table);
        reserved.clear();
        PyObject *key, *value;
        for (Py_ssize_t position = 0; PyDict_Next(table, &position, &key, &value);)
            if (value != Py_None && PyUnicode_Check(key)) reserved.emplace(utf8(key));
    }
    return reserved.contains(name);
}

std::string Names::create(std::string_view wanted) {
    bool is_legal =
        !wanted.empty() && !is_digit(wanted[0]) && std::all_of(wanted.begin(), wanted.end(), is_identifier_part);
    return create_like(is_legal ? std::string(wanted) : legal_identifier(wanted));
}

Names::Base& Names::base_of(std::string_view text) {
    if (auto found = bases_.find(text); found != bases_.end()) return found->second;
    std::string name(text);
    const bool is_reserved = is_reserved_name(name);
    return bases_.emplace(std::move(name), Base{.is_reserved = is_reserved}).first->second;
}

std::string Names::create_like(std::string candidate) {
    auto [base_text, number] = split_number(candidate);
    Base& base = base_of(base_text);
    const std::size_t base_size = base_text.size();
    auto take_next_number = [&] {
        candidate.resize(base_size);
        candidate += '_';
        candidate += std::to_string(++number);
    };
    if (number < 0) {
        number = base.count;
        if (base.is_reserved || base.is_used)
            take_next_number();
        else
            base.is_used = true;
    } else if (used_.contains(candidate)) {
        number = base.count;
        if (is_reserved_name(candidate)) take_next_number();
    }
    while (!used_.insert(candidate).second) take_next_number();
    base.count = number;
    return candidate;
}

}  // namespace stator::graph
