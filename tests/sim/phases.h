// The phases of a schedule after all has healed. Each is a test of its own, of what some scenarios
// promise; it ends early when something is a violation.
#pragma once

#include "tests/sim/audit.h"
#include "tests/sim/faults.h"

namespace elastripe::sim {

// The parts of one schedule. Each uses only the ones before it.
struct Parts {
  Parts(const Scenario& scenario, uint64_t seed, bool traced)
      : run(scenario, seed, traced),
        cluster(run),
        promise(run, cluster),
        clients(run, cluster, promise),
        faults(run, cluster, promise, clients),
        audit(run, cluster, promise, clients) {}

  Run run;
  Cluster cluster;
  Promise promise;
  Clients clients;
  Faults faults;
  Audit audit;
};

// Waits until the cluster is settled. If it does not come to rest, that is a violation, or the end
// of a schedule in which more has failed than the promise covers. `otherwise` is for reports.
bool come_to_rest(Parts& parts, const char* otherwise);
// As above, of a cluster that was waited for in vain.
void blame_unrest(Parts& parts, const char* what);
// Waits until no client has anything to do: each operation ends.
bool finish_clients(Parts& parts);

// Somebody who has nothing but what the nodes tell makes the maps from now on.
void take_over(Parts& parts);
// As above, after machines have vanished for whose death the operator vouched, to each in turn.
void declare_dead(Parts& parts);
void wait_for_repair(Parts& parts);
// What is still of the older build starts again, one after the other, and the cluster uses all that
// the newest one has.
void finish_upgrade(Parts& parts);
// Clients write the same keys again and again, so that none is ever quiet; what was left behind
// before is collected all the same.
void write_on(Parts& parts);
// What depends on a lost key is an error; then the operator accepts the loss, and all promises
// count again.
void accept_loss(Parts& parts);
// Every object is transitioned, there and back: it ends in the state that clients left it in.
void transition_everything(Parts& parts);
// Nodes are filled until they refuse: what was acknowledged is whole, deletes work, and give the
// memory back. Some schedules lose a node meanwhile.
void fill_nodes(Parts& parts);
// As many nodes die as the scheme survives; half of the schedules have them back, empty.
void kill_to_the_limit(Parts& parts);

}  // namespace elastripe::sim
