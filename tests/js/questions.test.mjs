import assert from "node:assert/strict";
import test from "node:test";
import { left } from "../../flownb/notebook/static/captions.mjs";
import { countdown, isSoon, toDraw } from "../../flownb/notebook/static/questions.mjs";

test("time that is left is rounded up, so that 0:00 is the end", () => {
  assert.deepEqual([52, 51.2, 0.1, 0, -3, 60, 3599.5, 3600, 90061].map(left), [
    "0:52",
    "0:52",
    "0:01",
    "0:00",
    "0:00",
    "1:00",
    "1:00:00",
    "1:00:00",
    "25:01:01",
  ]);
  assert.equal(left(NaN), "0:00");
});

test("a countdown says what is taken and when, a held one that nothing is", () => {
  const q = { due: 1100, words: "default reject", held: false };
  assert.equal(countdown(q, 1048), "default reject in 0:52");
  assert.equal(countdown({ ...q, due: null }, 1048), "");
  assert.equal(countdown({ ...q, due: null, held: true }, 1048), "held: no deadline");
  assert.equal(countdown({ due: undefined }, 0), "");
});

test("the last ten seconds are marked", () => {
  const q = { due: 1100 };
  assert.deepEqual([1089.9, 1090, 1099, 1200].map((now) => isSoon(q, now)), [false, true, true, true]);
  assert.equal(isSoon({ due: null }, 0), false);
});

test("a page draws rows and lines, and leaves open forms to Python", () => {
  const questions = [
    { id: "r:1", kind: "bool", open: true },
    { id: "r:2", kind: "form", open: true },
    { id: "r:3", kind: "bool", open: false },
    { id: "r:4", kind: "form", open: false },
  ];
  assert.deepEqual(
    toDraw({ questions }).map((q) => q.id),
    ["r:1", "r:3", "r:4"],
  );
  assert.deepEqual(toDraw({ questions, bye: true }), []);
});
