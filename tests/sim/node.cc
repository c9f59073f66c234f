#include "tests/sim/node.h"

#include "proxy/base/check.h"
#include "server-patches/node/format/map_changes.h"
#include "server-patches/node/format/messages.h"
#include "server-patches/node/format/shard_update_messages.h"

namespace elastripe::sim {

namespace {

constexpr size_t kLatches = 16;
constexpr size_t kConfirmBytes = 2048;  // so that some frames of SHARD_CONFIRM are asked again

std::span<const std::byte, node::kHeaderBytes> header_of(std::string_view frame) {
  return node::as_view(frame).first<node::kHeaderBytes>();
}

// As it leaves the node's port.
std::string encoded(const node::Reply& reply) {
  std::string bytes;
  bytes.reserve(node::kHeaderBytes + reply.header.body_bytes);
  bytes.resize(node::kHeaderBytes);
  node::encode(reply.header, std::as_writable_bytes(std::span(bytes)).first<node::kHeaderBytes>());
  bytes += reply.args;
  bytes += node::as_text(reply.payload.bytes());
  CHECK(bytes.size() == node::kHeaderBytes + reply.header.body_bytes, "a reply of {} bytes says {}",
        bytes.size() - node::kHeaderBytes, reply.header.body_bytes);
  return bytes;
}

}  // namespace

SimNode::SimNode(EventQueue& events, Trace& trace, uint64_t seed, node::NodeId id,
                 NodeMemory memory)
    : events_(events),
      trace_(trace),
      random_(seed),
      id_(id),
      memory_(memory),
      boottime_offset_ms_(random_.below(1'000'000) + 1) {}

void SimNode::start() {
  CHECK(!runs());
  stray_map_.clear();
  ++process_;
  silent_ = false;
  stalled_ = false;
  store_ = std::make_unique<node::ArenaStore>(
      node::ArenaStore::Options{.limit_bytes = memory_.limit_bytes,
                                .reserve_bytes = memory_.reserve_bytes,
                                .buckets = memory_.buckets,
                                .buckets_per_walk = memory_.buckets_per_walk});
  incarnation_ = random_.next() | 1;
  running_ = capabilities_;
  engine_ =
      std::make_unique<node::Engine>(node::EngineOptions{.incarnation = incarnation_,
                                                         .capabilities = capabilities_,
                                                         .latches = kLatches,
                                                         .scan = memory_.scan,
                                                         .confirm_bytes = kConfirmBytes,
                                                         .stuck_after_ms = SimNode::kStuckAfter_ms,
                                                         .log_unit_bytes = memory_.log_unit_bytes,
                                                         .log_units = memory_.log_units},
                                     *store_, *this);
  trace_.add("node {} starts", id_);
}

std::string SimNode::stray_map() const {
  node::ClusterMap map;
  map.cluster_id = 0xbad;
  map.epoch = {.number = 7, .decider = 1, .map_hash = 0};
  map.version_floor = uint64_t{7} << node::kCounterBits;
  map.nodes.resize(1);
  map.nodes[0] = {.id = 0,
                  .name = "stray",
                  .host = "127.0.0.1",
                  .port = 1,
                  .domain = "stray",
                  .incarnation = incarnation_,
                  .state = node::NodeState::kUp};
  map.partitions.resize(2);
  for (node::Partition& partition : map.partitions) {
    partition.homes = {0};
    partition.synced = true;
  }
  node::seal(map);
  std::string encoded;
  node::encode(map, encoded);
  return encoded;
}

void SimNode::start_stray() {
  start();
  trace_.add("node {}: it is a process of another cluster", id_);
  stray_map_ = stray_map();
  node::RequestHeader header;
  header.opcode = node::Opcode::kInstallMap;
  header.cluster_id = 0xbad;
  header.body_bytes = static_cast<uint32_t>(stray_map_.size());
  const node::Reply installed = engine_->serve({header, {}, node::as_view(stray_map_)});
  CHECK(installed.header.status == node::Status::kOk);
}

node::Reply SimNode::hello() {
  node::RequestHeader header;
  header.opcode = node::Opcode::kHello;
  return engine_->serve({header, {}, {}});
}

bool SimNode::is_harmed() {
  return is_stray() && node::as_text(hello().payload.bytes()) != stray_map_;
}

uint64_t SimNode::statistic(std::string_view name) const {
  for (const auto& [own, value] : engine_->statistics()) {
    if (own == name) return std::stoull(value);
  }
  return 0;
}

bool SimNode::has_lease() {
  const node::Reply reply = hello();
  const auto told = node::decode<node::HelloReply>(node::as_view(reply.args));
  return reply.header.status == node::Status::kOk && told && told->has_lease;
}

void SimNode::kill(bool silent) {
  CHECK(runs());
  trace_.add("node {} is killed{}", id_, silent ? ", its machine with it" : "");
  silent_ = silent;
  stalled_ = false;
  stuck_.reset();
  engine_.reset();
  store_.reset();
  for (auto& [frame, reply] : std::exchange(inbox_, {})) reply("");
}

void SimNode::stall() {
  trace_.add("node {} stalls", id_);
  stalled_ = true;
}

void SimNode::stick() {
  trace_.add("node {} has a thread that is stuck", id_);
  ++sticks_;
  stuck_.emplace(engine_->progress(), boottime_ms());
}

void SimNode::resume() {
  if (!stalled_ && !stuck_) return;
  trace_.add("node {} goes on, {} frames wait", id_, inbox_.size());
  stalled_ = false;
  stuck_.reset();
  for (auto& [frame, reply] : std::exchange(inbox_, {})) handle(frame, std::move(reply));
}

void SimNode::deliver(std::string frame, ReplyFunction reply) {
  if (!runs()) return reply("");
  const auto opcode = static_cast<node::Opcode>(node::as_view(frame)[2]);
  if (stalled_ || (stuck_ && !node::is_control(opcode))) {
    inbox_.emplace_back(std::move(frame), std::move(reply));
    return;
  }
  handle(frame, std::move(reply));
}

void SimNode::tick() {
  if (runs() && !stalled_) engine_->tick();
}

uint64_t SimNode::boottime_ms() const {
  using std::chrono::milliseconds;
  return boottime_offset_ms_ +
         static_cast<uint64_t>(
             std::chrono::duration_cast<milliseconds>(events_.now().time_since_epoch()).count());
}

void SimNode::handle(const std::string& frame, ReplyFunction reply) {
  const auto header = node::decode_request_header(header_of(frame));
  CHECK(header.has_value(), "a proxy sent a bad header: {}", header.error());
  const node::ByteView body = node::as_view(frame).subspan(node::kHeaderBytes);
  CHECK(body.size() == header->body_bytes);
  reply(encoded(
      engine_->serve({*header, body.first(header->args_bytes), body.subspan(header->args_bytes)})));
}

std::string describe_map(std::string_view bytes) {
  const auto map = node::decode_map(node::as_view(bytes));
  if (!map) return " ?";
  std::string text = fmt::format(" -> e{} by {:x};", map->epoch.number, map->epoch.decider);
  for (const node::NodeInfo& node : map->nodes) {
    if (node.state != node::NodeState::kUp) {
      text += fmt::format(" n{} {}", node.id, node::name(node.state));
    }
  }
  for (size_t p = 0; p < map->partitions.size(); ++p) {
    const node::Partition& partition = map->partitions[p];
    text += fmt::format("; {}{}{}", p, partition.synced ? " synced" : "",
                        partition.lost ? " LOST" : "");
    for (const node::NodeId home : partition.homes) text += fmt::format(" {}", home);
    for (const auto& group : partition.sources) {
      text += " from";
      for (const node::NodeId source : group) text += fmt::format(" {}", source);
    }
  }
  return text;
}

namespace {

std::string describe_changes(std::string_view bytes) {
  const auto head = node::decode_changes_head(node::as_view(bytes));
  if (!head) return " ?";
  return fmt::format(" -> e{} by {:x}, changes of {:x}", head->epoch.number, head->epoch.decider,
                     head->base_hash);
}

}  // namespace

std::string describe_request(std::string_view frame) {
  const auto header = node::decode_request_header(header_of(frame));
  if (!header) return "?";
  const auto args = node::as_view(frame).subspan(node::kHeaderBytes, header->args_bytes);
  std::string text = fmt::format("{} e{}", node::name(header->opcode), header->epoch.number);
  switch (header->opcode) {
    case node::Opcode::kInstallMap:
      if (auto m = node::decode<node::InstallMapRequest>(args)) {
        const auto payload = frame.substr(node::kHeaderBytes + header->args_bytes);
        text += m->is_changes ? describe_changes(payload) : describe_map(payload);
      }
      break;
    case node::Opcode::kRecordRead:
      if (auto m = node::decode<node::RecordReadRequest>(args)) {
        static constexpr const char* kRoles[] = {"tail", "head", "any"};
        text += fmt::format(" {} at {}", m->key, kRoles[static_cast<size_t>(m->role)]);
      }
      break;
    case node::Opcode::kRecordApply:
      if (auto m = node::decode<node::RecordApplyRequest>(args)) {
        text += fmt::format(" {} mutation {} condition {} argument {:x} base {:x} attempt ..{:x}",
                            m->key, static_cast<int>(m->mutation), static_cast<int>(m->condition),
                            m->condition_argument, m->base_version, m->attempt_id.lo & 0xffffff);
      }
      break;
    case node::Opcode::kRecordStore:
      if (auto m = node::decode<node::RecordStoreRequest>(args)) {
        const auto record = node::decode_record(
            node::as_view(frame).subspan(node::kHeaderBytes + header->args_bytes));
        text += fmt::format(" {} version {:x}{}", m->key, record ? record->meta.version : 0,
                            m->sync ? " sync" : "");
      }
      break;
    case node::Opcode::kMarkSynced:
      if (auto m = node::decode<node::MarkSyncedRequest>(args)) {
        text += fmt::format(" partition {} key {} floor {:x}", m->partition, m->key, m->floor);
      }
      break;
    case node::Opcode::kShardWrite:
      if (auto m = node::decode<node::ShardWriteRequest>(args)) {
        text += fmt::format(" {} ..{:x}/{}.{}", m->header.key, m->header.name.txid.lo & 0xffffff,
                            m->header.name.segment, m->header.name.index);
      }
      break;
    case node::Opcode::kShardBuild:
      if (auto m = node::decode<node::ShardBuildRequest>(args)) {
        text += fmt::format(" {} ..{:x}/{}.{} from ..{:x}", m->header.key,
                            m->header.name.txid.lo & 0xffffff, m->header.name.segment,
                            m->header.name.index, m->source.txid.lo & 0xffffff);
      }
      break;
    case node::Opcode::kShardPatch:
      if (auto m = node::decode<node::ShardPatchRequest>(args)) {
        text += fmt::format(" {} ..{:x}/{}.{} from ..{:x}, {} extents", m->header.key,
                            m->header.name.txid.lo & 0xffffff, m->header.name.segment,
                            m->header.name.index, m->source.txid.lo & 0xffffff, m->extents.size());
      }
      break;
    case node::Opcode::kShardUpdate:
      if (auto m = node::decode<node::ShardUpdateRequest>(args)) {
        text += fmt::format(" ..{:x}/{}.{} mode {}, {} extents", m->name.txid.lo & 0xffffff,
                            m->name.segment, m->name.index, static_cast<int>(m->mode),
                            m->extents.size());
      }
      break;
    case node::Opcode::kShardRead:
      if (auto m = node::decode<node::ShardReadRequest>(args)) {
        text += fmt::format(" ..{:x}/{}.{}", m->name.txid.lo & 0xffffff, m->name.segment,
                            m->name.index);
      }
      break;
    case node::Opcode::kShardDelete:
      if (auto m = node::decode<node::ShardDeleteRequest>(args)) {
        for (const auto& name : m->names) {
          text += fmt::format(" ..{:x}/{}.{}", name.txid.lo & 0xffffff, name.segment, name.index);
        }
      }
      break;
    case node::Opcode::kDropTombstones:
      if (auto m = node::decode<node::DropTombstonesRequest>(args)) {
        text += fmt::format(" partition {}, {} tombstones", m->partition, m->tombstones.size());
      }
      break;
    default:
      break;
  }
  return text;
}

}  // namespace elastripe::sim
