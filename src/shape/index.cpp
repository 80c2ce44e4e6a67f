#include "shape/index.h"

#include <algorithm>

#include "shape/strides.h"

namespace stator::shape {

namespace {

bool is_chooser(const Operand& index, const TensorMeta& self) {
    const TensorMeta* tensor = index.tensor();
    return tensor != nullptr && tensor->device == self.device &&
           (tensor->dtype == torch_room::dtype::kLong || tensor->dtype == torch_room::dtype::kInt);
}

}  // namespace

std::optional<IndexedPart> apply_basic_index(const TensorMeta& self, const Operand& index) {
    std::vector<const TensorMeta*> choosers;
    auto part = apply_basic_index(self, index, choosers);
    for (const TensorMeta* chooser : choosers)
        if (chooser != nullptr) return std::nullopt;
    return part;
}

std::optional<IndexedPart> apply_basic_index(const TensorMeta& tensor, const Operand& index_operand,
                                             std::vector<const TensorMeta*>& choosers) {
    const TensorMeta* self = &tensor;
    bool is_tuple = index_operand.is_sequence() && !index_operand.is_list();
    std::vector<Operand> indices = is_tuple ? index_operand.items() : std::vector<Operand>{index_operand};
    std::size_t consumed = 0, ellipses = 0;
    for (const Operand& index : indices) {
        if (index.integer() || index.is_slice() || is_chooser(index, tensor))
            ++consumed;
        else if (index.constant() == Py_Ellipsis)
            ++ellipses;
        else if (!index.is_none())
            return std::nullopt;
    }
    if (consumed > self->dimensions() || ellipses > 1) return std::nullopt;
    Dims sizes, strides;
    Dim offset = self->storage_offset;
    std::size_t next = 0;
    auto copy_dimension = [&] {
        sizes.push_back(self->sizes[next]);
        strides.push_back(self->strides[next]);
        ++next;
        choosers.push_back(nullptr);
    };
    for (const Operand& index : indices) {
        if (index.is_none()) {
            sizes.push_back(1);
            choosers.push_back(nullptr);
            strides.push_back(next < self->dimensions() ? self->sizes[next] * self->strides[next] : Dim(1));
        } else if (index.constant() == Py_Ellipsis) {
            for (std::size_t i = consumed; i < self->dimensions(); ++i) copy_dimension();
        } else if (index.tensor() != nullptr) {
            copy_dimension();
            choosers.back() = index.tensor();
        } else if (auto position = index.integer()) {
            Dim size = self->sizes[next];
            if (*position < 0) *position += size;
            if (*position < 0 || *position >= size) return std::nullopt;
            offset += *position * self->strides[next];
            ++next;
        } else {
            std::vector<Operand> bounds = index.items();
            auto step = bounds[2].is_none() ? std::optional<Dim>(1) : bounds[2].integer();
            Dim size = self->sizes[next];
            auto start = bounds[0].is_none() ? std::optional<Dim>(0) : bounds[0].integer();
            auto stop = bounds[1].is_none() ? std::optional<Dim>(size) : bounds[1].integer();
            if (!step || !start || !stop || *step <= 0) return std::nullopt;
            auto clamp = [&](Dim bound) {
                if (bound < 0) bound += size;
                return std::min(std::max(bound, Dim(0)), size);
            };
            Dim first = clamp(*start), last = std::max(clamp(*stop), clamp(*start));
            offset += first * self->strides[next];
            sizes.push_back((last - first + *step - 1) / *step);
            strides.push_back(self->strides[next] * *step);
            choosers.push_back(nullptr);
            ++next;
        }
    }
    while (next < self->dimensions()) copy_dimension();
    return IndexedPart{std::move(sizes), std::move(strides), offset};
}

std::optional<IndexedPart> choose_elements(const IndexedPart& part, const std::vector<const TensorMeta*>& choosers) {
    // All choosers together have one shape.
    Dims chosen;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < choosers.size(); ++i) {
        if (choosers[i] == nullptr) continue;
        auto sizes = broadcast(chosen, choosers[i]->sizes);
        if (!sizes) return std::nullopt;
        chosen = std::move(*sizes);
        places.push_back(i);
    }
    if (places.empty()) return std::nullopt;
    for (Dim size : part.sizes)
        if (size == 0) return std::nullopt;
    // What was chosen stands where the choosers stood, or in front if something stands between them.
    bool adjacent = places.back() - places.front() + 1 == places.size();
    TensorMeta source;
    std::size_t front = adjacent ? places.front() : 0;
    auto add_rest = [&](bool before) {
        for (std::size_t i = 0; i < part.sizes.size(); ++i) {
            if (choosers[i] != nullptr || (adjacent && (i < places.front()) != before) || (!adjacent && before))
                continue;
            source.sizes.push_back(part.sizes[i]);
            source.strides.push_back(part.strides[i]);
        }
    };
    add_rest(true);
    source.sizes.insert(source.sizes.end(), chosen.begin(), chosen.end());
    source.strides.insert(source.strides.end(), chosen.size(), Dim(0));
    add_rest(false);
    // The result is laid out as that of an elementwise operation on the source and the choosers, each seen in its
    // place.
    std::vector<TensorMeta> seen;
    for (std::size_t place : places) {
        TensorMeta chooser;
        chooser.sizes.assign(source.sizes.size(), Dim(1));
        chooser.strides.assign(source.sizes.size(), Dim(0));
        Dims strides = expanded_strides(*choosers[place], chosen);
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            chooser.sizes[front + i] = chosen[i];
            chooser.strides[front + i] = strides[i];
        }
        seen.push_back(std::move(chooser));
    }
    std::vector<const TensorMeta*> inputs{&source};
    for (const TensorMeta& chooser : seen) inputs.push_back(&chooser);
    Dims strides = elementwise_strides(inputs, source.sizes);
    return IndexedPart{std::move(source.sizes), std::move(strides), 0};
}

}  // namespace stator::shape
