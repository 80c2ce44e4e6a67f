#include "torch/kept_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "torch/implementation.h"
#include "torch/tensor.h"

namespace stator::torch_room {

namespace {

AutogradMeta* autograd_of(const at::Tensor& tensor) {
    return torch::autograd::impl::get_autograd_meta(tensor);
}

/// The autograd history of a tensor.
struct History {
    decltype(AutogradMeta::grad_fn_) function;
    std::uint32_t output = 0;
    bool requires_grad = false;

    static History of(const at::Tensor& tensor) {
        const AutogradMeta* autograd = autograd_of(tensor);
        if (autograd == nullptr) return {};
        return {autograd->grad_fn_, autograd->output_nr_, autograd->requires_grad_};
    }
    bool operator==(const History& other) const {
        return function == other.function && output == other.output && requires_grad == other.requires_grad;
    }
    void give_to(const at::Tensor& tensor) const {
        AutogradMeta* autograd = autograd_of(tensor);
        autograd->grad_fn_ = function;
        autograd->output_nr_ = output;
        autograd->requires_grad_ = requires_grad;
    }
};

}  // namespace

std::optional<std::size_t> bytes_to_keep(Borrowed<> object) {
    if (!is_tensor(object)) return std::nullopt;
    const c10::TensorImpl& tensor = *implementation(object);
    if (!tensor.is_cpu()) return std::nullopt;
    auto [begin, end] = memory_of(object);
    if (begin == end && (tensor.layout() != c10::kStrided || tensor.numel() != 0)) return std::nullopt;
    return end - begin;
}

bool shares_history(Borrowed<> object) {
    const AutogradMeta* autograd = autograd_of(THPVariable_Unpack(object.get()));
    return autograd != nullptr && (autograd->is_view_ || !autograd->hooks_.empty() || autograd->retains_grad_);
}

struct KeptState::Tensor {
    at::Tensor tensor;
    char* memory = nullptr;  // null without contents
    std::size_t size = 0;
    std::size_t at = 0;  // in contents_
    std::optional<std::uint32_t> version;
    History history;
};

struct KeptState::Generator {
    at::Generator generator;
    // The whole state of the CPU generator (a clone would be seeded first, which takes longer than most operations).
    std::unique_ptr<at::mt19937> engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
    // The position of other generators.
    std::uint64_t seed = 0, offset = 0;
};

KeptState::KeptState(std::size_t bytes) {
    contents_.reserve(bytes);
}
KeptState::~KeptState() = default;

void KeptState::keep_random_numbers(std::span<const Device> devices) {
    for (Device device : devices) {
        try {
            c10::Device where(static_cast<c10::DeviceType>(device.kind), static_cast<c10::DeviceIndex>(device.index));
            Generator& kept = generators_.emplace_back();
            kept.generator =
                where.is_cpu() ? at::detail::getDefaultCPUGenerator() : at::globalContext().defaultGenerator(where);
            std::lock_guard<std::mutex> lock(kept.generator.mutex());
            if (where.is_cpu()) {
                auto* live = at::check_generator<at::CPUGeneratorImpl>(kept.generator);
                kept.engine.reset(new at::mt19937(live->engine()));  // no second copy
                kept.next_float = live->next_float_normal_sample();
                kept.next_double = live->next_double_normal_sample();
            } else {
                kept.seed = kept.generator.current_seed();
                kept.offset = kept.generator.get_offset();
            }
        } catch (const std::exception&) {
            is_complete_ = false;  // while a CUDA graph is being recorded, for example
        }
    }
}

void KeptState::keep(Borrowed<> object, bool with_contents) {
    Tensor kept;
    kept.tensor = THPVariable_Unpack(object.get());
    if (!kept.tensor.is_inference()) kept.version = kept.tensor._version();
    kept.history = History::of(kept.tensor);
    if (with_contents) {
        auto [begin, end] = memory_of(object);
        kept.memory = reinterpret_cast<char*>(begin);
        kept.size = end - begin;
        kept.at = contents_.size();
        contents_.insert(contents_.end(), kept.memory, kept.memory + kept.size);
    }
    tensors_.push_back(std::move(kept));
}

bool KeptState::restore() {
    if (!is_complete_) return false;
    for (const Tensor& kept : tensors_) {
        // Resized, or with new storage.
        if (kept.memory != nullptr && !kept.tensor.has_storage()) return false;
        bool is_as_it_was = kept.history == History::of(kept.tensor);
        if (!is_as_it_was && autograd_of(kept.tensor)->is_view_) return false;
    }
    for (const Tensor& kept : tensors_) {
        if (kept.size > 0) std::memcpy(kept.memory, contents_.data() + kept.at, kept.size);
        if (kept.version) {
            c10::VariableVersion counter = kept.tensor.unsafeGetTensorImpl()->version_counter();  // shared
            counter.set_version(*kept.version);
        }
        if (!(kept.history == History::of(kept.tensor))) kept.history.give_to(kept.tensor);
    }
    for (Generator& kept : generators_) {
        std::lock_guard<std::mutex> lock(kept.generator.mutex());
        if (!kept.engine) {
            kept.generator.set_current_seed(kept.seed);
            kept.generator.set_offset(kept.offset);
            continue;
        }
        auto* live = at::check_generator<at::CPUGeneratorImpl>(kept.generator);
        live->set_engine(*kept.engine);
        live->set_next_float_normal_sample(kept.next_float);
        live->set_next_double_normal_sample(kept.next_double);
    }
    return true;
}

}  // namespace stator::torch_room
