import assert from "node:assert/strict";
import test from "node:test";
import { COLUMNS } from "../../flownb/notebook/static/history.mjs";
import { Recording } from "../../flownb/notebook/static/page_data.mjs";
import { tickOf } from "../../flownb/notebook/static/page_view.mjs";

/** A recording of two nodes and an edge: ticks `first + 1` to `total`, in each of which node 1 is in the next state. */
function recorded(total, first = 0, more = {}) {
  const n = total - first;
  const cols = Object.fromEntries(COLUMNS.map((name) => [name, Array(n).fill("x")]));
  cols.t = Array.from({ length: n }, (_, i) => (first + i) / 10);
  cols.d = Array.from({ length: n }, (_, i) => [[1, (first + i + 1) % 9, `${first + i + 1}`, null]]);
  cols.e = Array(n).fill([0]);
  return {
    graph: { nodes: [{ label: "a" }, { label: "b" }], edges: [{}] },
    total,
    first,
    start: { nodes: [["done", "", null], ["running", "", [1, 2, 0, 0]]], edges: [first] },
    cols,
    told: Array.from({ length: n }, (_, i) => `sentence ${first + i + 1}`),
    status: [[1, "running", 0, false]],
    lines: [["queued", "b · X"], ["running", "b · Y"]],
    queues: Array(n).fill([1, 0]),
    details: {},
    logs: [],
    error: null,
    ...more,
  };
}

test("the state at any tick is that of its deltas", () => {
  const one = new Recording(recorded(5));
  assert.deepEqual([one.first, one.last], [0, 5]);
  assert.deepEqual(one.history.at(3), {
    nodes: [
      ["done", "", null],
      ["person", "3", null],
    ],
    edges: [3],
  });
});

test("where the first ticks are left out, the picture goes on from the one that is given", () => {
  const one = new Recording(recorded(1000, 300));
  assert.deepEqual([one.first, one.last, one.has(300), one.has(301)], [300, 1000, false, true]);
  assert.deepEqual(one.history.at(300).nodes[1], ["running", "", [1, 2, 0, 0]]);
  assert.deepEqual(one.history.at(300).edges, [300]);
  for (const seq of [301, 555, 556, 557, 1000]) {
    assert.equal(one.history.at(seq).nodes[1][1], String(seq));
    assert.deepEqual(one.history.at(seq).edges, [seq]);
    assert.equal(one.told(seq), `sentence ${seq}`);
  }
  assert.equal(one.told(300), "Earlier ticks are not in this page.");
  assert.equal(new Recording(recorded(5)).told(0), "Before the first tick.");
});

test("an edge that a step drew later was not taken before", () => {
  const data = recorded(10, 5);
  data.graph.edges.push({});
  data.cols.e[4] = [0, 1];
  const one = new Recording(data);
  assert.deepEqual(one.history.at(9).edges, [9, 0]);
  assert.deepEqual(one.history.at(10).edges, [10, 1]);
});

test("the status is the last one at or before the tick", () => {
  const status = [
    [1, "running", 0, false],
    [4, "paused", 1, true],
    [6, "failed", 0, false],
  ];
  const error = { step: "b", type: "ValueError", text: "no" };
  const one = new Recording(recorded(6, 0, { status, error }));
  const at = (seq) => {
    const live = one.live(seq);
    return [live.status, live.needs, live.paused, live.ended, live.error];
  };
  assert.deepEqual(at(0), ["", 0, false, false, null]);
  assert.deepEqual(at(3), ["running", 0, false, false, null]);
  assert.deepEqual(at(5), ["paused", 1, true, false, null]);
  assert.deepEqual(at(6), ["failed", 0, false, true, error]);
});

test("details have their logs, and what is left out is null", () => {
  const details = { 2: { title: "X", log: 1 }, 3: { title: "Y", log: -1 } };
  const one = new Recording(recorded(4, 0, { details, logs: ["first", "second"] }));
  assert.deepEqual([one.detail(2).log, one.detail(3).log, one.detail(4)], ["second", "", null]);
});

test("queues are lists of lines that many ticks share", () => {
  const one = new Recording(recorded(2));
  assert.deepEqual(one.queue(2), [
    ["running", "b · Y"],
    ["queued", "b · X"],
  ]);
  assert.deepEqual(one.queue(0), []);
});

test("an empty page is an empty run", () => {
  const one = new Recording({ cols: Object.fromEntries(COLUMNS.map((name) => [name, []])), status: [], queues: [], told: [] });
  assert.deepEqual([one.last, one.live(0).status, one.seconds(0)], [0, "", 0]);
});

test("an address may name a tick", () => {
  assert.deepEqual(["#12", "#tick=3", "", "#top", "#-1", "#1x"].map(tickOf), [12, 3, -1, -1, -1, -1]);
});
