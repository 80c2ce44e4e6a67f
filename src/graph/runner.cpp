#include "graph/runner.h"

#include <algorithm>
#include <memory>

#include "base/alive.h"
#include "base/check.h"
#include "base/python_error.h"
#include "base/text.h"
#include "cpython/binary_operations.h"
#include "graph/program.h"
#include "graph/unique_targets.h"

namespace stator::graph {

std::vector<std::string> Runner::placeholders() const {
    std::vector<std::string> names;
    UniqueTargets targets;
    for (const Placeholder& placeholder : placeholders_) {
        std::string name =
            placeholder.path != nullptr ? identifier(*placeholder.path) : std::string(utf8(placeholder.target.get()));
        name += targets.suffix(name);
        names.push_back(std::move(name));
    }
    return names;
}

namespace {

bool has_fixed_sizes(const Result& result) {
    if (result.expression != nullptr || (result.tensor != nullptr && result.tensor->is_dynamic())) return false;
    return std::ranges::all_of(result.items, has_fixed_sizes);
}

}  // namespace

Runner::Runner(const Graph& graph) : texts_(graph.texts()) {
    STATOR_CHECK(graph.is_finished(), "only a finished graph can run");
    place_of_node_.resize(graph.size());
    for (const Node* node : graph.nodes()) {
        has_fixed_sizes_ &= has_fixed_sizes(node->result);
        has_held_values_ |= node->held != nullptr;
        if (node->kind == NodeKind::Placeholder) {
            has_fixed_sizes_ &= node->result.kind != Result::Kind::Constant;
            place_of_node_[node->index] = static_cast<std::uint32_t>(placeholders_.size());
            if (node->path != nullptr)
                placeholders_.push_back({Ref<>(), node->path});
            else
                placeholders_.push_back({Ref<>::share(node->target), nullptr});
        } else if (node->kind == NodeKind::Output) {
            STATOR_CHECK(node->arguments.size() == 1, "an output node has one argument");
            output_ = operand(node->arguments[0]);
        } else {
            add_step(*node);
        }
    }
    release_after_last_use(graph);
    place_of_node_ = {};
    count_alive(Alive::Runners, 1);
}

PyObject* Runner::keep(Ref<> object) {
    kept_.push_back(std::move(object));
    return kept_.back().get();
}

Runner::Operand Runner::operand(const Argument& argument) {
    if (argument.kind == Argument::Kind::Node) {
        bool is_input = argument.node->kind == NodeKind::Placeholder;
        return {is_input ? Operand::Kind::Input : Operand::Kind::Register, place_of_node_[argument.node->index]};
    }
    if (argument.kind == Argument::Kind::Constant) {
        constants_.push_back(keep(Ref<>::share(argument.constant)));
        return {Operand::Kind::Constant, static_cast<std::uint32_t>(constants_.size() - 1)};
    }
    Container container{argument.kind, {}, {}, {}};
    for (const Argument& item : argument.items->values) container.values.push_back(operand(item));
    for (PyObject* key : argument.items->keys) container.keys.push_back(Ref<>::share(key));
    if (argument.items->type != nullptr)
        container.type = Ref<>::share(reinterpret_cast<PyObject*>(argument.items->type));
    containers_.push_back(std::move(container));
    return {Operand::Kind::Container, static_cast<std::uint32_t>(containers_.size() - 1)};
}

void Runner::add_step(const Node& node) {
    Step step{};
    step.kind = node.kind;
    step.target = keep(Ref<>::share(node.target));
    std::vector<Operand> operands;
    for (const Argument& argument : node.arguments) operands.push_back(operand(argument));
    for (const KeywordArgument& keyword : node.keywords) operands.push_back(operand(keyword.value));
    step.first_operand = static_cast<std::uint32_t>(operands_.size());
    step.positional = static_cast<std::uint16_t>(node.arguments.size());
    step.operands = static_cast<std::uint16_t>(operands.size());
    STATOR_CHECK(operands.size() < 0xffff, "a call with more than 65534 arguments");
    STATOR_CHECK(node.kind != NodeKind::Method || step.positional > 0, "a method has its object as first argument");
    operands_.insert(operands_.end(), operands.begin(), operands.end());
    longest_call_ = std::max<std::uint32_t>(longest_call_, step.operands);
    if (!node.keywords.empty()) {
        Ref<> names = checked(PyTuple_New(static_cast<Py_ssize_t>(node.keywords.size())));
        for (std::size_t i = 0; i < node.keywords.size(); ++i)
            PyTuple_SET_ITEM(names.get(), i, Py_NewRef(node.keywords[i].name));
        step.keyword_names = keep(std::move(names));
    }
    if (node.kind == NodeKind::Function && operands.size() == 2 && step.positional == 2)
        step.binary = cpython::function_behind(step.target);
    reads_attributes_ |= node.kind == NodeKind::Attribute;
    step.result = registers_++;
    step.serial = node.serial;
    step.has_effect = node.has_effect;
    step.is_visible_to_program = node.is_visible_to_program;
    step.is_lasting = node.is_lasting;
    step.gives_token = node.kind == NodeKind::Function && node.has_effect && node.result.kind == Result::Kind::None;
    place_of_node_[node.index] = step.result;
    steps_.push_back(step);
}

/// A value is freed after the last step that reads it, as in the generated code of `torch.fx`; outputs are kept.
void Runner::release_after_last_use(const Graph& graph) {
    constexpr std::uint32_t kStays = ~std::uint32_t{0};
    std::vector<std::uint32_t> last_use(registers_);
    for (std::uint32_t i = 0; i < registers_; ++i) last_use[i] = i;  // step i makes register i
    for (const Node* node : graph.nodes()) {
        if (node->kind == NodeKind::Placeholder) continue;
        std::uint32_t user = node->kind == NodeKind::Output ? kStays : place_of_node_[node->index];
        for_each_input(*node, [&](const Node* input) {
            if (input->kind != NodeKind::Placeholder) last_use[place_of_node_[input->index]] = user;
        });
        if (node->held == nullptr) continue;
        for (const Node* held : *node->held)
            if (held->kind != NodeKind::Placeholder && held->index < graph.size() && graph.at(held->index) == held)
                last_use[place_of_node_[held->index]] = user;
    }
    std::vector<std::vector<std::uint32_t>> released_by(steps_.size());
    for (std::uint32_t i = 0; i < registers_; ++i)
        if (last_use[i] != kStays) released_by[last_use[i]].push_back(i);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        steps_[i].first_release = static_cast<std::uint32_t>(released_.size());
        steps_[i].releases = static_cast<std::uint32_t>(released_by[i].size());
        released_.insert(released_.end(), released_by[i].begin(), released_by[i].end());
    }
}

namespace {

/// `self.a.b` for the target `a.b`.
Ref<> read_attribute(Borrowed<> module, Borrowed<> target) {
    Ref<> object = Ref<>::share(module.get());
    std::string_view path = utf8(target);
    while (object) {
        std::size_t dot = path.find('.');
        std::string name(path.substr(0, dot));
        object = Ref<>::steal(PyObject_GetAttrString(object.get(), name.c_str()));
        if (dot == std::string_view::npos) break;
        path.remove_prefix(dot + 1);
    }
    return object;
}

}  // namespace

Runner::~Runner() {
    count_alive(Alive::Runners, -1);
}

void Runner::prepare_calls(Recording recording) {
    if (program_ == nullptr) program_ = std::make_unique<Program>(*this, recording);
}

Ref<> Runner::run(std::span<PyObject* const> inputs, Borrowed<> module, std::optional<Failure>* failure) const {
    STATOR_DCHECK(inputs.size() == placeholders_.size(), "one input for each placeholder");
    STATOR_CHECK(!reads_attributes_ || module != nullptr, "a graph with attributes needs the module that has them");
    if (program_ != nullptr) return program_->run(inputs, module, failure);
    return run_as_captured(inputs, module, failure);
}

[[gnu::always_inline]] inline bool Runner::call_here(const Step& step, std::span<PyObject* const> inputs,
                                                     Borrowed<> module, Registers& registers) const {
    PyObject** arguments = registers.call_arguments();
    // Containers are built for this call only, and freed after it.
    Ref<> built_here[4];
    std::vector<Ref<>> built_more;
    std::size_t built = 0;
    for (std::uint32_t i = 0; i < step.operands; ++i) {
        Operand operand = operands_[step.first_operand + i];
        switch (operand.kind) {
            case Operand::Kind::Input:
                arguments[i] = inputs[operand.number];
                break;
            case Operand::Kind::Register:
                arguments[i] = registers[operand.number];
                break;
            case Operand::Kind::Constant:
                arguments[i] = constants_[operand.number];
                break;
            case Operand::Kind::Container:
                Ref<> container = build(containers_[operand.number], inputs, registers);
                if (!container) return false;
                arguments[i] = container.get();
                if (built < std::size(built_here))
                    built_here[built++] = std::move(container);
                else
                    built_more.push_back(std::move(container));
                break;
        }
    }
    std::size_t flags = step.positional | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject* result = nullptr;
    if (step.binary != nullptr)
        result = step.binary(arguments[0], arguments[1]);
    else if (step.kind == NodeKind::Function)
        result = PyObject_Vectorcall(step.target, arguments, flags, step.keyword_names);
    else if (step.kind == NodeKind::Method)
        result = PyObject_VectorcallMethod(step.target, arguments, flags, step.keyword_names);
    else
        result = read_attribute(module, step.target).release();
    if (result == nullptr) return false;
    registers.set(step.result, result);
    return true;
}

Ref<> Runner::run_as_captured(std::span<PyObject* const> inputs, Borrowed<> module,
                              std::optional<Failure>* failure) const {
    Registers registers(registers_, longest_call_);
    for (const Step& step : steps_) {
        if (!call_here(step, inputs, module, registers)) return fail(step, registers, failure);
        for (std::uint32_t i = 0; i < step.releases; ++i) registers.release(released_[step.first_release + i]);
    }
    return value(output_, inputs, registers);
}

Ref<> Runner::fail(const Step& step, Registers& registers, std::optional<Failure>* failure) const {
    leave_contexts(step, registers);
    if (failure != nullptr) *failure = failure_at(step, registers);
    return nullptr;
}

bool Runner::call(const Step& step, std::span<PyObject* const> inputs, Borrowed<> module, Registers& registers) const {
    return call_here(step, inputs, module, registers);
}

void Runner::leave_contexts(const Step& failed, Registers& registers) const {
    ErrorAside aside;
    for (const Step* step = &failed + 1; step != steps_.data() + steps_.size(); ++step) {
        if (step->kind != NodeKind::Function || step->operands != 1) continue;
        Operand token = operands_[step->first_operand];
        if (token.kind != Operand::Kind::Register || !steps_[token.number].gives_token) continue;
        if (registers[token.number] == nullptr) continue;
        if (!Ref<>::steal(PyObject_CallOneArg(step->target, registers[token.number]))) PyErr_Clear();
        // Freeing it may exit a mode.
        registers.release(token.number);
    }
}

Failure Runner::failure_at(const Step& failed, const Registers& registers) const {
    Failure failure{.serial = failed.serial, .target = Ref<>::share(failed.target), .has_effect = failed.has_effect};
    {
        ErrorAside aside;
        if (PyObject_HasAttrString(failed.target, "undoes_itself") != 0) failure.has_effect = false;
    }
    for (const Step& step : steps_) {
        failure.is_visible_to_program |= step.is_visible_to_program;
        failure.is_lasting |= step.is_lasting;
        if (&step == &failed) break;
        if (PyObject* value = registers[step.result]) failure.values.emplace(step.serial, Ref<>::share(value));
    }
    return failure;
}

Ref<> Runner::value(Operand operand, std::span<PyObject* const> inputs, const Registers& registers) const {
    switch (operand.kind) {
        case Operand::Kind::Input:
            return Ref<>::share(inputs[operand.number]);
        case Operand::Kind::Register:
            return Ref<>::share(registers[operand.number]);
        case Operand::Kind::Constant:
            return Ref<>::share(constants_[operand.number]);
        case Operand::Kind::Container:
            return build(containers_[operand.number], inputs, registers);
    }
    return nullptr;
}

/// Null with the error indicator set if a user-defined class raised.
Ref<> Runner::build(const Container& container, std::span<PyObject* const> inputs, const Registers& registers) const {
    auto size = static_cast<Py_ssize_t>(container.values.size());
    if (container.kind == Argument::Kind::Dict) {
        Ref<> dict = Ref<>::steal(PyDict_New());
        for (Py_ssize_t i = 0; dict && i < size; ++i) {
            Ref<> item = value(container.values[i], inputs, registers);
            if (!item || PyDict_SetItem(dict.get(), container.keys[i].get(), item.get()) < 0) return nullptr;
        }
        return dict;
    }
    if (container.kind == Argument::Kind::Slice) {
        Ref<> start = value(container.values[0], inputs, registers);
        Ref<> stop = value(container.values[1], inputs, registers);
        Ref<> step = value(container.values[2], inputs, registers);
        return start && stop && step ? Ref<>::steal(PySlice_New(start.get(), stop.get(), step.get())) : nullptr;
    }
    bool is_list = container.kind == Argument::Kind::List;
    Ref<> sequence = Ref<>::steal(is_list ? PyList_New(size) : PyTuple_New(size));
    if (!sequence) return nullptr;
    for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* item = value(container.values[i], inputs, registers).release();
        if (item == nullptr) return nullptr;
        if (is_list)
            PyList_SET_ITEM(sequence.get(), i, item);
        else
            PyTuple_SET_ITEM(sequence.get(), i, item);
    }
    if (!container.type || container.type.get() == reinterpret_cast<PyObject*>(Py_TYPE(sequence.get())))
        return sequence;
    PyObject* type = container.type.get();
    bool is_named_tuple = !is_list && PyObject_HasAttrString(type, "_fields") != 0;
    return Ref<>::steal(is_named_tuple ? PyObject_CallObject(type, sequence.get())
                                       : PyObject_CallOneArg(type, sequence.get()));
}

int Runner::traverse(visitproc visit, void* arg) const {
    for (const Ref<>& object : kept_) Py_VISIT(object.get());
    for (const Container& container : containers_) {
        for (const Ref<>& key : container.keys) Py_VISIT(key.get());
        Py_VISIT(container.type.get());
    }
    return 0;
}

}  // namespace stator::graph
