/// Binds the arguments of a call to parameters as CPython does, with CPython's messages if they don't fit.
#include "base/text.h"
#include "cpython/code_object.h"
#include "trace/interpreter.h"
#include "value/kinds/dict.h"
#include "value/kinds/sequence.h"

namespace stator {

namespace {

class Binder {
  public:
    Binder(Interpreter& tracer, FunctionValue* function, const Arguments& arguments, std::vector<Value*>& slots)
        : tracer_(tracer), function_(function), arguments_(arguments), slots_(slots), code_(function->code) {}

    void bind() {
        take_positional();
        take_keywords();
        if (extra_positional_ > 0) raise_too_many();
        fill_defaults();
    }

  private:
    [[noreturn]] void refuse(const std::string& words) {
        tracer_.note_mismatch(function_, words, arguments_);
        tracer_.raise(PyExc_TypeError, words);
    }

    std::size_t positional_count() const { return static_cast<std::size_t>(code_->co_argcount); }
    std::size_t keyword_only_count() const { return static_cast<std::size_t>(code_->co_kwonlyargcount); }
    bool has_star() const { return (code_->co_flags & CO_VARARGS) != 0; }
    bool has_double_star() const { return (code_->co_flags & CO_VARKEYWORDS) != 0; }
    std::size_t star_slot() const { return positional_count() + keyword_only_count(); }
    std::size_t double_star_slot() const { return star_slot() + (has_star() ? 1 : 0); }
    PyObject* parameter(std::size_t index) const { return cpython::slot_name(code_, static_cast<int>(index)); }
    std::string title() const {
        PyObject* name = function_->outside != nullptr
                             ? reinterpret_cast<PyFunctionObject*>(function_->outside)->func_qualname
                             : code_->co_qualname;
        return std::string(utf8(name)) + "()";
    }

    void take_positional() {
        std::size_t given = arguments_.positional.size();
        std::size_t taken = std::min(given, positional_count());
        std::copy_n(arguments_.positional.begin(), taken, slots_.begin());
        if (has_star())
            slots_[star_slot()] = stator::make_tuple(
                tracer_,
                {arguments_.positional.begin() + static_cast<std::ptrdiff_t>(taken), arguments_.positional.end()});
        else
            extra_positional_ = given - taken;
    }

    void take_keywords() {
        DictValue* rest = nullptr;
        if (has_double_star()) slots_[double_star_slot()] = rest = tracer_.make<DictValue>();
        std::size_t positional_only = static_cast<std::size_t>(code_->co_posonlyargcount);
        for (const Keyword& keyword : arguments_.keywords) {
            std::size_t place = find(keyword.name, positional_only);
            if (place < star_slot()) {
                if (slots_[place] != nullptr)
                    refuse(title() + " got multiple values for argument '" + std::string(utf8(keyword.name)) + "'");
                slots_[place] = keyword.value;
            } else if (rest != nullptr) {
                rest->insert(tracer_, tracer_.constant(keyword.name), keyword.value);
            } else {
                raise_unexpected(keyword.name, positional_only);
            }
        }
    }

    /// The slot of a parameter that can be passed by keyword; `star_slot()` if there is none.
    std::size_t find(PyObject* name, std::size_t first) const {
        for (std::size_t i = first; i < star_slot(); ++i)
            if (parameter(i) == name) return i;
        for (std::size_t i = first; i < star_slot(); ++i)
            if (PyUnicode_Compare(parameter(i), name) == 0) return i;
        return star_slot();
    }

    [[noreturn]] void raise_unexpected(PyObject* name, std::size_t positional_only) {
        std::string clashes;
        for (std::size_t i = 0; i < positional_only; ++i)
            for (const Keyword& keyword : arguments_.keywords)
                if (PyUnicode_Compare(parameter(i), keyword.name) == 0)
                    clashes += (clashes.empty() ? "" : ", ") + std::string(utf8(keyword.name));
        if (!clashes.empty())
            refuse(title() + " got some positional-only arguments passed as keyword arguments: '" + clashes + "'");
        std::vector<PyObject*> parameters;
        for (std::size_t i = positional_only; i < star_slot(); ++i) parameters.push_back(parameter(i));
        Ref<> meant = cpython::suggested_parameter(parameters, name);
        refuse(title() + " got an unexpected keyword argument '" + std::string(utf8(name)) + "'" +
               (meant ? ". Did you mean '" + std::string(utf8(meant)) + "'?" : ""));
    }

    [[noreturn]] void raise_too_many() {
        std::size_t defaults = function_->default_count();
        std::size_t keyword_only_given = 0;
        for (std::size_t i = positional_count(); i < star_slot(); ++i) keyword_only_given += slots_[i] != nullptr;
        bool plural = positional_count() != 1;
        std::string takes = std::to_string(positional_count());
        if (defaults > 0) {
            takes = "from " + std::to_string(positional_count() - defaults) + " to " + takes;
            plural = true;
        }
        std::size_t given = arguments_.positional.size();
        std::string keyword_part;
        if (keyword_only_given > 0)
            keyword_part = " positional argument" + std::string(given != 1 ? "s" : "") + " (and " +
                           std::to_string(keyword_only_given) + " keyword-only argument" +
                           (keyword_only_given != 1 ? "s" : "") + ")";
        refuse(title() + " takes " + takes + " positional argument" + (plural ? "s" : "") + " but " +
               std::to_string(given) + keyword_part + (given == 1 && keyword_only_given == 0 ? " was" : " were") +
               " given");
    }

    void fill_defaults() {
        std::size_t defaults = function_->default_count();
        std::size_t first_default = positional_count() - defaults;
        std::vector<PyObject*> missing;
        for (std::size_t i = 0; i < positional_count(); ++i) {
            if (slots_[i] != nullptr) continue;
            if (i >= first_default)
                slots_[i] = function_->default_at(tracer_, i - first_default);
            else
                missing.push_back(parameter(i));
        }
        if (!missing.empty()) raise_missing(missing, "positional");
        for (std::size_t i = positional_count(); i < star_slot(); ++i) {
            if (slots_[i] != nullptr) continue;
            slots_[i] = function_->keyword_default(tracer_, parameter(i));
            if (slots_[i] == nullptr) missing.push_back(parameter(i));
        }
        if (!missing.empty()) raise_missing(missing, "keyword-only");
    }

    [[noreturn]] void raise_missing(const std::vector<PyObject*>& missing, const char* kind) {
        std::string names;
        for (std::size_t i = 0; i < missing.size(); ++i) {
            if (i > 0) names += i + 1 < missing.size() ? ", " : missing.size() == 2 ? " and " : ", and ";
            names += "'" + std::string(utf8(missing[i])) + "'";
        }
        refuse(title() + " missing " + std::to_string(missing.size()) + " required " + kind + " argument" +
               (missing.size() == 1 ? "" : "s") + ": " + names);
    }

    Interpreter& tracer_;
    FunctionValue* function_;
    const Arguments& arguments_;
    std::vector<Value*>& slots_;
    PyCodeObject* code_;
    std::size_t extra_positional_ = 0;
};

}  // namespace

void bind_arguments(Interpreter& tracer, FunctionValue* function, const Arguments& arguments,
                    std::vector<Value*>& slots) {
    Binder(tracer, function, arguments, slots).bind();
}

}  // namespace stator
