import assert from "node:assert/strict";
import test from "node:test";
import { clamp } from "../../flownb/notebook/static/common.mjs";
import { barCells } from "../../flownb/notebook/static/cells.mjs";
import { fitZoom } from "../../flownb/notebook/static/graph.mjs";
import { History } from "../../flownb/notebook/static/history.mjs";
import { isForNotebook, isTyping, keyName, panelKeys } from "../../flownb/notebook/static/keys.mjs";
import { twinRule } from "../../flownb/notebook/static/page.mjs";
import { toDraw } from "../../flownb/notebook/static/questions.mjs";
import { density } from "../../flownb/notebook/static/slider.mjs";
import { filtered, passes } from "../../flownb/notebook/static/ticks.mjs";

test("clamp keeps a number within its bounds", () => {
  assert.deepEqual([clamp(-1, 0, 5), clamp(3, 0, 5), clamp(9, 0, 5)], [0, 3, 5]);
});

test("a bar has one cell per item up to 16: done, failed, running, queued", () => {
  const cells = barCells([3, 2, 2, 1], 10, 80);
  assert.deepEqual(
    cells.map((c) => c.cls),
    ["b-done", "b-done", "b-done", "b-failed", "b-run", "b-run", "b-queued", "b-queued"],
  );
  assert.deepEqual([cells[0].x, cells[1].x, cells[0].w], [10, 20, 8.5]);
  assert.equal(barCells([16, 0, 0, 0], 0, 100).length, 16);
});

test("above 16 items a bar has one segment per state, and a single failed item is seen", () => {
  const cells = barCells([990, 0, 9, 1], 0, 100);
  assert.deepEqual(
    cells.map((c) => c.cls),
    ["b-done", "b-failed", "b-queued"],
  );
  assert.ok(cells.every((c) => c.w >= 2 - 1e-9));
  const end = cells.at(-1);
  assert.ok(Math.abs(end.x + end.w - 100) < 1e-9);
});

test("no items, no cells", () => {
  assert.deepEqual(barCells(null, 0, 100), []);
  assert.deepEqual(barCells([0, 0, 0, 0], 0, 100), []);
});

test("a drawing is neither smaller nor larger than can be read", () => {
  assert.equal(fitZoom(400, 400, 100, 100), 1.15);
  assert.equal(fitZoom(400, 400, 4000, 100), 0.7);
  assert.equal(fitZoom(360, 400, 400, 400), 0.9);
});

test("the strip has a mark where steps failed and people were asked, a failure first", () => {
  assert.deepEqual(density(["event", "failed", "asked", "event"]), [
    { bin: 200, cls: "failed" },
    { bin: 300, cls: "person" },
  ]);
  const many = Array(4000).fill("answered");
  many[7] = "failed";
  const marks = density(many);
  assert.equal(marks.length, 400);
  assert.equal(marks[0].cls, "failed");
  assert.equal(marks.at(-1).bin, 399);
});

test("the filter looks for words anywhere or in one column", () => {
  const tick = { kind: "finished", step: "score", event: "Scored", keys: "docs, n" };
  assert.ok(passes(tick, []));
  assert.ok(passes(tick, ["score", "fin"]));
  assert.ok(passes(tick, ["step:sco", "type:scored"]));
  assert.ok(!passes(tick, ["step:fin"]));
  assert.ok(!passes(tick, ["nothing"]));
  assert.ok(!passes(tick, ["http://x"]));
});

test("ticks are found by text, by errors and by the step that was clicked", () => {
  const history = new History(2, 0);
  history.take(0, {
    kind: ["event", "failed", "ended"],
    step: ["load", "load", ""],
    event: ["Rows", "", ""],
    t: [0, 1, 2],
    ms: [0, 5, 0],
    keys: ["", "", ""],
    d: [[[0, 1, "", null]], [[0, 6, "", null]], [[1, 5, "", null]]],
    e: [[], [], []],
  });
  const all = { text: "", errors: false, node: -1, label: "" };
  assert.equal(filtered(history, all), null);
  assert.deepEqual(filtered(history, { ...all, errors: true }), [2]);
  assert.deepEqual(filtered(history, { ...all, text: "ROWS" }), [1]);
  assert.deepEqual(filtered(history, { ...all, node: 0, label: "load" }), [1, 2]);
  assert.deepEqual(filtered(history, { ...all, node: 1, label: "stop" }), [3]);
  assert.deepEqual(filtered(history, { ...all, text: "load", node: 1, label: "stop" }), []);
});

test("Space presses what has the focus, and plays where nothing wants it", () => {
  const acts = [];
  const listeners = [];
  const root = { addEventListener: (_, listener) => listeners.push(listener), removeEventListener() {} };
  panelKeys(root, { " ": () => acts.push("play"), c: () => acts.push("cont") });
  const press = (key, target) =>
    listeners[0]({
      ...{ key, target, ctrlKey: false, metaKey: false, altKey: false, shiftKey: false },
      preventDefault() {},
      stopPropagation() {},
    });
  press(" ", { tagName: "BUTTON", closest: () => ({}) });
  press(" ", { tagName: "DIV", closest: () => null });
  press("c", { tagName: "BUTTON", closest: () => ({}) });
  assert.deepEqual(acts, ["play", "cont"]);
});

test("combinations and Shift-Enter belong to the notebook, all other keys to the panel", () => {
  const key = (name, more = {}) => ({
    key: name,
    ctrlKey: false,
    metaKey: false,
    altKey: false,
    shiftKey: false,
    ...more,
  });
  for (const name of ["a", "b", "d", "Enter", "F10", "ArrowLeft"]) assert.equal(isForNotebook(key(name)), false, name);
  assert.equal(isForNotebook(key("s", { ctrlKey: true })), true);
  assert.equal(isForNotebook(key("Enter", { shiftKey: true })), true);
  assert.equal(keyName(key("F9", { shiftKey: true })), "Shift-F9");
  assert.equal(keyName(key("?", { shiftKey: true })), "?");
});

test("letters typed into a text stay there", () => {
  assert.equal(isTyping({ tagName: "INPUT", type: "search" }), true);
  assert.equal(isTyping({ tagName: "TEXTAREA", type: "textarea" }), true);
  assert.equal(isTyping({ tagName: "INPUT", type: "range" }), false);
  assert.equal(isTyping({ tagName: "BUTTON", type: "button" }), false);
});

test("a twin is hidden by its own class and by nothing that is no hash", () => {
  assert.match(twinRule("0123456789ab"), /^\.flownb-twin-0123456789ab\{display:none!important\}/);
  for (const bad of ["", "x}body{display:none", "0123456789abc", "0123456789AB"]) assert.equal(twinRule(bad), "", bad);
});

test("the panel draws yes-or-no questions and forms that are not open", () => {
  const questions = [
    { id: "a", kind: "bool", open: false },
    { id: "b", kind: "form", open: true },
    { id: "c", kind: "form", open: false },
  ];
  assert.deepEqual(
    toDraw({ questions }).map((q) => q.id),
    ["a", "c"],
  );
  assert.deepEqual(toDraw({ questions, ended: true }), []);
  assert.deepEqual(toDraw({}), []);
});
