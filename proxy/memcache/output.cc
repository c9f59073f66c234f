#include "proxy/memcache/output.h"

#include <utility>

namespace elastripe::memcache {

void Output::append(std::string_view text) {
  if (text.empty()) return;
  bytes_ += text.size();
  if (!slices_.empty()) {
    if (auto* last = std::get_if<std::string>(&slices_.back())) {
      last->append(text);
      return;
    }
  }
  slices_.emplace_back(std::in_place_type<std::string>, text);
}

void Output::append(Buffer value) {
  if (value.size() < kReferenceBytes) {
    append(value.text());
    return;
  }
  bytes_ += value.size();
  slices_.emplace_back(std::move(value));
}

void Output::append(Output other) {
  if (empty()) {
    *this = std::move(other);
    return;
  }
  for (Slice& slice : other.take()) {
    std::visit([this](auto& bytes) { append(std::move(bytes)); }, slice);
  }
}

std::vector<Output::Slice> Output::take() {
  bytes_ = 0;
  return std::exchange(slices_, {});
}

std::string Output::flatten() const {
  std::string all;
  all.reserve(bytes_);
  for (const Slice& slice : slices_) all += text_of(slice);
  return all;
}

std::string_view text_of(const Output::Slice& slice) {
  if (const auto* text = std::get_if<std::string>(&slice)) return *text;
  return std::get<Buffer>(slice).text();
}

}  // namespace elastripe::memcache
