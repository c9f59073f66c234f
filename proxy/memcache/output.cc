#include "proxy/memcache/output.h"

#include <algorithm>
#include <utility>

namespace elastripe::memcache {
namespace {
constexpr size_t kUsualTextBytes = 127;  // what is around a value, written without growing
}  // namespace

void Output::append(std::string_view text) {
  bytes_ += text.size();
  const size_t whole = text_.size() + text.size();
  if (whole > text_.capacity()) text_.reserve(std::max(whole, kUsualTextBytes));
  text_ += text;
}

void Output::append(Buffer value) {
  if (value.size() < kReferenceBytes) return append(value.text());
  bytes_ += value.size();
  values_.push_back({text_.size(), std::move(value)});
}

void Output::append(Output&& other) {
  if (empty()) {
    *this = std::move(other);
    return;
  }
  kept_.insert(kept_.end(), other.kept_.begin(), other.kept_.end());
  other.drain([this](std::string_view text) { append(text); },
              [this](Buffer value) { append(std::move(value)); });
}

std::string Output::flatten() const {
  Output copy = *this;
  std::string all;
  all.reserve(bytes_);
  copy.drain([&](std::string_view text) { all += text; },
             [&](const Buffer& value) { all += value.text(); });
  return all;
}

}  // namespace elastripe::memcache
