// What is looked at when all is quiet: is everything readable and whole, and is anything left that
// nothing refers to? Whatever is not as promised is a violation.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "proxy/ops/objects/outcome.h"
#include "tests/sim/clients.h"

namespace elastripe::sim {

class Audit {
 public:
  Audit(Run& run, Cluster& cluster, Promise& promise, Clients& clients)
      : run_(run), cluster_(cluster), promise_(promise), clients_(clients) {}

  // Every key is read through every proxy, and scrubbed through one. `when` is for reports.
  void read_everything(const char* when);
  Result<objects::ObjectReport> inspect(int key, SimProxy& proxy);

  // A record was committed: a transition makes its segments whole anew, and a shard that was moved
  // is there.
  void note_committed(const node::Record& record);

  // Everything that no record refers to is collected in the end.
  void wait_for_reclaim();
  // No node has had a shard that no record refers to for longer than that.
  void find_old_orphans(Duration limit);
  // Whatever values in transit have taken of the proxies' memory is given back.
  void check_memory();
  // An item that some node holds, in words, or empty. A source that is no home any more, and was
  // not told that it may forget, keeps its records until the next map.
  std::string what_is_kept();

 private:
  std::string drain(int key, SimProxy& proxy);  // the error of the read, or empty
  void scrub(int key, SimProxy& proxy, const char* when);
  std::string why_unreadable(int key, SimProxy& proxy);
  uint64_t confirmed_in_epoch(const node::Record& record, const node::Segment& segment,
                              size_t index) const;
  void check_missing(const std::string& key, const node::Record& record, size_t segment,
                     const std::vector<uint8_t>& missing);
  bool is_accounted_for(const std::string& key, uint64_t epoch, node::NodeId holder) const;
  Task<std::string> look_for_leaks();  // the last one, in words, or empty

  Run& run_;
  Cluster& cluster_;
  Promise& promise_;
  Clients& clients_;
  // The txid of parities, or of a moved shard -> the epoch of the commit that named it first.
  std::map<node::Id128, uint64_t> reshaped_in_;
  std::map<node::Id128, uint64_t> written_in_;  // segments, by data_txid
  // The same of a transition, which confirms all shards: by data_txid, number and generation.
  std::map<std::tuple<node::Id128, uint32_t, uint32_t>, uint64_t> transitioned_in_;
};

}  // namespace elastripe::sim
