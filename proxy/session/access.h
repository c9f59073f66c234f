// How clients come in by one listener: in clear or over TLS, anybody or users.
#pragma once

#include "proxy/base/published.h"
#include "proxy/io/tls.h"
#include "proxy/session/users.h"

namespace elastripe {

// What it points to outlives the connections; a connection is served by what was published when it
// came.
struct ClientAccess {
  const Published<TlsContext>* tls = nullptr;  // null: in clear
  const Published<Users>* users = nullptr;     // null: anybody
};

}  // namespace elastripe
