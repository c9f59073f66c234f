#include "server-patches/node/update/update_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::node {
namespace {

// A log may lie in so many units, and in twice as many as its bytes fill.
constexpr uint64_t kFewUnits = 4;

std::string copy_of(const LogBytes& bytes) {
  std::string copy(bytes.size(), '\0');
  bytes.read(std::as_writable_bytes(std::span(copy)));
  return copy;
}

}  // namespace

UpdateLog::UpdateLog(uint64_t value, uint64_t version)
    : value_(value), rank_(version), reach_(version) {}

std::optional<uint64_t> UpdateLog::find(const Id128& id) const {
  // What is asked for again is mostly among the newest.
  const auto found = std::ranges::find(recent_.rbegin(), recent_.rend(), id, &UpdateName::id);
  if (found != recent_.rend()) return found->lsn;
  // A copy may have had a later version of the record than the tail that gave the number.
  const auto here = std::ranges::find(unsettled_, id, &Extent::id);
  if (here == unsettled_.end()) return std::nullopt;
  return here->lsn;
}

UpdateLog::Has UpdateLog::has(const UpdateName& name) const {
  if (const auto lsn = find(name.id)) return *lsn == name.lsn ? Has::kYes : Has::kElsewhere;
  const auto known = std::ranges::lower_bound(recent_, name.lsn, {}, &UpdateName::lsn);
  if (known != recent_.end() && known->lsn == name.lsn) return Has::kElsewhere;
  const auto here = std::ranges::lower_bound(unsettled_, name.lsn, {}, &Extent::lsn);
  return here != unsettled_.end() && here->lsn == name.lsn ? Has::kElsewhere : Has::kNo;
}

void UpdateLog::remember(const UpdateName& name) {
  last_ = std::max(last_, name.lsn);
  rank_ = std::max(rank_, name.lsn);
  if (name.lsn <= reach_) return;
  const auto place = std::ranges::lower_bound(recent_, name.lsn, {}, &UpdateName::lsn);
  recent_.insert(place, name);
  if (recent_.size() <= kRecentUpdates) return;
  reach_ = recent_.front().lsn;
  recent_.pop_front();
}

void UpdateLog::add(const UpdateName& name, uint64_t offset, LogBytes bytes, uint32_t crc32c) {
  const auto place = std::ranges::lower_bound(unsettled_, name.lsn, {}, &Extent::lsn);
  const bool is_here = place != unsettled_.end() && place->lsn == name.lsn;
  // What it has had is settled, and may be folded.
  if (is_here || find(name.id)) return;
  remember(name);
  if (name.lsn <= settled_to_) {  // others have seen to it, and to newer ones
    insert_settled({{}, name.lsn, offset, crc32c, std::move(bytes)});
    return;
  }
  bytes_ += bytes.size();
  unsettled_.insert(place, {name.id, name.lsn, offset, crc32c, std::move(bytes)});
}

bool UpdateLog::has_unnumbered(const Id128& id) const {
  return std::ranges::any_of(unnumbered_,
                             [&](const Unnumbered& update) { return update.name.id == id; });
}

bool UpdateLog::takes_unnumbered(const UpdateName& name, size_t bytes, uint64_t known,
                                 const Epoch& epoch) const {
  // All of them may get numbers at once.
  if (unnumbered_.size() >= kMaxUnnumbered ||
      unnumbered_.size() + unsettled_.size() >= kMaxUnsettled) {
    return false;
  }
  for (const Unnumbered& update : unnumbered_) bytes += update.bytes.size();
  // In one round copies are not told up to where all is settled, so they merge nothing, though the
  // tail does: without a bound their image would outgrow what a sync can carry.
  if (name.lsn == 0) {
    for (const Extent& update : unsettled_) bytes += update.bytes.size();
  }
  if (bytes > kMaxUnnumberedBytes) return false;
  if (name.lsn != 0) return name.lsn > std::max(reach_, settled_to_);
  if (cancelled_.epoch == epoch && known <= cancelled_.known) return false;
  return known >= reach_ || mutant(Mutant::kUnnumberedIgnoresReach);
}

bool UpdateLog::give_number(const UpdateName& name) {
  const auto found = std::ranges::find_if(
      unnumbered_, [&](const Unnumbered& update) { return update.name.id == name.id; });
  if (found == unnumbered_.end()) return false;
  Unnumbered update = std::move(*found);
  unnumbered_.erase(found);
  add(name, update.offset, std::move(update.bytes), update.crc32c);
  return true;
}

void UpdateLog::cancel(const Id128& id, uint64_t known, const Epoch& epoch) {
  std::erase_if(unnumbered_, [&](const Unnumbered& update) { return update.name.id == id; });
  if (cancelled_.epoch != epoch) cancelled_ = {epoch, {}, 0};
  cancelled_.known = std::max(cancelled_.known, known);
}

bool UpdateLog::forbid(const Id128& id, const Epoch& epoch) {
  if (cancelled_.epoch != epoch) cancelled_ = {epoch, {}, 0};
  if (is_forbidden(id, epoch)) return true;
  if (cancelled_.ids.size() >= kMaxUnnumbered) return false;
  cancelled_.ids.push_back(id);
  return true;
}

bool UpdateLog::is_forbidden(const Id128& id, const Epoch& epoch) const {
  return cancelled_.epoch == epoch && std::ranges::find(cancelled_.ids, id) != cancelled_.ids.end();
}

void UpdateLog::forget_forbidden(uint64_t version) {
  if (cancelled_.ids.empty() || version <= reach_) return;
  cancelled_.ids.clear();
  forget_names(version);
}

bool UpdateLog::says_nothing(uint64_t version, const Epoch& epoch) const {
  const uint64_t cancelled = cancelled_.epoch == epoch ? cancelled_.known : 0;
  return empty() && unnumbered_.empty() && version > std::max(last_, cancelled);
}

void UpdateLog::forget_names(uint64_t lsn) {
  reach_ = std::max(reach_, lsn);
  std::erase_if(recent_, [this](const UpdateName& name) { return name.lsn <= reach_; });
}

void UpdateLog::number(uint64_t lsn) {
  last_ = std::max(last_, lsn);
  rank_ = std::max(rank_, lsn);
  settled_to_ = std::max(settled_to_, lsn);
  forget_names(lsn);  // it is remembered by none
}

void UpdateLog::compact(LogPool& pool) {
  const LogPool::Usage usage = pool.usage();
  const uint64_t most = kFewUnits + 2 * cost() / usage.unit_bytes;
  if (usage.made_units - compacted_at_ < most || !usage.is_scattered()) return;
  compacted_at_ = usage.made_units;
  for (auto& [_, extent] : settled_) {
    const std::string bytes = copy_of(extent.bytes);
    auto moved = pool.append(as_view(bytes), LogPool::Claim::kAccepted);
    if (!moved) return;  // the rest stays where it is
    extent.bytes = std::move(*moved);
  }
}

void UpdateLog::settle(uint64_t lsn) {
  settled_to_ = std::max(settled_to_, lsn);
  // It has had those, though it may not remember.
  std::erase_if(unnumbered_, [this](const Unnumbered& update) {
    return update.name.lsn != 0 && update.name.lsn <= settled_to_;
  });
  const auto end = std::ranges::upper_bound(unsettled_, lsn, {}, &Extent::lsn);
  for (auto extent = unsettled_.begin(); extent != end; ++extent) {
    bytes_ -= extent->bytes.size();  // insert_settled() counts what is left of it
    extent->id = {};
    insert_settled(std::move(*extent));
  }
  unsettled_.erase(unsettled_.begin(), end);
}

UpdateLog::Settled::const_iterator UpdateLog::first_behind(uint64_t offset) const {
  auto at = settled_.upper_bound(offset);
  if (at != settled_.begin() && std::prev(at)->second.end() > offset) --at;
  return at;
}

UpdateLog::Extent UpdateLog::cut(const Extent& whole, uint64_t begin, uint64_t end) {
  Extent part{.id = whole.id,
              .lsn = whole.lsn,
              .offset = begin,
              .crc32c = whole.crc32c,
              .bytes = whole.bytes.part(begin - whole.offset, end - begin)};
  if (begin == whole.offset && end == whole.end()) return part;
  // What was damaged stays so: the checksum of a part must not vouch for it.
  const std::string bytes = copy_of(whole.bytes);
  const bool is_intact = crc32c(as_view(bytes)) == whole.crc32c;
  part.crc32c = crc32c(as_view(bytes).subspan(begin - whole.offset, end - begin));
  if (!is_intact) part.crc32c = ~part.crc32c;
  return part;
}

void UpdateLog::cut_out(uint64_t begin, uint64_t end, uint64_t lsn) {
  const auto first = first_behind(begin);
  auto at = settled_.erase(first, first);  // the same place, to be changed
  while (at != settled_.end() && at->second.offset < end) {
    if (at->second.lsn > lsn) {
      ++at;
      continue;
    }
    const Extent old = std::move(at->second);
    at = settled_.erase(at);
    bytes_ -= old.bytes.size();
    const auto keep = [&](uint64_t from, uint64_t to) {
      if (from >= to) return;
      bytes_ += to - from;
      settled_.emplace(from, cut(old, from, to));
    };
    keep(old.offset, std::min(begin, old.end()));
    keep(std::max(end, old.offset), old.end());
  }
}

void UpdateLog::insert_settled(Extent extent) {
  const uint64_t end = extent.end();
  const size_t all = bytes_ + extent.bytes.size();
  cut_out(extent.offset, end, extent.lsn);
  // Newer bytes that are here already stay on top: the extent goes into the gaps between them.
  std::vector<std::pair<uint64_t, uint64_t>> gaps;
  uint64_t from = extent.offset;
  for (auto at = first_behind(from); at != settled_.end() && at->second.offset < end; ++at) {
    if (from < at->second.offset) gaps.emplace_back(from, at->second.offset);
    from = at->second.end();
  }
  if (from < end) gaps.emplace_back(from, end);
  for (const auto& [begin, stop] : gaps) {
    bytes_ += stop - begin;
    settled_.emplace(begin, cut(extent, begin, stop));
  }
  extent.bytes.count_merged(all - bytes_);
}

void UpdateLog::trim(uint64_t begin, uint64_t end, uint64_t folded_lsn) {
  if (folded_lsn == 0) return;
  settle(folded_lsn);  // only what is settled is folded, and so is all below it
  cut_out(begin, end, folded_lsn);
}

std::vector<UpdateName> UpdateLog::unsettled_below(uint64_t lsn) const {
  std::vector<UpdateName> names;
  names.reserve(unsettled_.size());
  for (const Extent& extent : unsettled_) {
    if (extent.lsn < lsn) names.push_back({extent.id, extent.lsn});
  }
  return names;
}

LogImage UpdateLog::told(Settled::const_iterator first, Settled::const_iterator last,
                         size_t unsettled, bool tells_unnumbered, std::string& bytes) const {
  LogImage image;
  image.value = value_;
  image.last = last_;
  image.rank = rank_;
  image.settled_to = settled_to_;
  image.reach = reach_;
  const size_t unnumbered = tells_unnumbered ? unnumbered_.size() : 0;
  size_t size = 0;
  for (auto at = first; at != last; ++at) size += at->second.bytes.size();
  for (size_t i = 0; i < unsettled; ++i) size += unsettled_[i].bytes.size();
  for (size_t i = 0; i < unnumbered; ++i) size += unnumbered_[i].bytes.size();
  bytes.resize(size);
  std::span<char> room(bytes);
  const auto read = [&](const LogBytes& from) {
    const std::span<char> own = room.first(from.size());
    room = room.subspan(own.size());
    from.read(std::as_writable_bytes(own));
    return std::string_view(own.data(), own.size());
  };
  const auto tell = [&](const Extent& extent) {
    return LogExtent{extent.id, extent.lsn, extent.offset, extent.crc32c, read(extent.bytes)};
  };
  for (auto at = first; at != last; ++at) image.settled.push_back(tell(at->second));
  image.unsettled.reserve(unsettled);
  for (size_t i = 0; i < unsettled; ++i) image.unsettled.push_back(tell(unsettled_[i]));
  image.unnumbered.reserve(unnumbered);
  for (size_t i = 0; i < unnumbered; ++i) {
    const Unnumbered& update = unnumbered_[i];
    image.unnumbered.push_back(
        {update.name.id, 0, update.offset, update.crc32c, read(update.bytes)});
  }
  return image;
}

LogImage UpdateLog::view(uint64_t offset, uint64_t length, std::string& bytes) const {
  const uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
  size_t wanted = 0;
  for (size_t i = 0; i < unsettled_.size(); ++i) {
    if (unsettled_[i].offset < end && unsettled_[i].end() > offset) wanted = i + 1;
  }
  return told(first_behind(offset), settled_.lower_bound(end), wanted, /*tells_unnumbered=*/false,
              bytes);
}

LogImage UpdateLog::unsettled(std::string& bytes) const {
  return told(settled_.end(), settled_.end(), unsettled_.size(), /*tells_unnumbered=*/true, bytes);
}

LogImage UpdateLog::image(std::string& bytes) const {
  LogImage image = told(settled_.begin(), settled_.end(), unsettled_.size(),
                        /*tells_unnumbered=*/true, bytes);
  image.recent.assign(recent_.begin(), recent_.end());
  return image;
}

bool UpdateLog::restore(const LogImage& image, uint64_t rank, LogPool& pool) {
  UpdateLog restored(image.value, image.reach);
  const auto extent_of = [&](const LogExtent& told) -> std::optional<Extent> {
    auto bytes = pool.append(as_view(told.bytes), LogPool::Claim::kAccepted);
    if (!bytes) return std::nullopt;
    return Extent{.id = told.id,
                  .lsn = told.lsn,
                  .offset = told.offset,
                  .crc32c = told.crc32c,
                  .bytes = std::move(*bytes)};
  };
  for (const LogExtent& told : image.settled) {
    auto extent = extent_of(told);
    if (!extent) return false;
    restored.insert_settled(std::move(*extent));
  }
  restored.unsettled_.reserve(image.unsettled.size() + image.unnumbered.size());
  for (const LogExtent& told : image.unsettled) {
    auto extent = extent_of(told);
    if (!extent) return false;
    restored.bytes_ += extent->bytes.size();
    restored.unsettled_.push_back(std::move(*extent));
  }
  restored.recent_.assign(image.recent.begin(), image.recent.end());
  restored.last_ = image.last;
  restored.rank_ = std::max(image.rank, rank);
  restored.settled_to_ = image.settled_to;
  for (const LogExtent& told : image.unnumbered) {
    if (mutant(Mutant::kSyncForgetsUnnumbered)) break;
    auto extent = extent_of(told);
    if (!extent) return false;
    restored.add({told.id, restored.rank_ + 1}, told.offset, std::move(extent->bytes), told.crc32c);
  }
  *this = std::move(restored);
  return true;
}

}  // namespace elastripe::node
