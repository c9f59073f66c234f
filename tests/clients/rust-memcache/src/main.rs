//! The memcache crate: the text protocol and the binary one, and logging in by each.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use memcache::{Client, MemcacheError};

type Found = HashMap<String, (Vec<u8>, u32, Option<u64>)>;

fn exercise(client: &Client, is_binary: bool) -> Result<(), MemcacheError> {
    let text = |key: &str| client.get::<String>(key);
    client.flush()?;
    assert_eq!(text("absent")?, None);
    client.set("key", "value", 0)?;
    assert_eq!(text("key")?.as_deref(), Some("value"));
    // Its text side takes NOT_STORED for a success.
    assert_eq!(client.add("key", "x", 0).is_err(), is_binary);
    assert_eq!(client.replace("missing", "x", 0).is_err(), is_binary);
    client.add("added", "1", 0)?;
    client.replace("added", "2", 0)?;
    assert_eq!(text("missing")?, None);
    client.append("key", ">")?;
    client.prepend("key", "<")?;
    let found: Found = client.gets(&["key"])?;
    let (value, _, cas) = &found["key"];
    assert_eq!(value, b"<value>");
    assert!(client.cas("key", "changed", 0, cas.unwrap())?);
    assert!(!client.cas("key", "late", 0, cas.unwrap())?);
    client.set("counter", 10, 0)?;
    assert_eq!(client.increment("counter", 5)?, 15);
    assert_eq!(client.decrement("counter", 3)?, 12);
    let keys: Vec<String> = (0..100).map(|i| format!("many{i}")).collect();
    for key in &keys {
        client.set(key, key.as_str(), 0)?;
    }
    let words: Vec<&str> = keys.iter().map(String::as_str).chain(["missing"]).collect();
    let many: HashMap<String, String> = client.gets(&words)?;
    assert_eq!(many.len(), 100);
    assert!(many.iter().all(|(key, value)| key == value));
    let large = "0123456789abcdef".repeat(320_000);
    client.set("large", large.as_str(), 0)?;
    assert_eq!(text("large")?.as_deref(), Some(large.as_str()));
    client.set("short", "x", 1)?;
    client.set("touched", "x", 0)?;
    assert!(client.touch("touched", 1)?);
    assert!(!client.touch("missing", 1)?);
    let start = Instant::now();
    while text("short")?.is_some() || text("touched")?.is_some() {
        assert!(start.elapsed() < Duration::from_secs(20), "nothing expires");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(client.delete("key")?);
    assert!(!client.delete("key")?);
    client.version()?;
    // Its text side takes the first statistic for the last line.
    if is_binary {
        assert!(client.stats()?[0].1.contains_key("curr_items"));
    }
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (host, port, login_port) = (&words[1], &words[2], &words[3]);
    for protocol in ["ascii", "binary"] {
        let mut servers = vec![format!("{host}:{port}")];
        if login_port != "-" {
            servers.push(format!("client:secret@{host}:{login_port}"));
        }
        for server in servers {
            let url = format!("memcache://{server}?protocol={protocol}");
            exercise(&memcache::connect(url).unwrap(), protocol == "binary")
                .unwrap_or_else(|error| panic!("{server}, {protocol}: {error}"));
        }
    }
}
