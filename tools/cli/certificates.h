// Certificates of a cluster: a CA, and what it signs for proxies, nodes and clients.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/cli/result.h"

namespace elastripe::cli {

struct CertificateOptions {
  // Where proxies and nodes are reached: names and addresses, beside those of this machine.
  std::vector<std::string> hosts = {};
  int days = 825;  // that certificates are valid for; the CA's is for ten years
};

// Makes ca.pem and ca.key in the directory, unless they are there; and NAME.pem with NAME.key,
// anew, for the names proxy, node and client. Keys (P-256) are for their owner only, and a file is
// replaced whole or not at all. Proxies and nodes are servers and clients in one, with all hosts.
// Refuses hosts that are neither name nor address, and a CA of which one half is missing.
Result<> make_certificates(const std::filesystem::path& directory,
                           const CertificateOptions& options);

}  // namespace elastripe::cli
