// memjs: the binary protocol, and SASL.
const assert = require('assert');
const memjs = require('memjs');
const [host, port, loginPort] = process.argv.slice(2);
const pause = () => new Promise(done => { setTimeout(done, 50); });

async function exercise(client) {
  const value = async key => (await client.get(key)).value;
  await client.flush();
  assert.strictEqual(await value('absent'), null);
  assert.ok(await client.set('key', 'value', {}));
  assert.strictEqual(String(await value('key')), 'value');
  assert.strictEqual(await client.add('key', 'x', {}), false);
  assert.ok(await client.add('added', '1', {}));
  assert.strictEqual(await client.replace('missing', 'x', {}), false);
  assert.ok(await client.replace('added', '2', {}));
  // Not prepend: memjs 1.3.2 sends the opcode of append for it.
  assert.ok(await client.append('key', '>'));
  assert.strictEqual(String(await value('key')), 'value>');
  assert.strictEqual((await client.increment('counter', 5, {initial: 10})).value, 10);
  assert.strictEqual((await client.increment('counter', 5, {})).value, 15);
  assert.strictEqual((await client.decrement('counter', 3, {})).value, 12);
  // It has no retrieval of several keys, but pipelines those of one.
  const numbers = [...Array(100).keys()];
  await Promise.all(numbers.map(i => client.set(`many${i}`, `${i}`, {})));
  const found = await Promise.all([...numbers, 100].map(i => value(`many${i}`)));
  assert.deepStrictEqual(found.map(String), [...numbers.map(String), 'null']);
  const large = Buffer.alloc(5_000_000, '0123456789abcdef');
  assert.ok(await client.set('large', large, {}));
  assert.ok(large.equals(await value('large')));
  assert.ok(await client.set('short', 'x', {expires: 1}) && await client.set('touched', 'x', {}));
  assert.ok(await client.touch('touched', 1));
  const end = Date.now() + 20_000;
  while (await value('short') || await value('touched')) {
    assert.ok(Date.now() < end, 'nothing expires');
    await pause();
  }
  assert.ok(await client.delete('key'));
  assert.strictEqual(await client.delete('key'), false);
  client.close();
}

(async () => {
  const options = {timeout: 20, retries: 1};
  await exercise(memjs.Client.create(`${host}:${port}`, options));
  if (loginPort === '-') return;
  const connect = password => memjs.Client.create(`${host}:${loginPort}`,
                                                  {...options, username: 'client', password});
  await exercise(connect('secret'));
  const stranger = connect('wrong');
  await assert.rejects(stranger.get('large'));
  stranger.close();
})().catch(error => { console.error(error); process.exit(1); });
