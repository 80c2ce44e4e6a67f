#include "shape/unrecorded_writes.h"

#include <algorithm>

#include "base/imported.h"
#include "base/python_error.h"
#include "shape/language/call.h"
#include "shape/tensors.h"

namespace stator::shape {

namespace {

struct Writer {
    PyObject* target;
    Signature signature;
    // Slots of the running statistics, and of the flag that enables writes to them.
    std::size_t mean, variance, flag;
    bool flag_default;
};

const std::vector<Writer>& writers() {
    static const auto* all = [] {
        auto* made = new std::vector<Writer>;
        auto add = [made](const char* module, const char* name, const char* signature, std::size_t mean,
                          std::size_t flag, bool flag_default) {
            Ref<> target = find_imported(module, name);
            if (target) made->push_back({target.release(), Signature(signature), mean, mean + 1, flag, flag_default});
        };
        const char* functional = "torch.nn.functional";
        add(functional, "batch_norm", "self running_mean running_var weight? bias? training? momentum? eps?", 1, 5,
            false);
        add(functional, "instance_norm",
            "self running_mean? running_var? weight? bias? use_input_stats? momentum? eps?", 1, 5, true);
        add("torch", "batch_norm", "self weight bias running_mean running_var training momentum eps cudnn_enabled", 3,
            5, false);
        add("torch", "instance_norm",
            "self weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled", 3, 5, true);
        add("torch", "native_batch_norm", "self weight bias running_mean running_var training momentum eps", 3, 5,
            false);
        add("torch", "cudnn_batch_norm",
            "self weight bias running_mean running_var training exponential_average_factor epsilon", 3, 5, false);
        add("torch", "miopen_batch_norm",
            "self weight bias running_mean running_var training exponential_average_factor epsilon", 3, 5, false);
        return made;
    }();
    return *all;
}

}  // namespace

void note_unrecorded_writes(const Question& question, Answer& answer) {
    if (question.kind != graph::NodeKind::Function) return;
    for (const Writer& writer : writers()) {
        if (writer.target != question.target.get()) continue;
        std::array<Operand, Signature::kMost> slots;
        if (!writer.signature.bind(question, slots)) return;
        const Operand& flag = slots[writer.flag];
        // A flag that is not a constant bool may be true.
        if (flag.is_given() ? flag.boolean() == false : !writer.flag_default) return;
        TensorArguments tensors(question);
        for (std::size_t slot : {writer.mean, writer.variance}) {
            int index = slots[slot].node() == nullptr ? -1 : tensors.index_of(slots[slot].node());
            if (index >= 0 && std::find(answer.written.begin(), answer.written.end(), index) == answer.written.end())
                answer.written.push_back(index);
        }
        return;
    }
}

}  // namespace stator::shape
