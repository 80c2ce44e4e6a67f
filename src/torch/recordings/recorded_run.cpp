#include "torch/recordings/recorded_run.h"

#include <ATen/core/VariableHooksInterface.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace stator::torch_room {

namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Where a tensor that the row made comes from.
struct Origin {
    enum class Kind : std::uint8_t { Outside, Fresh, View, Same };
    Kind kind = Kind::Outside;
    std::uint32_t step = 0, call = 0;
    std::uint32_t of = 0;         // Same: the value
    bool is_plain_view = false;   // View: all results of the call are views, and it writes to nothing
    bool is_hidden_view = false;  // Fresh: a view of a tensor that only the operator knows
    std::optional<Root> root;     // Fresh: without its storage
    std::optional<WeakStorage> storage;
    c10::VariableVersion version;  // Fresh
};

Root describe(const at::Tensor& tensor, std::uint32_t value) {
    return {value,
            {},
            tensor.sizes().vec(),
            tensor.strides().vec(),
            tensor.storage_offset(),
            tensor.key_set(),
            tensor.dtype(),
            std::nullopt};
}

class Run {
  public:
    Run(const PreparedCalls& calls, const Row& row, const std::vector<at::Tensor>& inputs)
        : calls_(calls), row_(row), inputs_(inputs), values_(calls.value_count()), origins_(calls.value_count()) {
        run_.is_written.resize(inputs.size());
        for (std::size_t i = 0; i < inputs.size(); ++i) tensors()[row.inputs[i]] = inputs[i];
    }

    RecordedRun run() {
        for (std::size_t step = row_.first; step < row_.last; ++step) {
            for (std::size_t call = 0; call < calls_.call_count(step); ++call) {
                const CallValues used = calls_.values_of(step, call);
                note_writes(used);
                calls_.run_call(step, call, values_);
                note_results(static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(call), used);
                for (std::uint32_t value : used.released) tensors()[value].reset();
            }
            for (std::uint32_t value : calls_.released_after(step)) tensors()[value].reset();
        }
        for (std::uint32_t value : row_.results) need(value);
        if (run_.refusal.empty()) finish();
        return std::move(run_);
    }

  private:
    at::Tensor* tensors() const { return values_.tensors(); }

    void note_writes(const CallValues& used) {
        for (std::uint32_t value : used.written)
            for (std::size_t i = 0; i < inputs_.size(); ++i)
                if (tensors()[value].defined() && tensors()[value].is_alias_of(inputs_[i])) run_.is_written[i] = true;
    }

    void note_results(std::uint32_t step, std::uint32_t call, const CallValues& used) {
        bool are_all_views = !used.is_mutable;
        for (std::size_t i = 0; i < used.results.size(); ++i) {
            Origin& origin = origins_[used.results[i]];
            origin.step = step;
            origin.call = call;
            const std::span<const std::uint32_t> earlier(used.results.data(), i);
            if (!relate(used.operands, used.results[i], &origin) && !relate(earlier, used.results[i], &origin))
                describe_fresh(used.results[i], &origin);
            are_all_views &= origin.kind != Origin::Kind::Fresh;
        }
        for (std::uint32_t value : used.results) origins_[value].is_plain_view = are_all_views;
    }

    /// Whether the result is one of these tensors, or a view of one.
    bool relate(std::span<const std::uint32_t> others, std::uint32_t result, Origin* origin) const {
        const at::Tensor& tensor = tensors()[result];
        for (std::uint32_t other : others) {
            if (!tensors()[other].defined()) continue;
            if (tensor.is_same(tensors()[other])) {
                origin->kind = Origin::Kind::Same;
                origin->of = other;
                return true;
            }
            if (tensor.is_alias_of(tensors()[other])) origin->kind = Origin::Kind::View;
        }
        return origin->kind == Origin::Kind::View;
    }

    void describe_fresh(std::uint32_t value, Origin* origin) const {
        const at::Tensor& tensor = tensors()[value];
        origin->kind = Origin::Kind::Fresh;
        origin->is_hidden_view = tensor.is_view();
        origin->root = describe(tensor, value);
        origin->storage = WeakStorage(tensor.storage().getWeakStorageImpl());
        if (!tensor.is_inference()) origin->version = tensor.unsafeGetTensorImpl()->version_counter();
    }

    void refuse(const char* reason) {
        if (run_.refusal.empty()) run_.refusal = reason;
    }

    /// Plans how a result is made after a replay.
    void need(std::uint32_t value) {
        if (!needed_.insert(value).second) return;
        const Origin& origin = origins_[value];
        switch (origin.kind) {
            case Origin::Kind::Outside:
                break;
            case Origin::Kind::Fresh:
                if (origin.is_hidden_view) refuse("one of its results is a view of a tensor inside of an operator");
                break;
            case Origin::Kind::Same:
                need(origin.of);
                break;
            case Origin::Kind::View:
                if (!origin.is_plain_view)
                    refuse("an operator returns views beside new tensors, or writes and returns a view");
                for (std::uint32_t operand : calls_.values_of(origin.step, origin.call).operands) need(operand);
                break;
        }
    }

    void finish() {
        std::vector<std::uint32_t> ordered;
        for (std::uint32_t value : needed_)
            if (origins_[value].kind != Origin::Kind::Outside) ordered.push_back(value);
        std::ranges::stable_sort(ordered, {}, [&](std::uint32_t value) {
            return std::tuple(origins_[value].step, origins_[value].call, value);
        });
        std::set<std::uint32_t> made;
        for (std::uint32_t value : ordered) add_act(value, made);
        for (std::uint32_t value : made)
            if (std::ranges::find(row_.results, value) == row_.results.end()) run_.temporaries.push_back(value);
    }

    void add_act(std::uint32_t value, std::set<std::uint32_t>& made) {
        Origin& origin = origins_[value];
        ResultAct act{ResultAct::Kind::Root, value, 0, origin.step, origin.call};
        if (origin.kind == Origin::Kind::Fresh) {
            act.from = static_cast<std::uint32_t>(run_.roots.size());
            if (!add_root(origin)) return;
        } else if (origin.kind == Origin::Kind::Same) {
            act.kind = ResultAct::Kind::Same;
            act.from = origin.of;
        } else {
            if (made.contains(value)) return;  // by another result of the same call
            act.kind = ResultAct::Kind::View;
            for (std::uint32_t result : calls_.values_of(origin.step, origin.call).results) made.insert(result);
        }
        made.insert(value);
        run_.acts.push_back(act);
    }

    bool add_root(Origin& origin) {
        auto storage = origin.storage->lock();
        if (!storage) {
            refuse("the sizes of a result depend on a tensor that is not kept");
            return false;
        }
        origin.root->storage = c10::Storage(std::move(storage));
        if (origin.version.enabled()) origin.root->version = origin.version.current_version();
        run_.roots.push_back(std::move(*origin.root));
        return true;
    }

    const PreparedCalls& calls_;
    const Row& row_;
    const std::vector<at::Tensor>& inputs_;
    TensorValues values_;
    std::vector<Origin> origins_;  // by value
    std::set<std::uint32_t> needed_;
    RecordedRun run_;
};

}  // namespace

void set_version(const at::Tensor& tensor, std::uint32_t version) {
    c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();  // the same one
    counter.set_version(version);
}

at::Tensor Root::on(c10::Storage other) const {
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(other), keys, dtype);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    if (version && !tensor.is_inference()) set_version(tensor, *version);
    return tensor;
}

RecordedRun run_recorded(const PreparedCalls& calls, const Row& row, const std::vector<at::Tensor>& inputs) {
    return Run(calls, row, inputs).run();
}

at::Tensor bytes_of(const c10::Storage& storage) {
    const auto device = storage.device();
    const c10::DispatchKeySet keys(c10::computeDispatchKey(at::kByte, at::kStrided, device));
    at::Tensor tensor =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, caffe2::TypeMeta::Make<std::uint8_t>());
    const std::int64_t size = static_cast<std::int64_t>(storage.nbytes()), stride = 1;
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides({&size, 1}, {&stride, 1});
    return tensor;
}

}  // namespace stator::torch_room
