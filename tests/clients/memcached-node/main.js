// node-memcached: the text protocol.
const assert = require('assert');
const util = require('util');
const Memcached = require('memcached');
const [host, port] = process.argv.slice(2);
const client = new Memcached(`${host}:${port}`, {timeout: 20000, maxValue: 8 << 20});
const call = (name, ...words) => util.promisify(client[name]).apply(client, words);
const pause = () => new Promise(done => { setTimeout(done, 50); });

async function exercise() {
  await call('flush');
  assert.strictEqual(await call('get', 'absent'), undefined);
  assert.ok(await call('set', 'key', 'value', 0));
  assert.strictEqual(await call('get', 'key'), 'value');
  await assert.rejects(call('add', 'key', 'x', 0));
  assert.ok(await call('add', 'added', '1', 0));
  await assert.rejects(call('replace', 'missing', 'x', 0));
  assert.ok(await call('replace', 'added', '2', 0));
  assert.ok(await call('append', 'key', '>'));
  assert.ok(await call('prepend', 'key', '<'));
  const {key, cas} = await call('gets', 'key');
  assert.strictEqual(key, '<value>');
  assert.ok(await call('cas', 'key', 'changed', cas, 0));
  assert.strictEqual(await call('cas', 'key', 'late', cas, 0), false);
  assert.ok(await call('set', 'counter', 10, 0));
  assert.strictEqual(await call('incr', 'counter', 5), 15);
  assert.strictEqual(await call('decr', 'counter', 3), 12);
  const keys = [...Array(100).keys()].map(i => `many${i}`);
  await Promise.all(keys.map(name => call('set', name, name, 0)));
  const found = await call('getMulti', [...keys, 'missing']);
  assert.deepStrictEqual(found, Object.fromEntries(keys.map(name => [name, name])));
  const large = Buffer.alloc(5_000_000, '0123456789abcdef');
  assert.ok(await call('set', 'large', large, 0));
  assert.ok(large.equals(await call('get', 'large')));
  assert.ok(await call('set', 'short', 'x', 1) && await call('set', 'touched', 'x', 0));
  assert.ok(await call('touch', 'touched', 1));
  const end = Date.now() + 20_000;
  while (await call('get', 'short') || await call('get', 'touched')) {
    assert.ok(Date.now() < end, 'nothing expires');
    await pause();
  }
  assert.ok(await call('del', 'key'));
  assert.strictEqual(await call('del', 'key'), false);
  const [statistics] = await call('stats');
  assert.ok('curr_items' in statistics);
  client.end();
}

exercise().catch(error => { console.error(error); process.exit(1); });
