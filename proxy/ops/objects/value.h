// Values on their way through flows, part by part: a ValueSource brings one in, a ValueSink takes
// one out. So a flow holds a few segments of an object, however large it is.
#pragma once

#include <algorithm>

#include "proxy/base/buffer.h"
#include "proxy/ops/read_memory.h"

namespace elastripe::objects {

// The bytes of a value that is to be stored, in order. Loop thread only.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  virtual uint64_t size() const = 0;
  // Waits for the first of the next `bytes` bytes, so that memory is not reserved for what may
  // never come. Errors: as next().
  virtual Task<Result<void>> arrived(size_t bytes) {
    (void)bytes;
    co_return Result<void>{};
  }
  // The next `bytes` bytes, no more than are left. Whoever asks has reserved their memory, but for
  // a value that is inline. The last of them are given only once the value has proved whole.
  // Errors: kCancelled: the value never will be. Others are those of where it comes from.
  virtual Task<Result<Buffer>> next(size_t bytes) = 0;
};

// A value that is there already; its parts share its memory.
class WholeValue : public ValueSource {
 public:
  explicit WholeValue(Buffer value) : value_(std::move(value)) {}

  uint64_t size() const override { return value_.size(); }
  Task<Result<Buffer>> next(size_t bytes) override {
    const size_t begin = std::exchange(given_, given_ + bytes);
    co_return value_.slice(begin, bytes);
  }

 private:
  const Buffer value_;
  size_t given_ = 0;
};

// What is wanted of a value; what lies beyond its end is left out.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = UINT64_MAX;

  // What there is of it in a value of `size` bytes.
  ByteRange within(uint64_t size) const {
    const uint64_t begin = std::min(offset, size);
    return {begin, std::min(length, size - begin)};
  }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
  bool is_all() const { return offset == 0 && length == UINT64_MAX; }
  bool overlaps(const ByteRange& other) const {
    return offset < other.end() && other.offset < end();
  }
  uint64_t end() const { return length > UINT64_MAX - offset ? UINT64_MAX : offset + length; }
};

// An object as a client sees it, but for its bytes.
struct Object {
  uint32_t flags = 0;
  uint64_t cas = 0;
  uint64_t size = 0;
  uint64_t range_bytes = 0;  // what follows: of the range that was asked for
  uint32_t exptime = 0;      // unix seconds, 0 = never
  // It is to be made anew; by this client, which is told so by this read alone; another was told.
  bool is_stale = false;
  bool is_won = false;
  bool win_is_taken = false;
  // Whether there were reads before, as far as is known, and the seconds since the last, or since
  // the value came.
  bool was_used = false;
  uint32_t idle_s = 0;
};

// Where an object that is read goes, and the memory that it takes.
class ValueSink : public ReadMemory {
 public:
  // At most once, when the first part is there and verified.
  virtual void begin(const Object& object) = 0;
  // The next bytes, verified; object.range_bytes together. Their memory is the buffer's.
  virtual void part(Buffer bytes) = 0;
};

}  // namespace elastripe::objects
