// What clients send, to begin with: every command, and a binary request.
#pragma once

#include <string>
#include <vector>

namespace elastripe::fuzz {

inline std::vector<std::string> client_samples() {
  const std::string binary_get("\x80\0\0\1\0\0\0\0\0\0\0\1wxyz\0\0\0\0\0\0\0\0k", 25);
  const std::string binary_set(
      "\x80\1\0\1\x08\0\0\0\0\0\0\x0awxyz\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\x09k", 33);
  const std::string binary_delete("\x80\x14\0\1\0\0\0\0\0\0\0\1wxyz\0\0\0\0\0\0\0\0k", 25);
  const std::string sasl_list("\x80\x20\0\0\0\0\0\0\0\0\0\0wxyz\0\0\0\0\0\0\0\0", 24);
  const std::string sasl_auth("\x80\x21\0\5\0\0\0\0\0\0\0\x0fwxyz\0\0\0\0\0\0\0\0", 24);
  const std::string sasl_step("\x80\x22\0\5\0\0\0\0\0\0\0\x0fwxyz\0\0\0\0\0\0\0\0", 24);
  const std::string plain("PLAIN\0user\0word", 15);
  return {
      "set k 1 0 3\r\nabc\r\nset n 0 0 1 noreply\r\n5\r\nadd a 0 9 0\r\n\r\n"
      "replace k 0 0 1\r\nx\r\n"
      "append k 0 0 1\r\ny\r\nprepend k 0 0 1\r\nz\r\ncas k 0 0 1 5\r\nx\r\n",
      "get k\r\nget k n missing\r\ngets k n\r\ngat 9 k\r\ngats 0 k n\r\n",
      "incr n 5\r\ndecr n 1 noreply\r\ntouch k 9\r\ndelete k 0\r\ndelete n noreply\r\n",
      "set k 0 0 9\r\n123456789\r\nms k 3 o2 c k s Oabc\r\nabc\r\nms k 2 o9 q\r\nab\r\nmn\r\n",
      "set k 0 0 9\r\n123456789\r\nmg k v o2 n3 s c f k t Oabc\r\nmg missing q\r\nmn\r\n",
      "ms k 3 MA T9 F1 C5 N9 c s\r\nabc\r\nma n N0 J5 D2 MD T9 v t c\r\nmd k C5 q k Oabc\r\nme "
      "k\r\n"
      "ms AAEg 1 b k\r\nx\r\nmg AAEg b k v T9\r\n",
      "mg k v N9 E5 h l\r\nmg k R9 u v\r\nmd k I T9 E7\r\nmd k x\r\nms k 1 I C5 E8 T9\r\nx\r\n"
      "ma n N9 E9 v\r\nmg k v c t\r\n",
      "version\r\nverbosity 1\r\ncache_memlimit 64\r\nstats\r\nstats items\r\n"
      "lru_crawler metadump all\r\nlru_crawler sleep 9\r\nlru tune 1 2 0.5 2\r\n"
      "slabs automove ratio 0.8\r\nstats cachedump 1 5\r\n"
      "flush_all 1 noreply\r\nflush_all\r\nquit\r\n",
      binary_set + "v" + binary_get,
      binary_delete + binary_get,
      sasl_list + sasl_auth + plain + sasl_step + plain,
  };
}

}  // namespace elastripe::fuzz
