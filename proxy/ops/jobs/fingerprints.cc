#include "proxy/ops/jobs/fingerprints.h"

#include <algorithm>
#include <array>

#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/crc32c.h"

namespace elastripe::jobs {

namespace {

using coding::Fingerprint;

// What is known of one shard.
struct ShardFingerprints {
  ShardRead outcome = ShardRead::kMissing;
  bool is_bad = false;
  std::vector<node::BlockFingerprint> blocks = {};
};

struct ShardQuestion {
  NodeId on;
  node::ShardName name;
  size_t blocks;
  size_t block_bytes;
  coding::FingerprintSeed seed;
};

Task<ShardFingerprints> ask_node(OpsContext& ops, MapPtr map, ShardQuestion asked,
                                 TimePoint deadline) {
  if (const auto known = read_without_asking(*map, asked.on)) co_return ShardFingerprints{*known};
  const node::ShardFingerprintRequest message{
      asked.seed, {{asked.name, static_cast<uint32_t>(asked.block_bytes)}}};
  auto answer = co_await ask(ops.nodes, *map, asked.on, message, call_deadline(ops, deadline));
  if (!answer) {
    const bool is_over = answer.error().code == ErrorCode::kStaleEpoch;
    co_return ShardFingerprints{is_over ? ShardRead::kStaleEpoch : ShardRead::kUnreachable};
  }
  if (answer->status() != node::Status::kOk || answer->args.entries.size() != 1) {
    co_return ShardFingerprints{ShardRead::kUnreachable};
  }
  switch (answer->args.entries.front().health) {
    case node::ShardHealth::kNotHere:
      co_return ShardFingerprints{ShardRead::kMissing};
    case node::ShardHealth::kBad:
      co_return ShardFingerprints{ShardRead::kMissing, /*is_bad=*/true};
    case node::ShardHealth::kIntact:
      break;
  }
  // One of another size is not the shard that the record names.
  if (answer->args.blocks.size() != asked.blocks)
    co_return ShardFingerprints{ShardRead::kMissing, true};
  co_return ShardFingerprints{ShardRead::kRead, false, std::move(answer->args.blocks)};
}

// The same of a node that does not know how, from the bytes.
Task<ShardFingerprints> read_and_compute(OpsContext& ops, MapPtr map, ShardQuestion asked,
                                         const coding::Fingerprinter& fingerprinter,
                                         TimePoint deadline) {
  if (const auto known = read_without_asking(*map, asked.on)) co_return ShardFingerprints{*known};
  const Buffer shard = Buffer::allocate(asked.blocks * asked.block_bytes);
  const auto outcome = co_await read_shard(ops, map, asked.on, asked.name,
                                           {Buffer(shard).mutable_bytes()}, {shard}, deadline);
  if (outcome != ShardRead::kRead) co_return ShardFingerprints{outcome};
  ShardFingerprints computed{ShardRead::kRead};
  for (size_t i = 0; i < asked.blocks; ++i) {
    if (!co_await ops.clock.next_turn()) co_return ShardFingerprints{ShardRead::kUnreachable};
    const ByteView block = shard.bytes().subspan(i * asked.block_bytes, asked.block_bytes);
    computed.blocks.push_back({node::crc32c(block), fingerprinter.of(block)});
  }
  co_return computed;
}

Result<SegmentFingerprints> gather(std::vector<ShardFingerprints> shards, size_t block_bytes) {
  SegmentFingerprints gathered;
  gathered.shards.resize(shards.size());
  gathered.checksums.resize(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].outcome == ShardRead::kStaleEpoch) {
      return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
    }
    gathered.unreachable[i] = shards[i].outcome == ShardRead::kUnreachable;
    gathered.bad[i] = shards[i].is_bad;
    gathered.missing[i] = shards[i].outcome == ShardRead::kMissing && !shards[i].is_bad;
    for (const node::BlockFingerprint& block : shards[i].blocks) {
      gathered.shards[i].push_back(block.fingerprint);
      gathered.checksums[i].push_back(block.crc32c);
      gathered.bytes += block_bytes;
    }
  }
  return gathered;
}

// The checksum of zeros, as padding is.
uint32_t crc32c_of_zeros(size_t bytes) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  uint32_t crc = 0;
  for (; bytes > 0; bytes -= std::min(bytes, kZeros.size())) {
    crc = node::crc32c(ByteView(kZeros).first(std::min(bytes, kZeros.size())), crc);
  }
  return crc;
}

bool has_all_data(const coding::Codec& codec, const SegmentFingerprints& fingerprints) {
  for (int i = 0; i < codec.k_prime(); ++i) {
    if (fingerprints.shards[static_cast<size_t>(i)].empty()) return false;
  }
  return true;
}

// The checksum of the object's bytes and the padding behind them, against that of the blocks.
bool matches_checksum(const coding::SegmentGeometry& geometry, const node::Segment& segment,
                      const SegmentFingerprints& fingerprints) {
  const coding::Layout& layout = geometry.codec().layout();
  const uint32_t block_shift = node::crc32c_shift(geometry.block_bytes());
  uint32_t stored = 0;
  for (int b = 0; b < layout.blocks(); ++b) {
    const auto& blocks = fingerprints.checksums[static_cast<size_t>(layout.node_of(b))];
    stored =
        node::crc32c_joined(stored, blocks[static_cast<size_t>(layout.row_of(b))], block_shift);
  }
  const size_t padding =
      static_cast<size_t>(layout.blocks()) * geometry.block_bytes() - geometry.length();
  const uint32_t expected =
      node::crc32c_joined(segment.crc32c, crc32c_of_zeros(padding), node::crc32c_shift(padding));
  return stored == expected;
}

// Those that the data does not make, each by itself.
coding::ShardSet wrong_parities(const coding::Codec& codec, coding::State state,
                                const SegmentFingerprints& fingerprints) {
  coding::ShardSet wrong;
  for (int j = 0; j < codec.m(); ++j) {
    const auto parity = static_cast<size_t>(codec.k_prime()) + static_cast<size_t>(j);
    auto alone = fingerprints.shards;
    for (size_t i = static_cast<size_t>(codec.k_prime()); i < alone.size(); ++i) {
      if (i != parity) alone[i].clear();
    }
    if (!coding::check_fingerprints(codec, state, alone).is_clean()) wrong.set(parity);
  }
  return wrong;
}

}  // namespace

Task<Result<SegmentFingerprints>> take_fingerprints(OpsContext& ops, MapPtr map,
                                                    coding::Scheme scheme, node::Segment segment,
                                                    TimePoint deadline) {
  const auto geometry = geometry_of(scheme, segment);
  if (!geometry) co_return fail(geometry.error());
  const bool nodes_know = map->capabilities.has(node::Capability::kShardFingerprints);
  const coding::FingerprintSeed seed{ops.random.next(), ops.random.next()};
  std::vector<ShardQuestion> questions;
  uint64_t bytes = 0;
  for (size_t i = 0; i < segment.placement.size(); ++i) {
    const size_t shard_bytes = geometry->shard_bytes(segment.state, static_cast<int>(i));
    bytes += shard_bytes;
    questions.push_back({segment.placement[i], shard_name(segment, scheme, i),
                         shard_bytes / geometry->block_bytes(), geometry->block_bytes(), seed});
  }
  std::vector<Task<ShardFingerprints>> asked;
  if (nodes_know) {
    for (const ShardQuestion& question : questions) {
      asked.push_back(ask_node(ops, map, question, deadline));
    }
    co_return gather(co_await when_all(std::move(asked)), geometry->block_bytes());
  }
  const TimePoint began = ops.clock.now();
  const auto permit = co_await ops.memory.staged.acquire(bytes);
  deadline += ops.clock.now() - began;
  const coding::Fingerprinter fingerprinter(seed);
  for (const ShardQuestion& question : questions) {
    asked.push_back(read_and_compute(ops, map, question, fingerprinter, deadline));
  }
  co_return gather(co_await when_all(std::move(asked)), geometry->block_bytes());
}

SegmentVerdict judge(const coding::SegmentGeometry& geometry, const node::Segment& segment,
                     const SegmentFingerprints& fingerprints) {
  const coding::Codec& codec = geometry.codec();
  const auto check = coding::check_fingerprints(codec, segment.state, fingerprints.shards);
  SegmentVerdict verdict{check.wrong, check.has_unexplained, true};
  if (segment.crc32c == 0 || !has_all_data(codec, fingerprints)) return verdict;
  verdict.data_matches = matches_checksum(geometry, segment, fingerprints);
  // The checksum settles who is wrong, also where there are too few parities for a vote. Padding
  // is data, too.
  if (verdict.data_matches && !check.is_clean()) {
    verdict.wrong = wrong_parities(codec, segment.state, fingerprints);
    verdict.has_unexplained = false;
  }
  // Nor are parities to blame where data is.
  if (!verdict.data_matches && (verdict.wrong & codec.data_shards()).none()) {
    verdict.has_unexplained = true;
  }
  return verdict;
}

}  // namespace elastripe::jobs
