import assert from "node:assert/strict";
import test from "node:test";
import { fakeClock } from "./clock.mjs";
import { Player, SPEEDS, beat, speedWords } from "../../flownb/notebook/static/play.mjs";

/** A run of 4 ticks that is looked at, with what the player did to it. */
function shown(seq, last = 4) {
  const at = { seq, first: 0, last };
  const log = [];
  const player = new Player({
    at: () => at,
    go: (to) => log.push((at.seq = to)),
    changed: () => log.push(player.isPlaying ? `plays ${player.speed}` : "stands"),
  });
  return { at, log, player };
}

test("it goes from tick to tick, twice a second, and stands still at the newest one", (t) => {
  const clock = fakeClock(t);
  const { log, player } = shown(1);
  player.play();
  clock.pass(499);
  assert.deepEqual(log, ["plays 1"]);
  clock.pass(1);
  assert.deepEqual(log, ["plays 1", 2]);
  clock.pass(60_000);
  assert.deepEqual(log, ["plays 1", 2, 3, 4, "stands"]);
});

test("from the newest tick it plays all over again", (t) => {
  const clock = fakeClock(t);
  const { log, player } = shown(4);
  player.play();
  clock.pass(500);
  player.dispose();
  assert.deepEqual(log, [0, "plays 1", 1]);
});

test("it goes on from where the person went meanwhile", (t) => {
  const clock = fakeClock(t);
  const { at, log, player } = shown(0, 100);
  player.play();
  clock.pass(500);
  at.seq = 50;
  clock.pass(500);
  player.pause();
  clock.pass(60_000);
  assert.deepEqual(log, ["plays 1", 1, 51, "stands"]);
});

test("ticks that come meanwhile are played too", (t) => {
  const clock = fakeClock(t);
  const { at, log, player } = shown(2);
  player.play();
  clock.pass(500);
  at.last = 5;
  clock.pass(60_000);
  assert.deepEqual(log, ["plays 1", 3, 4, 5, "stands"]);
});

test("another speed holds at once, and an unknown one changes nothing", (t) => {
  const clock = fakeClock(t);
  const { log, player } = shown(0, 100);
  player.play();
  player.setSpeed(4);
  player.setSpeed(3);
  clock.pass(125);
  player.shift(1);
  clock.pass(50);
  player.dispose();
  assert.deepEqual(log, ["plays 1", "plays 4", 1, "plays 10", 2]);
});

test("speeds end at the slowest and the fastest", () => {
  const { player } = shown(0);
  for (let i = 0; i < 20; i++) player.shift(-1);
  assert.equal(player.speed, SPEEDS[0]);
  for (let i = 0; i < 20; i++) player.shift(1);
  assert.equal(player.speed, SPEEDS.at(-1));
});

test("fast play draws at most 20 pictures a second and keeps its pace", () => {
  for (const speed of SPEEDS) {
    const { ms, ticks } = beat(speed);
    assert.ok(ms >= 50 - 1e-9, `${speed}: ${ms} ms`);
    assert.ok(Math.abs((1000 * ticks) / ms - 2 * speed) < 1e-9);
  }
  assert.deepEqual(beat(50), { ms: 50, ticks: 5 });
});

test("toggling plays and stops; a run without ticks plays nothing", (t) => {
  const clock = fakeClock(t);
  const { log, player } = shown(1);
  player.toggle();
  player.toggle();
  clock.pass(60_000);
  assert.deepEqual(log, ["plays 1", "stands"]);
  const none = shown(0, 0);
  none.player.play();
  assert.deepEqual(none.log, []);
});

test("a half has a sign of its own", () => {
  assert.deepEqual([0.5, 1, 10].map(speedWords), ["×½", "×1", "×10"]);
});
