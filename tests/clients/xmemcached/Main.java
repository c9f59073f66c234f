import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import net.rubyeye.xmemcached.CommandFactory;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.auth.AuthInfo;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;
import net.rubyeye.xmemcached.transcoders.SerializingTranscoder;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** xmemcached: the text protocol, the binary one, and SASL. */
public class Main {
  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void exercise(MemcachedClient client) throws Exception {
    client.setOpTimeout(20_000);
    client.flushAll();
    check(client.get("absent") == null, "a miss");
    check(client.set("key", 0, "value") && client.get("key").equals("value"), "set");
    check(!client.add("key", 0, "x") && client.add("added", 0, "1"), "add");
    check(!client.replace("missing", 0, "x") && client.replace("added", 0, "2"), "replace");
    check(client.append("key", ">") && client.prepend("key", "<"), "append, prepend");
    GetsResponse<String> found = client.gets("key");
    check(found.getValue().equals("<value>"), "gets");
    check(client.cas("key", 0, "changed", found.getCas()), "cas");
    check(!client.cas("key", 0, "late", found.getCas()), "a late cas");
    check(client.incr("counter", 5, 10) == 10 && client.incr("counter", 5) == 15, "incr");
    check(client.decr("counter", 3) == 12, "decr");
    List<String> keys = new ArrayList<>();
    for (int i = 0; i < 100; ++i) {
      keys.add("many" + i);
      check(client.set(keys.get(i), 0, keys.get(i)), "sets");
    }
    keys.add("missing");
    check(client.get(keys).size() == 100, "a multi-get");
    byte[] large = new byte[5_000_000];
    new Random(1).nextBytes(large);
    check(client.set("large", 0, large), "a large set");
    check(Arrays.equals(large, (byte[]) client.get("large")), "a large get");
    check(client.set("short", 1, "x") && client.set("touched", 0, "x"), "sets");
    check(client.touch("touched", 1) && !client.touch("missing", 1), "touch");
    long end = System.nanoTime() + 20_000_000_000L;
    while (client.get("short") != null || client.get("touched") != null) {
      check(System.nanoTime() < end, "nothing expires");
      Thread.sleep(50);
    }
    check(client.delete("key") && !client.delete("key"), "delete");
    check(client.getStats().values().iterator().next().containsKey("curr_items"), "stats");
    client.shutdown();
  }

  static MemcachedClient connect(String server, CommandFactory dialect, boolean logsIn)
      throws Exception {
    XMemcachedClientBuilder builder = new XMemcachedClientBuilder(AddrUtil.getAddresses(server));
    builder.setCommandFactory(dialect);
    SerializingTranscoder transcoder = new SerializingTranscoder(8 << 20);
    transcoder.setCompressionThreshold(Integer.MAX_VALUE);
    builder.setTranscoder(transcoder);
    if (logsIn) {
      builder.addAuthInfo(AddrUtil.getOneAddress(server), AuthInfo.plain("client", "secret"));
    }
    return builder.build();
  }

  static void exerciseAll(String[] words) throws Exception {
    String server = words[0] + ":" + words[1];
    exercise(connect(server, new TextCommandFactory(), false));
    exercise(connect(server, new BinaryCommandFactory(), false));
    if (!words[2].equals("-")) {
      // It finds no login for an address that it has looked up the name of meanwhile, but by name.
      String name = InetAddress.getByName(words[0]).getHostName();
      exercise(connect(name + ":" + words[2], new BinaryCommandFactory(), true));
    }
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
