#include "proxy/ops/jobs/lacking.h"

#include <algorithm>
#include <map>

#include "coding/decode_plan.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

constexpr size_t kNodesAtOnce = 8;

struct Place {
  size_t object;
  size_t segment;
  size_t index;
};
using Places = std::vector<Place>;

node::ShardName name_of(const std::vector<Lacking>& objects, const Place& place) {
  const auto& content = objects[place.object].record->content;
  return shard_name(content.segments[place.segment], content.scheme, place.index);
}

// Asks one node for what the objects have on it; whether it has answered all of it.
Task<Result<bool>> ask_node(OpsContext& ops, MapPtr map, NodeId id, Places places,
                            std::vector<Lacking>& objects) {
  const bool is_draining = map->nodes[id].role == node::NodeRole::kDraining;
  bool has_answered = true;
  for (size_t first = 0; first < places.size(); first += kShardsPerFrame) {
    const size_t end = std::min(places.size(), first + kShardsPerFrame);
    std::vector<node::ShardName> names;
    for (size_t i = first; i < end; ++i) names.push_back(name_of(objects, places[i]));
    const auto answer = co_await confirm_shards(ops, map, id, std::move(names),
                                                /*check_pages=*/false, fresh_deadline(ops));
    if (!answer && (answer.error().code == ErrorCode::kStaleEpoch ||
                    answer.error().code == ErrorCode::kCancelled)) {
      co_return fail(answer.error());
    }
    has_answered &= answer.has_value();
    for (size_t i = first; i < end; ++i) {
      const Place& place = places[i];
      Lacking& object = objects[place.object];
      if (answer && (*answer)[i - first].present) {
        if (is_draining) object.leaving[place.segment].set(place.index);
        continue;
      }
      (answer ? object.gone : object.silent)[place.segment].set(place.index);
    }
  }
  co_return has_answered;
}

// Whether a shard that is not to be asked for is gone.
bool is_gone(const node::ClusterMap& map, NodeId on, ShardRead known, const GivenUp& given_up) {
  if (std::ranges::find(given_up.except, on) != given_up.except.end()) return false;
  if (known == ShardRead::kMissing) return true;
  const node::NodeInfo* info = map.find_node(on);
  return given_up.away && info != nullptr && info->state == node::NodeState::kAway;
}

// What the map says of a shard's node; those that are up are to be asked.
std::map<NodeId, Places> sort_places(const node::ClusterMap& map, std::vector<Lacking>& objects,
                                     const GivenUp& given_up) {
  std::map<NodeId, Places> to_ask;
  for (size_t number = 0; number < objects.size(); ++number) {
    Lacking& object = objects[number];
    const auto& segments = object.record->content.segments;
    object.gone.assign(segments.size(), {});
    object.silent.assign(segments.size(), {});
    object.leaving.assign(segments.size(), {});
    for (size_t segment = 0; segment < segments.size(); ++segment) {
      const auto& placement = segments[segment].placement;
      for (size_t index = 0; index < placement.size(); ++index) {
        const NodeId on = placement[index];
        const auto known = read_without_asking(map, on);
        if (!known) {
          to_ask[on].push_back({number, segment, index});
        } else {
          auto& sets = is_gone(map, on, *known, given_up) ? object.gone : object.silent;
          sets[segment].set(index);
        }
      }
    }
  }
  return to_ask;
}

}  // namespace

bool Lacking::is_lacking() const {
  return std::ranges::any_of(gone, [](const auto& shards) { return shards.any(); });
}

void Lacking::keep_only(NodeId on) {
  const auto& segments = record->content.segments;
  for (size_t segment = 0; segment < segments.size(); ++segment) {
    const auto& placement = segments[segment].placement;
    for (size_t shard = 0; shard < placement.size(); ++shard) {
      if (placement[shard] == on) continue;
      gone[segment].reset(shard);
      leaving[segment].reset(shard);
    }
  }
}

int Lacking::failures_survived() const {
  size_t most_missing = 0;
  for (size_t i = 0; i < gone.size(); ++i) {
    most_missing = std::max(most_missing, (gone[i] | silent[i]).count());
  }
  return record->content.scheme.m - static_cast<int>(most_missing);
}

bool Lacking::is_leaving() const {
  return std::ranges::any_of(leaving, [](const auto& shards) { return shards.any(); });
}

bool Lacking::is_lost() const {
  const auto& content = record->content;
  for (size_t i = 0; i < content.segments.size(); ++i) {
    if (gone[i].none()) continue;
    const auto geometry = geometry_of(content.scheme, content.segments[i]);
    if (!geometry) continue;
    const coding::Codec& codec = geometry->codec();
    const auto plan = coding::decode_plan(codec, content.segments[i].state, gone[i],
                                          gone[i] & codec.data_shards());
    if (!plan) return true;
  }
  return false;
}

Task<Result<bool>> find_lacking(OpsContext& ops, MapPtr map, std::vector<Lacking>& objects,
                                GivenUp given_up) {
  auto to_ask = sort_places(*map, objects, given_up);
  std::vector<std::pair<NodeId, Places>> nodes(std::make_move_iterator(to_ask.begin()),
                                               std::make_move_iterator(to_ask.end()));
  bool all_answered = true;
  auto asked = co_await in_batches(
      nodes.size(), kNodesAtOnce,
      [&](size_t i) {
        return ask_node(ops, map, nodes[i].first, std::move(nodes[i].second), objects);
      },
      [&](size_t, const Result<bool>& answered) -> Result<void> {
        if (!answered) return fail(answered.error());
        all_answered &= *answered;
        return {};
      });
  if (!asked) co_return fail(asked.error());
  co_return all_answered;
}

}  // namespace elastripe::jobs
