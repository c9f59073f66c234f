// What is to be sent to a client, in order: text by copy and large values by reference. Owned by
// one session.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/buffer.h"
#include "proxy/base/memory_pool.h"

namespace elastripe::memcache {

class Output {
 public:
  // Values below are copied into the text around them: a piece of its own costs more.
  static constexpr size_t kReferenceBytes = 1024;

  Output() = default;
  explicit Output(std::string_view text) { append(text); }
  Output(const Output&) = default;
  Output& operator=(const Output&) = default;
  // What was moved from is empty.
  Output(Output&& other) noexcept
      : text_(std::move(other.text_)),
        values_(std::move(other.values_)),
        kept_(std::move(other.kept_)),
        bytes_(std::exchange(other.bytes_, 0)) {
    other.text_.clear();
  }
  Output& operator=(Output&& other) noexcept {
    text_ = std::move(other.text_);
    values_ = std::move(other.values_);
    kept_ = std::move(other.kept_);
    bytes_ = std::exchange(other.bytes_, 0);
    other.text_.clear();
    return *this;
  }
  ~Output() = default;

  void append(std::string_view text);
  void append(Buffer value);
  // Leaves the other empty.
  void append(Output&& other);
  // Held until all that was appended has left: the memory of values that were copied.
  void keep(std::shared_ptr<const void> memory) { kept_.push_back(std::move(memory)); }

  size_t bytes() const { return bytes_; }
  // What is copied among these: values up to kReferenceBytes, and what is around values.
  size_t text_bytes() const { return text_.size(); }
  bool empty() const { return bytes_ == 0; }

  // Gives all pieces in their order to take_text(std::string_view), whose text is gone after the
  // call, and take_value(Buffer), which has long text with kept memory, too. Leaves the output
  // empty.
  template <class TakeText, class TakeValue>
  void drain(TakeText take_text, TakeValue take_value) {
    Output taken = std::move(*this);
    if (!taken.kept_.empty() && taken.text_.size() >= kSharedBytes) {
      auto text = std::make_shared<SharedText>(std::move(taken.text_), std::move(taken.kept_));
      return give(text->text, taken.values_, take_value, [&](std::string_view piece) {
        take_value(Buffer::sharing(text, as_bytes(piece)));
      });
    }
    give(taken.text_, taken.values_, take_value, take_text);
  }

  // All bytes in one piece.
  std::string flatten() const;

 private:
  static constexpr size_t kSharedBytes = 16 << 10;

  using Text = std::basic_string<char, std::char_traits<char>, Pooled<char>>;
  using Kept = std::vector<std::shared_ptr<const void>, Pooled<std::shared_ptr<const void>>>;
  struct Value {
    size_t place;  // in text_, before which it stands
    Buffer bytes;  // not empty
  };
  using Values = std::vector<Value, Pooled<Value>>;
  struct SharedText {
    Text text;
    Kept kept;
  };

  template <class TakeText, class TakeValue>
  static void give(std::string_view text, Values& values, TakeValue& take_value,
                   TakeText&& take_text) {
    size_t begin = 0;
    for (Value& value : values) {
      if (value.place > begin) take_text(text.substr(begin, value.place - begin));
      begin = value.place;
      take_value(std::move(value.bytes));
    }
    if (begin < text.size()) take_text(text.substr(begin));
  }

  Text text_;
  Values values_;
  Kept kept_;  // for text_
  size_t bytes_ = 0;
};

}  // namespace elastripe::memcache
