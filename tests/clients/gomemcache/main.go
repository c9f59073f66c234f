// gomemcache: the text protocol.
package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func check(holds bool, what string) {
	if !holds {
		fmt.Fprintln(os.Stderr, "gomemcache:", what)
		os.Exit(1)
	}
}

func isThere(client *memcache.Client, key string) bool {
	_, err := client.Get(key)
	check(err == nil || err == memcache.ErrCacheMiss, "get "+key)
	return err == nil
}

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	client.Timeout = 20 * time.Second
	check(client.Ping() == nil && client.FlushAll() == nil, "ping, flush_all")
	_, err := client.Get("absent")
	check(err == memcache.ErrCacheMiss, "a miss")
	check(client.Set(&memcache.Item{Key: "key", Value: []byte("value"), Flags: 7}) == nil, "set")
	item, err := client.Get("key")
	check(err == nil && string(item.Value) == "value" && item.Flags == 7, "get")
	check(client.Add(&memcache.Item{Key: "key", Value: []byte("x")}) == memcache.ErrNotStored, "add")
	check(client.Add(&memcache.Item{Key: "added", Value: []byte("1")}) == nil, "an add of a new one")
	check(client.Replace(&memcache.Item{Key: "missing"}) == memcache.ErrNotStored, "replace")
	check(client.Replace(&memcache.Item{Key: "added", Value: []byte("2")}) == nil, "a replace of one")
	check(client.Append(&memcache.Item{Key: "key", Value: []byte(">")}) == nil, "append")
	check(client.Prepend(&memcache.Item{Key: "key", Value: []byte("<")}) == nil, "prepend")
	item, err = client.Get("key")
	check(err == nil && string(item.Value) == "<value>", "what was appended")
	late := *item
	item.Value = []byte("changed")
	check(client.CompareAndSwap(item) == nil, "cas")
	check(client.CompareAndSwap(&late) == memcache.ErrCASConflict, "a late cas")
	check(client.Set(&memcache.Item{Key: "counter", Value: []byte("10")}) == nil, "a counter")
	number, err := client.Increment("counter", 5)
	check(err == nil && number == 15, "incr")
	number, err = client.Decrement("counter", 3)
	check(err == nil && number == 12, "decr")
	item, err = client.GetAndTouch("key", 1000)
	check(err == nil && string(item.Value) == "changed", "gat")
	var keys []string
	for i := 0; i < 100; i++ {
		keys = append(keys, fmt.Sprintf("many%d", i))
		check(client.Set(&memcache.Item{Key: keys[i], Value: []byte(keys[i])}) == nil, "sets")
	}
	found, err := client.GetMulti(append(keys, "missing"))
	check(err == nil && len(found) == 100 && string(found["many7"].Value) == "many7", "a multi-get")
	large := bytes.Repeat([]byte("0123456789abcdef"), 320_000)
	check(client.Set(&memcache.Item{Key: "large", Value: large}) == nil, "a large set")
	item, err = client.Get("large")
	check(err == nil && bytes.Equal(item.Value, large), "a large get")
	check(client.Set(&memcache.Item{Key: "short", Value: []byte("x"), Expiration: 1}) == nil, "a short set")
	check(client.Set(&memcache.Item{Key: "touched", Value: []byte("x")}) == nil, "a set")
	check(client.Touch("touched", 1) == nil, "touch")
	check(client.Touch("missing", 1) == memcache.ErrCacheMiss, "touch of a missing key")
	end := time.Now().Add(20 * time.Second)
	for isThere(client, "short") || isThere(client, "touched") {
		check(time.Now().Before(end), "nothing expires")
		time.Sleep(50 * time.Millisecond)
	}
	check(client.Delete("key") == nil && client.Delete("key") == memcache.ErrCacheMiss, "delete")
}
