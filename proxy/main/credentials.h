// Credentials: what the proxy shows of itself, and whom it believes, as read from files.
#pragma once

#include <chrono>
#include <optional>

#include "proxy/base/published.h"
#include "proxy/io/tls.h"
#include "proxy/main/config.h"
#include "proxy/session/access.h"

namespace elastripe {

// Made before the threads start, outlives them. What is loaded later is for the connections after
// that.
class Credentials {
 public:
  // Reads what the configuration needs: all of it is taken, or none. Any thread.
  Result<void> load(const Config& config);
  // Until when the certificate is valid; nothing if none is used. Any thread.
  std::optional<std::chrono::system_clock::time_point> valid_until() const;

  // How clients come in there.
  ClientAccess access(const ListenConfig& listen) const;
  // Over what nodes are spoken to; null: in clear.
  const Published<TlsContext>* nodes(const Config& config) const;

 private:
  Published<Users> users_;
  Published<TlsContext> server_;
  Published<TlsContext> mutual_server_;
  Published<TlsContext> node_client_;
};

}  // namespace elastripe
