import assert from "node:assert/strict";
import test from "node:test";
import {
  aimedAt,
  countdown,
  moved,
  nextOpen,
  ofOneKind,
  progress,
  questions,
  span,
  wanted,
} from "../../flownb/notebook/static/reviewrows.mjs";

const row = (id, more = {}) => ({
  id,
  run: id,
  workflow: "flow",
  step: "check",
  text: `Check(no=${id})`,
  since: 1,
  due: null,
  default: "",
  yes: "Approve",
  no: "Reject",
  why: "",
  group: "g",
  state: "open",
  said: "",
  ...more,
});
const rows = [row("a"), row("b", { state: "done" }), row("c", { group: "h", why: "no choice" }), row("d")];

test("a row passes the filter if it has all words, a column's word in that column", () => {
  const ids = (text) => wanted(rows, text).map((r) => r.id);
  assert.deepEqual(ids(""), ["a", "b", "c", "d"]);
  assert.deepEqual(ids("FLOW no=d"), ["d"]);
  assert.deepEqual(ids("run:c"), ["c"]);
  assert.deepEqual(ids("step:check run:a"), ["a"]);
  assert.deepEqual(ids("step:flow"), []);
});

test("the next open question is found from the top again, and is never the same", () => {
  assert.equal(nextOpen(rows, "a"), "c");
  assert.equal(nextOpen(rows, "d"), "a");
  assert.equal(nextOpen(rows, "gone"), "a");
  assert.equal(nextOpen([rows[0], rows[1]], "a"), "");
  assert.equal(nextOpen([], "a"), "");
});

test("the cursor stops at both ends", () => {
  assert.equal(moved(rows, "a", 1), "b");
  assert.equal(moved(rows, "a", -1), "a");
  assert.equal(moved(rows, "b", 1e6), "d");
  assert.equal(moved(rows, "", 1), "a");
  assert.equal(moved([], "a", 1), "");
});

test("a press is for what is selected, else for the row of the cursor, and says why not", () => {
  const ids = (aimed) => aimed.rows.map((r) => r.id);
  assert.deepEqual(ids(aimedAt(rows, new Set(), "a")), ["a"]);
  assert.deepEqual(ids(aimedAt(rows, new Set(["a", "b", "d"]), "c")), ["a", "d"]);
  assert.equal(aimedAt(rows, new Set(), "b").why, "No open question is selected.");
  assert.equal(aimedAt(rows, new Set(), "c").why, "no choice");
  assert.match(aimedAt(rows, new Set(["a", "c"]), "a").why, /not all answered alike/);
});

test("all of one kind are those like the cursor's that are open", () => {
  assert.deepEqual(ofOneKind(rows, "d"), ["a", "d"]);
  assert.deepEqual(ofOneKind(rows, "c"), ["c"]);
  assert.deepEqual(ofOneKind(rows, "b"), ["a", "d"]);
  assert.deepEqual(ofOneKind([], ""), []);
});

test("counts and times as people say them", () => {
  assert.equal(progress({ done: 7, total: 12 }), "7 of 12 done");
  assert.equal(progress({}), "");
  assert.deepEqual([questions(1), questions(12)], ["1 question", "12 questions"]);
  assert.deepEqual([-3, 59, 61, 5399, 7200, 200000].map(span), ["0 s", "59 s", "1 min", "90 min", "2 h", "2 days"]);
  assert.equal(countdown(row("a"), 0), "");
  assert.equal(countdown(row("a", { due: 152 }), 100), "closes in 0:52");
  assert.equal(countdown(row("a", { due: 152, default: "Reject" }), 100.4), "Reject in 0:52");
  assert.equal(countdown(row("a", { due: 152, default: "Verdict(grams=3)" }), 100), "0:52, then Verdict(grams=3)");
  assert.equal(countdown(row("a", { due: 100 }), 200), "closes in 0:00");
  assert.equal(countdown(row("a", { due: 90000 }), 0), "closes in 25 h");
});
