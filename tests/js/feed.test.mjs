import assert from "node:assert/strict";
import test from "node:test";
import { fakeClock } from "./clock.mjs";
import { Feed } from "../../flownb/notebook/static/feed.mjs";
import { COLUMNS } from "../../flownb/notebook/static/history.mjs";

function chunk(from, size, total) {
  const cols = Object.fromEntries(
    COLUMNS.map((name) => [name, Array(size).fill(name === "d" || name === "e" ? [] : "x")]),
  );
  return { from, total, cols };
}

function feed() {
  const asked = [];
  const one = new Feed((from) => asked.push(from));
  one.reset(1, 1);
  return { one, asked };
}

test("after a chunk with more behind it the next is asked for at once", () => {
  const { one, asked } = feed();
  assert.equal(one.take(chunk(0, 5, 12)), true);
  assert.deepEqual(asked, [5]);
  one.take(chunk(5, 5, 12));
  one.take(chunk(10, 2, 12));
  assert.deepEqual(asked, [5, 10]);
  one.dispose();
});

test("a gap is asked for from where the history ends, ever more patiently", (t) => {
  const clock = fakeClock(t);
  const { one, asked } = feed();
  assert.equal(one.take(chunk(3, 2, 5)), false);
  assert.deepEqual(asked, []);
  clock.pass(400);
  assert.deepEqual(asked, [0]);
  clock.pass(799);
  assert.deepEqual(asked, [0]);
  clock.pass(1);
  assert.deepEqual(asked, [0, 0]);
  one.take(chunk(0, 5, 5));
  clock.pass(60_000);
  assert.deepEqual(asked, [0, 0]);
});

test("ticks that the live state knows of and that come in time are not asked for", (t) => {
  const clock = fakeClock(t);
  const { one, asked } = feed();
  one.expect(3);
  clock.pass(100);
  one.take(chunk(0, 3, 3));
  clock.pass(60_000);
  assert.deepEqual(asked, []);
});

test("what is there already is no news", () => {
  const { one } = feed();
  assert.equal(one.take(chunk(0, 3, 3)), true);
  assert.equal(one.take(chunk(0, 3, 3)), false);
  assert.equal(one.take(chunk(3, 0, 3)), false);
  one.dispose();
});
