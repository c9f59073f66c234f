import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;
import net.spy.memcached.transcoders.SerializingTranscoder;

/** spymemcached: the text protocol, the binary one, and SASL. */
public class Main {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void exercise(MemcachedClient client) throws Exception {
    check(client.flush().get(), "flush");
    check(client.get("absent") == null, "a miss");
    check(client.set("key", 0, "value").get() && client.get("key").equals("value"), "set");
    check(!client.add("key", 0, "x").get() && client.add("added", 0, "1").get(), "add");
    check(!client.replace("missing", 0, "x").get(), "replace without one");
    check(client.replace("added", 0, "2").get(), "replace");
    check(client.append("key", ">").get() && client.prepend("key", "<").get(), "append, prepend");
    CASValue<Object> found = client.gets("key");
    check(found.getValue().equals("<value>"), "gets");
    check(client.cas("key", found.getCas(), "changed") == CASResponse.OK, "cas");
    check(client.cas("key", found.getCas(), "late") == CASResponse.EXISTS, "a late cas");
    check(client.incr("counter", 5, 10) == 10 && client.incr("counter", 5) == 15, "incr");
    check(client.decr("counter", 3) == 12, "decr");
    List<String> keys = new ArrayList<>();
    for (int i = 0; i < 100; ++i) {
      keys.add("many" + i);
      check(client.set(keys.get(i), 0, keys.get(i)).get(), "sets");
    }
    keys.add("missing");
    check(client.getBulk(keys).size() == 100, "a multi-get");
    byte[] large = new byte[5_000_000];
    new Random(1).nextBytes(large);
    check(client.set("large", 0, large).get(), "a large set");
    check(Arrays.equals(large, (byte[]) client.get("large")), "a large get");
    check(client.set("short", 1, "x").get() && client.set("touched", 0, "x").get(), "sets");
    check(client.touch("touched", 1).get() && !client.touch("missing", 1).get(), "touch");
    long end = System.nanoTime() + 20_000_000_000L;
    while (client.get("short") != null || client.get("touched") != null) {
      check(System.nanoTime() < end, "nothing expires");
      Thread.sleep(50);
    }
    check(client.delete("key").get() && !client.delete("key").get(), "delete");
    check(client.getStats().values().iterator().next().containsKey("curr_items"), "stats");
    client.shutdown();
  }

  static MemcachedClient connect(String server, boolean isBinary, boolean logsIn)
      throws Exception {
    SerializingTranscoder transcoder = new SerializingTranscoder(8 << 20);
    transcoder.setCompressionThreshold(Integer.MAX_VALUE);
    ConnectionFactoryBuilder builder =
        new ConnectionFactoryBuilder().setOpTimeout(20_000).setTranscoder(transcoder);
    if (isBinary) builder.setProtocol(ConnectionFactoryBuilder.Protocol.BINARY);
    if (logsIn) {
      // AuthDescriptor.typical() tries CRAM-MD5 first, without asking the server whether it has it.
      builder.setAuthDescriptor(new AuthDescriptor(
          new String[] {"PLAIN"}, new PlainCallbackHandler("client", "secret")));
    }
    return new MemcachedClient(builder.build(), AddrUtil.getAddresses(server));
  }

  static void exerciseAll(String[] words) throws Exception {
    String server = words[0] + ":" + words[1];
    exercise(connect(server, false, false));
    exercise(connect(server, true, false));
    if (!words[2].equals("-")) exercise(connect(words[0] + ":" + words[2], true, true));
  }

  public static void main(String[] words) {
    int status = 1;
    try {
      exerciseAll(words);
      status = 0;
    } catch (Exception | AssertionError error) {
      error.printStackTrace();
    }
    System.exit(status);  // threads of a client that is not shut down would go on
  }
}
