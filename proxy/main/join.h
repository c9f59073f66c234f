// How a proxy that knows one node of a cluster learns of the others.
#pragma once

#include "proxy/main/config.h"
#include "proxy/main/credentials.h"

namespace elastripe {

// Asks the node at `config.join`, or one that etcd names, for its map, once. The rest of `config`
// is as before, with the nodes and the number of partitions of that map. kUnavailable: not now, and
// why; what does not fit may do so when the cluster has other settings. Takes two seconds at most
// for each that is asked.
Result<Config> join_cluster(const Config& config, const Credentials& credentials);

// For a file that is read again: what `joined` has learned.
void stay_joined(Config& config, const Config& joined);

}  // namespace elastripe
