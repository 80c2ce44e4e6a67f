#include "shape/infer.h"

#include "shape/answer_by_rule.h"
#include "shape/data_fallback.h"
#include "shape/fallback.h"
#include "shape/key.h"
#include "shape/may_fail.h"
#include "shape/number_arguments.h"
#include "shape/store.h"
#include "shape/symbolic_fallback.h"
#include "torch/function_transforms.h"
#include "torch/global_state.h"
#include "torch/wrappers.h"

namespace stator::shape {

namespace {

Counts counters;

Answer unknown_state() {
    Answer answer;
    answer.status = Status::Unsupported;
    answer.reason = torch_room::call_inside_of_transform();
    if (answer.reason.empty()) answer.reason = "a torch dispatch mode or a torch function mode is active";
    return answer;
}

/// An answer that can't be shared: the arena owns it and what it points to.
const Answer& for_arena_alone(Arena& arena, Answer answer, std::vector<Ref<>> kept) {
    for (Ref<>& object : kept) arena.keep(std::move(object));
    return *arena.make<Answer>(std::move(answer));
}

/// Calls `visit(dim, is_number)` for each size, stride and offset of tensors among the arguments, and for each int that
/// changes.
template <class Visit>
void for_each_dim(const graph::Argument& argument, const Visit& visit) {
    graph::for_each_node(argument, [&](const graph::Node* node) {
        const graph::Result& result = node->result;
        if (result.kind == graph::Result::Kind::Constant && result.expression != nullptr &&
            !result.expression->is_float)
            visit(Dim::of(result.expression), true);
        if (result.kind != graph::Result::Kind::Tensor) return;
        torch_room::for_each_dim(*result.tensor, [&](Dim dim) { visit(dim, false); });
    });
}

template <class Visit>
void for_each_dim(const Question& question, const Visit& visit) {
    for (const graph::Argument& argument : question.arguments) for_each_dim(argument, visit);
    for (const graph::KeywordArgument& keyword : question.keywords) for_each_dim(keyword.value, visit);
}

/// Whether the question is about sizes that change between calls.
bool is_dynamic(const Question& question) {
    if (question.dynamic_answers == nullptr) return false;
    bool is = false;
    for_each_dim(question, [&](Dim dim, bool) { is = is || !dim.is_constant(); });
    return is;
}

bool has_unbacked(const Question& question) {
    if (question.data_sizes == nullptr || question.data_sizes->numbers.unbacked_numbers().empty()) return false;
    bool has = false;
    for_each_dim(question, [&](Dim dim, bool) { has = has || dim.is_unbacked(); });
    return has;
}

bool captures_data_sizes(const Question& question) {
    return question.data_sizes != nullptr && question.data_sizes->are_captured;
}

Answer without_rule_for_data() {
    Answer answer;
    answer.status = Status::DataDependent;
    answer.reason = "an operation has no rule for sizes that depend on the data of a tensor";
    return answer;
}

/// Tells whether an answer holds for its question alone: it has a new size that depends on data.
class OwnSizes {
  public:
    explicit OwnSizes(const Question& question) : sizes_(question.data_sizes), before_(count()) {}
    bool were_made() const { return count() != before_; }

  private:
    std::size_t count() const {
        return sizes_ == nullptr ? 0 : sizes_->uses + sizes_->numbers.unbacked_numbers().size();
    }
    const DataSizes* sizes_;
    std::size_t before_;
};

/// An answer holds for the sizes of this call alone.
void specialize(const Question& question) {
    auto take_any = takes_any_number(question.kind, question.target);
    for_each_dim(question, [&](Dim dim, bool is_number) {
        if (!is_number || take_any != AnyNumber::IntOrFloat) dim.value();
    });
}

}  // namespace

const Answer& infer(Arena& arena, const Question& question) {
    torch_room::ResultState state = torch_room::read_result_state();
    if (state.unknown) return for_arena_alone(arena, unknown_state(), {});
    if (current_store()->is_full()) forget_answers();
    const bool has_dynamic_sizes = is_dynamic(question);
    // An owning reference: PyTorch may run Python code that clears the cache.
    std::shared_ptr<Store> store = has_dynamic_sizes ? *question.dynamic_answers : current_store();
    Store::pin(store, arena);
    Key key(*store, question, state);
    const Answer* known = key.is_cacheable() ? store->find(key.words(), key.hash()) : nullptr;
    // Of a trace that captures sizes which depend on data, that is not the last word.
    const bool is_asked_again =
        known != nullptr && known->status == Status::DataDependent && question.data_sizes != nullptr;
    if (known != nullptr && !is_asked_again) {
        ++counters.hits;
        return *known;
    }
    std::vector<Ref<>> kept;
    Answer answer;
    const OwnSizes own(question);
    if (answer_by_rule(*store, question, state, answer, kept)) {
        ++counters.rules;
    } else if (has_unbacked(question)) {
        answer = answer_for_data(*store, question).value_or(without_rule_for_data());
    } else {
        ++counters.fallbacks;
        answer = infer_with_fake_tensors(*store, question, kept);
        if (answer.status == Status::DataDependent && captures_data_sizes(question))
            answer = answer_for_data(*store, question).value_or(answer);
        const bool holds_here_alone = has_dynamic_sizes && answer.status == Status::Ok && !own.were_made();
        if (holds_here_alone && !generalize(*store, question, answer, kept)) specialize(question);
    }
    answer.may_fail = answer.may_fail || may_fail(question);
    if (!key.is_cacheable() || own.were_made() || is_asked_again) {
        ++counters.uncached;
        return for_arena_alone(arena, std::move(answer), std::move(kept));
    }
    for (Ref<>& object : key.objects()) kept.push_back(std::move(object));
    return *store->add(key.words(), key.hash(), std::move(answer), std::move(kept));
}

const Answer* infer_by(Arena& arena, const Question& question, Way way) {
    if (way == Way::Any) return &infer(arena, question);
    torch_room::ResultState state = torch_room::read_result_state();
    std::shared_ptr<Store> store = is_dynamic(question) ? *question.dynamic_answers : current_store();
    Store::pin(store, arena);
    Answer answer;
    std::vector<Ref<>> kept;
    if (way == Way::RuleOnly) {
        if (state.unknown || !answer_by_rule(*store, question, state, answer, kept)) return nullptr;
    } else {
        answer = infer_with_fake_tensors(*store, question, kept);
        const bool holds_here_alone = is_dynamic(question) && answer.status == Status::Ok;
        if (holds_here_alone && !generalize(*store, question, answer, kept)) return nullptr;
    }
    return &for_arena_alone(arena, std::move(answer), std::move(kept));
}

void forget_answers() {
    current_store() = std::make_shared<Store>();
}

const Counts& counts() {
    return counters;
}

std::string print(const Answer& answer) {
    if (answer.status == Status::DataDependent) return "data-dependent: " + answer.reason;
    if (answer.status == Status::Unsupported) return "unsupported: " + answer.reason;
    std::string text = graph::print(answer.result);
    if (answer.result.same_as_argument >= 0)
        text = "argument " + std::to_string(answer.result.same_as_argument) + ": " + text;
    if (answer.view_of >= 0) text = "view of " + std::to_string(answer.view_of) + ": " + text;
    if (!answer.views_of.empty()) {
        std::string bases;
        for (int base : answer.views_of)
            bases += (bases.empty() ? "" : ", ") + (base < 0 ? "none" : std::to_string(base));
        text = "views of " + bases + ": " + text;
    }
    for (int index : answer.written) text += ", writes " + std::to_string(index);
    for (const MetadataChange& change : answer.changed_metadata)
        text += ", " + std::to_string(change.argument) + " becomes " + torch_room::print(*change.meta);
    if (answer.random) text += ", random";
    if (answer.side_effect) text += ", side effect";
    return text;
}

}  // namespace stator::shape
