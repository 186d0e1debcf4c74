import assert from "node:assert/strict";
import test from "node:test";
import { fakeClock } from "./clock.mjs";
import { Details, Outbox, PATIENCE_MS } from "../../flownb/notebook/static/messages.mjs";

function outbox() {
  const sent = [];
  const one = new Outbox((m) => sent.push(m), { view: "v1", run: () => "7f3a" });
  return { one, sent };
}

test("a message carries its kind, run, view and a number that counts", () => {
  const { one, sent } = outbox();
  one.send("hello", { have: 0 });
  one.intend("step", { n: 1 }, 0);
  assert.deepEqual(sent, [
    { kind: "hello", run: "7f3a", view: "v1", id: 1, have: 0 },
    { kind: "step", run: "7f3a", view: "v1", id: 2, n: 1 },
  ]);
});

test("an intent without an answer is said to wait, and no longer once it is answered", () => {
  const { one } = outbox();
  const id = one.intend("step", { n: 1 }, 1000);
  assert.equal(one.waiting(1000 + PATIENCE_MS - 1), "");
  assert.match(one.waiting(1000 + PATIENCE_MS), /“Step” waits for the kernel/);
  one.settle(id);
  assert.equal(one.waiting(99_999), "");
});

test("what could not be sent is not waited for", () => {
  const one = new Outbox((m) => one.lost(m.id), { view: "v1", run: () => "7f3a" });
  one.intend("pause", {}, 0);
  assert.equal(one.waiting(99_999), "");
});

function details(t) {
  const clock = fakeClock(t);
  const asked = [];
  let changes = 0;
  const one = new Details({ ask: (seq) => asked.push(seq), changed: () => (changes += 1) });
  return { clock, one, asked, changes: () => changes };
}

test("while the person moves nothing is asked, then the last tick once", (t) => {
  const { clock, one, asked } = details(t);
  for (const seq of [1, 2, 3]) one.want(seq, 10, 60);
  one.want(3, 10, 60);
  clock.pass(60);
  one.want(3, 10, 60);
  clock.pass(1000);
  assert.deepEqual(asked, [3]);
});

test("half a second without an answer is late, until the answer comes", (t) => {
  const { clock, one, changes } = details(t);
  one.want(3, 10, 60);
  clock.pass(60 + 499);
  assert.equal(one.isLate, false);
  clock.pass(1);
  assert.equal(one.isLate, true);
  assert.equal(changes(), 1);
  one.take({ seq: 3, title: "Rows" }, 10);
  assert.equal(one.isLate, false);
  assert.deepEqual(one.get(3), { seq: 3, title: "Rows" });
});

test("a detail is kept, and asked for again only when the run went on", (t) => {
  const { clock, one, asked } = details(t);
  one.take({ seq: 3 }, 10);
  one.want(3, 10, 60);
  clock.pass(100);
  assert.deepEqual(asked, []);
  one.want(4, 11, 60);
  one.want(3, 11, 60);
  clock.pass(100);
  assert.deepEqual(asked, [3]);
  assert.deepEqual(one.get(3), { seq: 3 });
});

test("before the first tick there is nothing to ask", (t) => {
  const { clock, one, asked } = details(t);
  one.want(0, 10, 60);
  clock.pass(100);
  assert.deepEqual(asked, []);
});
