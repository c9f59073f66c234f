#include "server-patches/node/update/log_pool.h"

#include <utility>

namespace elastripe::node {
namespace {

// No item is found by it, as none of them is linked.
constexpr std::string_view kUnitKey = "\x03";
// Those that a node always may have, so that what it stores can be updated when it is full.
constexpr size_t kReservedUnits = 2;

}  // namespace

struct LogBytes::Unit {
  Unit(LogPool& pool, ItemRef item) : pool(pool), item(std::move(item)) { ++pool.units_; }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() { --pool.units_; }

  LogPool& pool;
  const ItemRef item;
  size_t used = 0;
};

LogBytes::LogBytes(std::shared_ptr<Unit> unit, size_t at, size_t size)
    : unit_(std::move(unit)), at_(at), size_(size) {
  unit_->pool.live_bytes_ += size_;
}

LogBytes::LogBytes(LogBytes&& other) noexcept
    : unit_(std::move(other.unit_)), at_(other.at_), size_(std::exchange(other.size_, 0)) {}

LogBytes& LogBytes::operator=(LogBytes&& other) noexcept {
  std::swap(unit_, other.unit_);
  std::swap(at_, other.at_);
  std::swap(size_, other.size_);
  return *this;
}

LogBytes::~LogBytes() {
  if (unit_ != nullptr) unit_->pool.live_bytes_ -= size_;
}

void LogBytes::read(MutableByteView out) const {
  if (unit_ != nullptr) unit_->pool.store_.read(unit_->item, at_, out);
}

LogBytes LogBytes::part(size_t offset, size_t bytes) const { return {unit_, at_ + offset, bytes}; }

void LogBytes::count_merged(size_t bytes) const {
  if (unit_ != nullptr) unit_->pool.merged_bytes_ += bytes;
}

LogPool::LogPool(Options options, ItemStore& store) : options_(options), store_(store) {}

std::optional<LogBytes> LogPool::append(ByteView bytes, Claim claim) {
  const size_t wanted = bytes.size() + kBesideBytes;
  if (wanted > options_.unit_bytes) return std::nullopt;
  std::shared_ptr<LogBytes::Unit> retired;  // goes after the lock
  std::optional<LogBytes> place;
  {
    std::lock_guard lock(mutex_);
    if (active_ == nullptr || active_->used + wanted > options_.unit_bytes) {
      const size_t units = units_;
      // The active one may be all that is left, with nothing in it that anybody refers to.
      const bool frees_its_own = active_ != nullptr && active_.use_count() == 1;
      if (claim == Claim::kNew && units - (frees_its_own ? 1 : 0) >= options_.units) {
        return std::nullopt;
      }
      const bool is_reserved = claim == Claim::kAccepted || units < kReservedUnits;
      ItemRef item = store_.allocate(kUnitKey, options_.unit_bytes,
                                     is_reserved ? Urgency::kCommitted : Urgency::kNewData);
      if (!item) return std::nullopt;
      ++made_units_;
      retired = std::exchange(active_, std::make_shared<LogBytes::Unit>(*this, std::move(item)));
    }
    place = LogBytes(active_, active_->used, bytes.size());
    active_->used += wanted;
  }
  store_.write(place->unit_->item, place->at_, bytes);
  return place;
}

LogPool::Usage LogPool::usage() const {
  return {.units = units_,
          .limit_units = options_.units,
          .unit_bytes = options_.unit_bytes,
          .live_bytes = live_bytes_,
          .merged_bytes = merged_bytes_,
          .made_units = made_units_};
}

}  // namespace elastripe::node
