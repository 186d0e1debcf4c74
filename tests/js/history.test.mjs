import assert from "node:assert/strict";
import test from "node:test";
import { COLUMNS, History, KEPT } from "../../flownb/notebook/static/history.mjs";

/** Ticks `from` to `to`: tick i moves node i % 3 to state i % 9 and takes edge i % 2. */
function columns(from, to) {
  const cols = Object.fromEntries(COLUMNS.map((name) => [name, []]));
  for (let i = from; i < to; i++) {
    const row = {
      kind: "event",
      step: `s${i}`,
      event: "E",
      t: i / 10,
      ms: 0,
      keys: "",
      d: [[i % 3, i % 9, `sub ${i}`, i % 5 ? null : [i, 1, 2, 3]]],
      e: [i % 2],
    };
    for (const name of COLUMNS) cols[name].push(row[name]);
  }
  return cols;
}

/** The same by folding from the first tick. */
function folded(seq) {
  const nodes = [0, 1, 2].map(() => ["idle", "", null]);
  const edges = [0, 0];
  const states = ["idle", "queued", "running", "person", "waiting", "done", "failed", "retrying", "skipped"];
  for (let i = 0; i < seq; i++) {
    nodes[i % 3] = [states[i % 9], `sub ${i}`, i % 5 ? null : [i, 1, 2, 3]];
    edges[i % 2] += 1;
  }
  return { nodes, edges };
}

test("the picture at any tick is the fold of the ticks before it", () => {
  const history = new History(3, 2);
  history.take(0, columns(0, 1000));
  for (const seq of [0, 1, 2, 255, 256, 257, 511, 512, 513, 999, 1000])
    assert.deepEqual(history.at(seq), folded(seq), `at ${seq}`);
});

test("a picture that was given is not changed by the next tick", () => {
  const history = new History(3, 2);
  history.take(0, columns(0, 10));
  const before = history.at(10);
  history.take(10, columns(10, 20));
  assert.deepEqual(before, folded(10));
});

test("chunks may overlap, repeat or leave a gap", () => {
  const history = new History(3, 2);
  assert.equal(history.take(0, columns(0, 10)), "took");
  assert.equal(history.take(5, columns(5, 15)), "took");
  assert.equal(history.take(0, columns(0, 10)), "old");
  assert.equal(history.take(20, columns(20, 25)), "gap");
  assert.equal(history.length, 15);
  assert.deepEqual(history.at(15), folded(15));
  assert.deepEqual(history.cols.step.slice(9, 12), ["s9", "s10", "s11"]);
});

test("a tick's values are read by its seq", () => {
  const history = new History(3, 2);
  history.take(0, columns(0, 10));
  assert.equal(history.get("step", 1), "s0");
  assert.equal(history.get("step", 10), "s9");
  assert.equal(history.get("step", 0), "");
  assert.equal(history.get("step", 11), "");
});

test("of a long run the newest ticks are kept, and their pictures stay right", () => {
  const history = new History(3, 2);
  const total = KEPT + 5000;
  for (let i = 0; i < total; i += 2500) history.take(i, columns(i, i + 2500));
  assert.equal(history.length, total);
  assert.ok(history.first > 0 && history.first % 256 === 0);
  assert.ok(history.cols.kind.length >= KEPT);
  for (const seq of [history.first, history.first + 1, history.first + 300, total - 1, total]) {
    assert.deepEqual(history.at(seq), folded(seq), `at ${seq}`);
  }
  assert.equal(history.get("step", total), `s${total - 1}`);
  assert.equal(history.get("step", 1), "");
});

test("a delta for a node the graph does not have is left out", () => {
  const history = new History(1, 0);
  history.take(0, columns(0, 3));
  assert.deepEqual(history.at(3), { nodes: [["idle", "sub 0", [0, 1, 2, 3]]], edges: [] });
});
