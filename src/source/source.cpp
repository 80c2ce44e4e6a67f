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

Source* Provenance::handled_exception(Borrowed<> object) {
    return root(Access::HandledException, nullptr, 0, object);
}

Source* Provenance::pinned(Borrowed<> object) {
    if (auto found = pinned_.find(object.get()); found != pinned_.end()) return found->second;
    auto* source = root(Access::Pinned, nullptr, static_cast<int>(pinned_.size()), object);
    pinned_.emplace(object.get(), source);
    return source;
}

Source* Provenance::child(Source* parent, Access access, Borrowed<> key, int number, Borrowed<> object, bool* is_new) {
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
    children_.emplace(place, source);
    return source;
}

namespace {

/// What a source adds to the text of its parent. Some accesses print together with that of their parent.
void append(std::string& text, const Source& source) {
    auto subscript = [&](const std::string& key) { text += "[" + key + "]"; };
    switch (source.access) {
        case Access::Slot:
            text += "L";
            return subscript(short_repr(source.key));
        case Access::Function:
            text += "<function>";
            return;
        case Access::HandledException:
            text += "<handled exception>";
            return;
        case Access::Pinned:
            if (source.key != nullptr)
                text += utf8(source.key);
            else
                text += PyModule_Check(source.object) ? PyModule_GetName(source.object) : short_repr(source.object);
            return;
        case Access::Globals:
            text += ".__globals__";
            return;
        case Access::Builtins:
            text += ".__builtins__";
            return;
        case Access::ClosureCell:
            text += ".__closure__";
            return subscript(std::to_string(source.number));
        case Access::CellContents:
            text += ".cell_contents";
            return;
        case Access::Default:
            text += ".__defaults__";
            return subscript(std::to_string(source.number));
        case Access::KeywordDefault:
            text += ".__kwdefaults__";
            return subscript(short_repr(source.key));
        case Access::Item:
            return subscript(std::to_string(source.number));
        case Access::DictItem:
            if (source.parent->access != Access::InstanceDict) return subscript(short_repr(source.key));
            text += '.';
            text += utf8(source.key);
            return;
        case Access::InstanceDict:
            text += ".__dict__";
            return;
        case Access::ClassAttribute:
        case Access::Member:
            text += '.';
            text += utf8(PyUnicode_CheckExact(source.key) ? source.key : PyDescr_NAME(source.key));
            return;
        case Access::MethodSelf:
            text += ".__self__";
            return;
        case Access::MethodFunction:
            text += ".__func__";
            return;
        case Access::Referent:
            text += "()";
            return;
        case Access::Entry:
            text += source.number % 2 == 0 ? ".keys()" : ".values()";
            return subscript(std::to_string(source.number / 2));
        case Access::WalkedOver:
            if (source.key != nullptr)
                text += ".mapping";  // of a view
            else
                text += ".__reduce__()[" + std::to_string(source.number) + "]";
            return;
        case Access::Upcoming:
            // (The state of a generator.)
            text += source.number < -1 ? ".gi_frame" : ".__next__(" + std::to_string(source.number) + ")";
            return;
        case Access::Drawn:
            text += ".drawn";
            return subscript(std::to_string(source.number));
        case Access::Size:
            text += ".size()";
            return subscript(std::to_string(source.number));
        case Access::Stride:
            text += ".stride()";
            return subscript(std::to_string(source.number));
        case Access::Offset:
            text += ".storage_offset()";
            return;
        case Access::ArrayTensor:
            return;
    }
}

/// A variable of the entered function prints as a local, also if CPython stores it in a cell.
bool is_own_variable(const Source& source) {
    return source.access == Access::CellContents && source.key != nullptr &&
           source.parent->access == Access::ClosureCell && source.parent->parent->access == Access::Function;
}

}  // namespace

namespace {

enum class Labels : bool { Ignored, Read };

/// Creates the text of a source and its parents, up to one that has a text. Returns whether there was one.
bool has_own_text(const Source& source, std::string& text, Labels labels = Labels::Read) {
    if (source.access == Access::Globals && source.parent->access == Access::Function) {
        text = "G";
        return true;
    }
    if (source.access == Access::Builtins) {
        text = "builtins";
        return true;
    }
    bool is_labelled = source.label != nullptr && labels == Labels::Read;
    if (!is_labelled && !is_own_variable(source)) return false;
    text = is_labelled ? std::string(utf8(source.label)) : "L[" + short_repr(source.key) + "]";
    return true;
}

bool joins_its_dict(const std::vector<Source*>& path, std::size_t i) {
    return i > 0 && path[i]->access == Access::InstanceDict && path[i - 1]->access == Access::DictItem;
}

std::string text_of(const Source& source, Labels labels) {
    // From the root down, into one string: the names of a deep model are long.
    std::vector<Source*> path;
    std::string text;
    for (auto* at = const_cast<Source*>(&source); at != nullptr; at = at->parent) {
        if (has_own_text(*at, text, labels)) break;
        path.push_back(at);
    }
    for (std::size_t i = path.size(); i-- > 0;)
        if (!joins_its_dict(path, i)) append(text, *path[i]);
    return text;
}

}  // namespace

std::string print(const Source& source) {
    return text_of(source, Labels::Read);
}

std::string path(const Source& source) {
    return text_of(source, Labels::Ignored);
}

std::string print(const Expression& expression) {
    return print(terms_of(expression), [](const Term& term) {
        return term.op == Expression::Op::Unbacked ? "u" + std::to_string(term.symbol) : print(*term.source);
    });
}

const PathText* path_text(Source& source, Arena& arena) {
    // Up to a parent that has a text, then down again. No recursion, because a model may be deep.
    std::vector<Source*> unknown;
    const PathText* known = nullptr;
    for (Source* at = &source; at != nullptr; at = at->parent) {
        if (at->text != nullptr) {
            known = at->text;
            break;
        }
        unknown.push_back(at);
        std::string text;
        if (has_own_text(*at, text)) break;
        // An attribute prints with its object; the dict between them does not.
        if (at->access == Access::DictItem && at->parent->access == Access::InstanceDict) at = at->parent;
    }
    for (std::size_t i = unknown.size(); i-- > 0;) {
        std::string text;
        Source& at = *unknown[i];
        if (has_own_text(at, text)) {
            known = arena.make<PathText>(nullptr, std::move(text));
        } else {
            append(text, at);
            known = arena.make<PathText>(known, std::move(text));
        }
        at.text = known;
    }
    return known;
}

namespace {

std::vector<const PathText*> pieces_of(const PathText& text) {
    std::vector<const PathText*> pieces;
    for (const PathText* at = &text; at != nullptr; at = at->before) pieces.push_back(at);
    return pieces;
}

}  // namespace

std::string print(const PathText& text) {
    std::string whole;
    std::vector<const PathText*> pieces = pieces_of(text);
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) whole += (*piece)->piece;
    return whole;
}

void append_identifier(std::string& name, std::string_view piece) {
    for (char c : piece) {
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (is_word)
            name += c;
        else if (name.empty() || name.back() != '_')
            name += '_';
    }
}

std::string identifier(const PathText& text) {
    std::string name;
    std::vector<const PathText*> pieces = pieces_of(text);
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) append_identifier(name, (*piece)->piece);
    return name;
}

}  // namespace stator
