import assert from "node:assert/strict";
import test from "node:test";
import {
  announcement,
  clock,
  compactText,
  mostUrgent,
  pills,
  shorten,
  spoken,
  tally,
  took,
} from "../../flownb/notebook/static/captions.mjs";

const RUNNING = { status: "running", paused: false, ended: false, needs: 0, tick: 39 };

test("the pills say in words where a run is", () => {
  assert.deepEqual(pills({}), [["idle", "not started"]]);
  assert.deepEqual(pills(RUNNING), [["running", "running"]]);
  assert.deepEqual(pills({ ...RUNNING, status: "paused", paused: true }), [["paused", "paused at tick 39"]]);
  assert.deepEqual(pills({ ...RUNNING, status: "waiting", needs: 1 }), [["person", "needs you"]]);
  assert.deepEqual(pills({ ...RUNNING, status: "paused", paused: true, needs: 2 }), [
    ["paused", "paused at tick 39"],
    ["person", "needs you ×2"],
  ]);
  assert.deepEqual(pills({ ...RUNNING, status: "completed", ended: true }), [["done", "done"]]);
  assert.deepEqual(pills({ ...RUNNING, status: "timed_out", ended: true, needs: 1 }), [["failed", "timed out"]]);
  assert.deepEqual(pills({ ...RUNNING, bye: true }), [["skipped", "closed, this cell was run again"]]);
  assert.deepEqual(pills({ ...RUNNING, status: "cancelling" }), [["skipped", "stopping"]]);
});

test("every status of a run has words of its own", () => {
  for (const status of [
    "running",
    "waiting",
    "paused",
    "blocked",
    "suspended",
    "cancelling",
    "completed",
    "failed",
    "timed_out",
    "cancelled",
  ]) {
    const [[tone, words]] = pills({ ...RUNNING, status });
    assert.notEqual(tone, "idle", status);
    assert.doesNotMatch(words, /_/, status);
  }
});

test("only pause, needs you, failure and end are announced", () => {
  assert.equal(announcement({}, RUNNING, "triage"), "");
  assert.equal(announcement(RUNNING, { ...RUNNING, tick: 40 }, "triage"), "");
  assert.equal(announcement(RUNNING, { ...RUNNING, paused: true }, "triage"), "triage: paused at tick 39.");
  assert.equal(
    announcement(RUNNING, { ...RUNNING, needs: 1, questions: [{ step: "review", title: "Drop?" }] }, "triage"),
    "triage needs you: Drop?.",
  );
  const error = { step: "load", type: "ValueError", text: "no" };
  assert.equal(
    announcement(RUNNING, { ...RUNNING, status: "failed", ended: true, error }, "triage"),
    "triage: failed. load ValueError.",
  );
  assert.equal(announcement({ ...RUNNING, ended: true }, { ...RUNNING, ended: true }, "triage"), "");
});

test("the clock counts tenths, from an hour on seconds", () => {
  assert.equal(clock(0), "00:00.0");
  assert.equal(clock(4.2), "00:04.2");
  assert.equal(clock(59.99), "00:59.9");
  assert.equal(clock(61.5), "01:01.5");
  assert.equal(clock(3723), "1:02:03");
  assert.equal(clock(NaN), "00:00.0");
});

test("durations are short", () => {
  assert.deepEqual([0, 0.4, 52, 1200, 75_000].map(took), ["", "<1 ms", "52 ms", "1.2 s", "1 m 15 s"]);
});

test("a long or many-lined text is shortened by characters, not by halves of an emoji", () => {
  assert.equal(shorten("a\n  b", 10), "a b");
  assert.equal(shorten("🎉🎉🎉🎉", 3), "🎉🎉…");
});

test("a node says its name, its state and its items aloud", () => {
  assert.equal(
    spoken("score", ["running", "3 of 8", [3, 2, 2, 1]]),
    "score, 3 of 8, running, 3 done, 2 running, 2 queued, 1 failed",
  );
  assert.equal(spoken("load", ["done", "done ×2", null]), "load, done ×2");
  assert.equal(spoken("load", ["idle", "", null]), "load, not reached");
});

test("start and stop are no steps", () => {
  const nodes = ["start", "step", "fan", "stop"].map((shape) => ({ shape }));
  const { total, by } = tally(
    [
      ["done", "", null],
      ["done", "", null],
      ["running", "", null],
    ],
    nodes,
  );
  assert.equal(total, 2);
  assert.deepEqual([by.done, by.running, by.idle], [1, 1, 0]);
  assert.equal(compactText({ tick: 31, note: "score 3/8" }, { total, by }), "1/2 steps · 31 ticks · score 3/8");
  assert.equal(compactText({ tick: 1 }, { total, by }), "1/2 steps · 1 tick");
});

test("the most urgent node is kept in sight", () => {
  assert.equal(
    mostUrgent([
      ["done", "", null],
      ["running", "", null],
      ["person", "", null],
      ["failed", "", null],
    ]),
    3,
  );
  assert.equal(
    mostUrgent([
      ["done", "", null],
      ["idle", "", null],
    ]),
    -1,
  );
});
