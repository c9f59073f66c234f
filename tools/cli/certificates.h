// Certificates of a cluster: a CA, and what it signs for proxies, nodes and clients.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/cli/result.h"

namespace elastripe::cli {

inline constexpr int kCaDays = 3650;  // no certificate lives longer than its CA

struct CertificateOptions {
  // DNS names and IP addresses where proxies and nodes are reached, beside those by which a machine
  // reaches itself: localhost, 127.0.0.1 and ::1.
  std::vector<std::string> hosts = {};
  int days = 825;  // from now on, 1..kCaDays
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// PEM files, absolute.
struct CertificatePaths {
  std::filesystem::path certificate;
  std::filesystem::path key;
};

struct TlsPaths {
  CertificatePaths ca;
  CertificatePaths proxy;  // a server for all hosts, and a client: of the nodes
  CertificatePaths node;   // the same
  CertificatePaths client;
  bool has_new_ca = false;
};

// Makes NAME.pem and NAME.key in the directory for proxy, node and client, in place of those that
// are there; and a CA, if there is none. Keys are for their owner only, as is a directory that was
// not there. Nothing has changed after an error, unless a file cannot be put into its place; each
// of the files is then the old one or the new one, and whole.
//
// Errors: a host that is neither name nor address, a CA of which one half is missing, that cannot
// sign or ends too early, a directory in which others could have planted one.
Result<TlsPaths> make_cluster_certificates(const std::filesystem::path& dir,
                                           const CertificateOptions& options);

// Another CA without a break, in three steps. Each is over when all proxies, nodes and clients have
// the files that it made, and have read them again:
//
//   begin_new_ca                  ca.pem has the new CA and the one before: both are believed.
//   make_cluster_certificates     signs by the new one.
//   forget_old_ca                 ca.pem has the new one only.
//
// Errors: there is no CA, another change is not over, files as above.
Result<CertificatePaths> begin_new_ca(const std::filesystem::path& dir,
                                      std::chrono::system_clock::time_point now);
// Error also: a certificate in the directory is by the old CA still.
Result<CertificatePaths> forget_old_ca(const std::filesystem::path& dir);

}  // namespace elastripe::cli
