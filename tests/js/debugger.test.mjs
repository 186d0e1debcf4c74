import assert from "node:assert/strict";
import test from "node:test";
import { VERBS, allowed } from "../../flownb/notebook/static/controls.mjs";
import { Outbox } from "../../flownb/notebook/static/messages.mjs";
import { inShort } from "../../flownb/notebook/static/narration.mjs";
import { dueIn, queued } from "../../flownb/notebook/static/queue.mjs";
import { goal, places } from "../../flownb/notebook/static/runto.mjs";
import { density } from "../../flownb/notebook/static/slider.mjs";
import { isSame, placed, spotOf, turnsOn } from "../../flownb/notebook/static/stops.mjs";

const on = (live) => VERBS.filter((verb) => allowed(live)[verb]);

test("a verb is offered exactly when it makes sense", () => {
  assert.deepEqual(on({}), []);
  assert.deepEqual(on({ status: "running", bye: true }), []);
  assert.deepEqual(on({ status: "cancelling", tick: 3 }), []);
  assert.deepEqual(on({ status: "running" }), ["pause", "step", "over", "out", "runTo", "stop"]);
  assert.deepEqual(on({ status: "paused", paused: true, tick: 3 }), [
    ...["cont", "step", "over", "out", "runTo", "stop", "fork", "replay"],
  ]);
  assert.deepEqual(on({ status: "completed", ended: true, tick: 9 }), ["fork", "replay"]);
  assert.deepEqual(on({ status: "failed", ended: true, tick: 9, retry: { step: "" } }), ["fork", "retry", "replay"]);
  assert.deepEqual(on({ status: "suspended", ended: true, tick: 9 }), ["stop", "fork", "replay"]);
  assert.ok(allowed({ status: "running", children: 1 }).into);
});

test("the form of Run to says where, or what is missing", () => {
  const form = { kind: "step", step: "score", event: "m:Scored", tick: "", when: " " };
  assert.deepEqual(goal(form), { step: "score" });
  assert.deepEqual(goal({ ...form, kind: "event" }), { event: "m:Scored" });
  assert.deepEqual(goal({ ...form, kind: "tick", tick: "42" }), { tick: 42 });
  assert.match(goal({ ...form, kind: "tick", tick: "0" }), /from 1 on/);
  assert.match(goal({ ...form, kind: "tick", tick: "1.5" }), /from 1 on/);
  assert.match(goal({ ...form, kind: "when" }), /expression/);
  assert.deepEqual(goal({ ...form, kind: "when", when: " event.n > 3 " }), { when: "event.n > 3" });
  assert.deepEqual(goal({ ...form, kind: "person" }), { request: true });
});

const graph = {
  nodes: [
    { label: "start", shape: "start" },
    { label: "score", shape: "fan" },
    { label: "stop", shape: "step" },
    { label: "stop", shape: "stop" },
  ],
  edges: [
    { label: "Doc", key: "m:Doc", source: 0, target: 1 },
    { label: "Scored", key: "m:Flow.Scored", source: 1, target: 2 },
    { label: "Scored", key: "m:Flow.Scored", source: 1, target: 3 },
  ],
};

test("steps and event types are offered once each, start and stop are none", () => {
  assert.deepEqual(places(graph), {
    steps: ["score", "stop"],
    events: [
      ["m:Doc", "Doc"],
      ["m:Flow.Scored", "Scored"],
    ],
  });
});

test("breakpoints stand at their step, at every edge of their event and at the tick they were set at", () => {
  const stop = {
    n: 1,
    what: "",
    on: true,
    half: false,
    hits: 0,
    failed: "",
    step: "",
    narrow: false,
    event: "",
    seq: 0,
  };
  const found = placed(
    [
      { ...stop, step: "stop" },
      { ...stop, n: 2, step: "score", half: true },
      { ...stop, n: 3, step: "score", on: false },
      { ...stop, n: 4, event: "Scored", on: false },
      { ...stop, n: 5, seq: 7, step: "score", narrow: true },
    ],
    graph,
  );
  assert.deepEqual(
    [...found.nodes],
    [
      [2, "on"],
      [1, "half"],
    ],
  );
  assert.deepEqual(
    [...found.edges],
    [
      [1, "off"],
      [2, "off"],
    ],
  );
  assert.deepEqual([...found.ticks], [[7, "on"]]);
  assert.deepEqual([undefined, "off", "half", "on"].map(turnsOn), [true, true, false, false]);
});

test("an event type is known by its short name and by its whole one", () => {
  for (const name of ["m:Flow.Scored", "Flow.Scored", "Scored"]) assert.ok(isSame(name, "m:Flow.Scored"), name);
  assert.ok(!isSame("Score", "m:Flow.Scored"));
});

test("the form of a breakpoint is an intent's fields", () => {
  const form = { step: "score", event: "m:Doc", state: " docs ", when: "" };
  assert.deepEqual(spotOf("step", form), { step: "score" });
  assert.deepEqual(spotOf("error", form), { step: "score", error: true });
  assert.deepEqual(spotOf("event", { ...form, when: "event.n" }), { event: "m:Doc", when: "event.n" });
  assert.deepEqual(spotOf("state", form), { state: "docs" });
});

test("the strip marks a breakpoint that stood, below a failure and above a question", () => {
  const kinds = ["paused", "paused", "asked", "failed"];
  const events = ["person", "breakpoint 1: before step work", "Review", ""];
  assert.deepEqual(density(kinds, events), [
    { bin: 200, cls: "stop" },
    { bin: 300, cls: "person" },
    { bin: 399, cls: "failed" },
  ]);
});

test("whoever asked hears the answer, once, and that nothing could be sent", () => {
  const told = [];
  const one = new Outbox(() => {}, { view: "v1", run: () => "7f3a" });
  const id = one.intend("fork", { at: 3 }, 0, (m) => told.push(m.kind) > 0);
  assert.equal(one.settle(id, { kind: "done" }), true);
  assert.equal(one.settle(id, { kind: "done" }), false);
  const dead = new Outbox((m) => dead.lost(m.id), { view: "v1", run: () => "7f3a" });
  dead.intend("edit", {}, 0, (m) => told.push(m.text) > 0);
  assert.deepEqual(told, ["done", "The kernel is gone: nothing can be sent to the run."]);
});

test("a tick is told in short before its sentence came", () => {
  assert.equal(inShort({ kind: "finished", step: "score", event: "Scored" }), "score finished Scored");
  assert.equal(inShort({ kind: "paused", step: "", event: "" }), "run paused");
  assert.equal(inShort({ kind: "", step: "", event: "" }), "");
});

test("a timer says when it is due; the tab counts what waits", () => {
  assert.deepEqual([-1, 0, 0.25, 90].map(dueIn), ["due", "due", "in 250 ms", "in 1 m 30 s"]);
  assert.equal(queued({ past: false, waits: 4, queue: [["running", "a"]] }), 5);
  assert.equal(queued({ past: true, waits: 4, queue: [["running", "a"]] }), 1);
  assert.equal(queued({ past: true, waits: 4, queue: null }), 0);
});
