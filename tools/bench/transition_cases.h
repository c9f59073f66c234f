// What `elastripe bench transition` measures, as rows. Microseconds are deciles.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/bench/rows.h"
#include "tools/bench/transition_cluster.h"

namespace elastripe::bench {

// The transition of one object, forward and back.
struct TransitionKind {
  Parameters parameters;
  std::string layout;
  std::string execution;
  size_t object_bytes = 0;  // one segment at most
  bool order_selection = true;
  uint64_t bits_per_second = 0;  // of the network; 0: no limit
};

// Every layout and execution.
std::vector<TransitionKind> kinds_of(const Parameters& parameters, const std::vector<size_t>& sizes,
                                     const std::vector<uint64_t>& rates = {0});

// Kinds have the same parameters, and one cluster; those of one rate take turns. Each row has the
// kind as labels, and for each direction {"us": from the request's start to the commit,
// "blocks_read", "blocks_sent", "block_bytes", "proxy_wire_bytes", "node_wire_bytes"}: of one
// transition, the last two with heartbeats. Blocks that are not as planned are an error.
cli::Result<Rows> measure_transitions(const std::vector<TransitionKind>& kinds, int repetitions,
                                      int port, bool own_network);

// Small striped objects, where requests are what counts, not bytes. A row for each size: "get_us"
// of a client, and for each direction "alone_us" of a job of one object and "job_us" of a job of
// kJobObjects, for each of them.
inline constexpr int kJobObjects = 8;
cli::Result<Rows> measure_small_objects(const Parameters& parameters, int repetitions, int port);

// Many objects at once: how fast transitions go, and "limited_by" what. A row for each layout,
// execution and direction. With no objects as many, up to 10,000, as fit in the memory that is
// free.
cli::Result<Rows> measure_bulk(const Parameters& parameters, size_t object_bytes, int objects,
                               int port);

// What one client, one GET after the other, sees beside a transition of so many objects of 1 MiB. A
// row for each size that it reads and way that the transition goes, or "nothing".
cli::Result<Rows> measure_beside(const Parameters& parameters, int objects, int rounds, int port);

}  // namespace elastripe::bench
