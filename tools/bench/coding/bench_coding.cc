// Micro-benchmark of the coding library, on warm data and one core.
//
//   elastripe-bench-coding                       everything
//   elastripe-bench-coding --benchmark_filter=vs_jerasure
//
// `vs_jerasure` times both encoders in alternation on the same data and reports the median of the
// pairs' ratios, which is stable on a noisy machine where the two speeds are not. Speeds are GB of
// segment bytes a second.
#include <benchmark/benchmark.h>
#include <jerasure.h>
#include <reed_sol.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "coding/codec.h"
#include "coding/coder.h"
#include "coding/fingerprint.h"

namespace elastripe::coding {
namespace {

using Bytes = std::vector<std::byte>;
using Seconds = std::chrono::duration<double>;

template <typename T>
T value_or_exit(std::expected<T, std::string> result) {
  if (result) return *std::move(result);
  std::fprintf(stderr, "elastripe-bench-coding: %s\n", result.error().c_str());
  std::exit(1);
}

// A random segment, and room for its parities.
struct Fixture {
  Fixture(const std::string& scheme, size_t length, State in_state)
      : codec(*value_or_exit(codec_for(value_or_exit(parse_scheme(scheme))))),
        geometry(value_or_exit(SegmentGeometry::make(codec, length))),
        state(in_state),
        segment(length),
        parities(static_cast<size_t>(codec.m()), Bytes(geometry.parity_shard_bytes(state))) {
    std::mt19937 random(1);
    for (std::byte& b : segment) b = static_cast<std::byte>(random());
    for (Bytes& parity : parities) {
      outputs.emplace_back(parity);
      inputs.emplace_back(parity);
    }
  }

  void encode() {
    value_or_exit(Coder::encoder(geometry, state, segment, outputs)).finish();
    benchmark::ClobberMemory();
  }

  const Codec& codec;
  SegmentGeometry geometry;
  State state;
  Bytes segment;
  std::vector<Bytes> parities;
  std::vector<std::span<std::byte>> outputs;
  std::vector<std::span<const std::byte>> inputs;
};

double median(std::vector<double>& values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

template <typename Work>
double seconds_of(Work work) {
  constexpr int kRuns = 20;  // of one side of a pair: long against the clock, short against noise
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) work();
  return Seconds(std::chrono::steady_clock::now() - start).count() / kRuns;
}

void vs_jerasure(benchmark::State& run) {
  const auto k = static_cast<int>(run.range(0));
  const auto m = static_cast<int>(run.range(1));
  const auto block = static_cast<size_t>(run.range(2));
  Fixture fixture("rs:" + std::to_string(k) + "," + std::to_string(m),
                  static_cast<size_t>(k) * block, State::kWide);
  const std::unique_ptr<int, decltype(&std::free)> matrix(
      reed_sol_vandermonde_coding_matrix(k, m, 8), &std::free);
  std::vector<Bytes> parities(static_cast<size_t>(m), Bytes(block));
  std::vector<char*> data;
  std::vector<char*> coding;
  data.reserve(static_cast<size_t>(k));
  coding.reserve(parities.size());
  for (int i = 0; i < k; ++i) {
    data.push_back(reinterpret_cast<char*>(fixture.segment.data()) +
                   static_cast<size_t>(i) * block);
  }
  for (Bytes& parity : parities) coding.push_back(reinterpret_cast<char*>(parity.data()));

  std::vector<double> ours;
  std::vector<double> jerasure;
  std::vector<double> ratios;
  for (auto _ : run) {
    ours.push_back(seconds_of([&] { fixture.encode(); }));
    jerasure.push_back(seconds_of([&] {
      jerasure_matrix_encode(k, m, 8, matrix.get(), data.data(), coding.data(),
                             static_cast<int>(block));
      benchmark::ClobberMemory();
    }));
    ratios.push_back(jerasure.back() / ours.back());
  }
  if (parities != fixture.parities) run.SkipWithError("the two encoders differ");
  const auto bytes = static_cast<double>(fixture.segment.size());
  run.counters["ours_GBps"] = bytes / median(ours) / 1e9;
  run.counters["jerasure_GBps"] = bytes / median(jerasure) / 1e9;
  run.counters["ratio"] = median(ratios);
}
BENCHMARK(vs_jerasure)
    ->ArgNames({"k", "m", "block"})
    ->Args({4, 1, 32768})
    ->Args({4, 2, 32768})
    ->Args({6, 3, 32768})
    ->Args({8, 3, 32768})
    ->Args({10, 4, 32768})
    ->Args({12, 4, 32768});

void encode(benchmark::State& run, const std::string& scheme, size_t length, State state) {
  Fixture fixture(scheme, length, state);
  for (auto _ : run) fixture.encode();
  run.SetBytesProcessed(static_cast<int64_t>(length) * run.iterations());
}
BENCHMARK_CAPTURE(encode, rs_4_2_64B_fixed_cost, "rs:4,2", 64, State::kWide);
BENCHMARK_CAPTURE(encode, rep3_64KiB, "rep:3", 65536, State::kWide);
BENCHMARK_CAPTURE(encode, ers_4_1_5_1MiB_narrow, "ers-2:4,1,5", 1 << 20, State::kNarrow);
BENCHMARK_CAPTURE(encode, ers_4_1_5_1MiB_wide, "ers-2:4,1,5", 1 << 20, State::kWide);
BENCHMARK_CAPTURE(encode, ers_12_3_14_64KiB_narrow, "ers-2:12,3,14", 65536, State::kNarrow);
BENCHMARK_CAPTURE(encode, ers_12_3_14_64KiB_wide, "ers-2:12,3,14", 65536, State::kWide);
BENCHMARK_CAPTURE(encode, ers_12_3_14_4MiB_narrow, "ers-2:12,3,14", 4 << 20, State::kNarrow);

// Data shards 0 .. lost-1 of a segment, in place.
void decode(benchmark::State& run, const std::string& scheme, size_t length, State state,
            size_t lost) {
  Fixture fixture(scheme, length, state);
  fixture.encode();
  ShardSet missing;
  for (size_t i = 0; i < lost; ++i) missing.set(i);
  const DecodePlan plan = value_or_exit(decode_plan(fixture.codec, state, missing, missing));
  for (auto _ : run) {
    value_or_exit(Coder::decoder(fixture.geometry, plan, fixture.segment, fixture.inputs)).finish();
    benchmark::ClobberMemory();
  }
  run.SetBytesProcessed(static_cast<int64_t>(length) * run.iterations());
}
BENCHMARK_CAPTURE(decode, ers_4_1_5_1MiB_narrow_1_lost, "ers-2:4,1,5", 1 << 20, State::kNarrow, 1);
BENCHMARK_CAPTURE(decode, ers_12_3_14_1MiB_wide_3_lost, "ers-2:12,3,14", 1 << 20, State::kWide, 3);
BENCHMARK_CAPTURE(decode, ers_12_3_14_64KiB_narrow_1_lost, "ers-2:12,3,14", 65536, State::kNarrow,
                  1);

// One step of a loop thread, on the slowest common shape.
void step(benchmark::State& run) {
  Fixture fixture("rs:12,4", 4 << 20, State::kWide);
  auto coder = value_or_exit(
      Coder::encoder(fixture.geometry, fixture.state, fixture.segment, fixture.outputs));
  for (auto _ : run) {
    if (coder.step(kStepBytes)) continue;
    coder = value_or_exit(
        Coder::encoder(fixture.geometry, fixture.state, fixture.segment, fixture.outputs));
  }
}
BENCHMARK(step);

// Blocks one after the other out of 64 MiB, or of the same block over and over.
void fingerprint_blocks(benchmark::State& run, FingerprintKernel kernel, size_t block_bytes,
                        size_t all_bytes) {
  Bytes bytes(all_bytes);
  std::mt19937 random(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  const Fingerprinter fingerprinter({1, 2}, kernel);
  size_t at = 0;
  for (auto _ : run) {
    benchmark::DoNotOptimize(fingerprinter.of(std::span(bytes).subspan(at, block_bytes)));
    at = at + 2 * block_bytes > all_bytes ? 0 : at + block_bytes;
  }
  run.SetBytesProcessed(static_cast<int64_t>(block_bytes) * run.iterations());
}
constexpr auto kFastest = FingerprintKernel::kFastest;
constexpr auto kPortable = FingerprintKernel::kPortable;
BENCHMARK_CAPTURE(fingerprint_blocks, fastest_4KiB, kFastest, 4096, 4096);
BENCHMARK_CAPTURE(fingerprint_blocks, fastest_256KiB, kFastest, 256 << 10, 256 << 10);
BENCHMARK_CAPTURE(fingerprint_blocks, fastest_256KiB_cold, kFastest, 256 << 10, 64 << 20);
BENCHMARK_CAPTURE(fingerprint_blocks, portable_4KiB, kPortable, 4096, 4096);
BENCHMARK_CAPTURE(fingerprint_blocks, portable_256KiB, kPortable, 256 << 10, 256 << 10);
BENCHMARK_CAPTURE(fingerprint_blocks, portable_256KiB_cold, kPortable, 256 << 10, 64 << 20);

// What one seed expands to.
void make_fingerprinter(benchmark::State& run, FingerprintKernel kernel) {
  uint64_t seed = 0;
  for (auto _ : run) benchmark::DoNotOptimize(Fingerprinter({++seed, 0}, kernel));
}
BENCHMARK_CAPTURE(make_fingerprinter, fastest, kFastest);
BENCHMARK_CAPTURE(make_fingerprinter, portable, kPortable);

// The bandwidth of memory to compare with: reading only.
void read_memory(benchmark::State& run, size_t all_bytes) {
  const std::vector<uint64_t> words(all_bytes / sizeof(uint64_t), 1);
  for (auto _ : run) {
    uint64_t sum = 0;
    for (const uint64_t word : words) sum ^= word;
    benchmark::DoNotOptimize(sum);
  }
  run.SetBytesProcessed(static_cast<int64_t>(all_bytes) * run.iterations());
}
BENCHMARK_CAPTURE(read_memory, 64MiB, 64 << 20);

}  // namespace
}  // namespace elastripe::coding

BENCHMARK_MAIN();
