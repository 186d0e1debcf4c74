// @ts-check
// Keys of the panel, and the guard that keeps them from the notebook, where a letter can delete a cell.
import { make } from "./common.mjs";

/** @type {[string, string][]} */
const HELP = [
  ["F9 or c", "Continue"],
  ["p", "Pause"],
  ["F10 or n", "Step: the next tick"],
  ["o", "Step over: until this event is through its step"],
  ["F11", "into a sub-workflow: its panel; else Step"],
  ["Shift-F11", "Step out: until this branch or sub-workflow joins"],
  ["r", "Run to…"],
  ["Shift-F9", "Stop the run"],
  ["f", "Fork here: a new run from the tick shown"],
  ["t", "breakpoint at the picked step, or at the tick shown"],
  ["← or b, →", "one tick back, one on: looks only, nothing is undone"],
  ["Home, End", "before the first tick, Live"],
  ["Space, + −", "play, stop playing; faster, slower"],
  ["/", "filter the ticks"],
  ["arrows", "in the graph from step to step; Enter shows its ticks"],
  ["Ctrl-Enter", "in a form or an editor: send it"],
  ["Esc", "close what is open; else back to the cell"],
];

/**
 * Whether a key is for the notebook or the browser: combinations (Ctrl-S saves) and Shift-Enter (runs the cell).
 * @param {{ key: string, ctrlKey: boolean, metaKey: boolean, altKey: boolean, shiftKey: boolean }} ev
 */
export const isForNotebook = (ev) => ev.ctrlKey || ev.metaKey || ev.altKey || (ev.shiftKey && ev.key === "Enter");

/** @param {{ key: string, shiftKey: boolean }} ev */
export const keyName = (ev) => (ev.shiftKey && /^F\d+$/.test(ev.key) ? `Shift-${ev.key}` : ev.key);

/** Whether letters go into what has the focus. @param {any} el */
export const isTyping = (el) =>
  /^(INPUT|TEXTAREA|SELECT)$/.test(el?.tagName ?? "") && !/^(range|checkbox|radio|button)$/.test(el.type ?? "");

/** Whether a control wants a key for itself: Space presses what has the focus. @param {any} ev */
const isOwn = (ev) => ev.key === " " && Boolean(ev.target?.closest?.("button, select, input:not([type=range]), summary, [data-n]"));

/**
 * Handles keys on `root`: first the panel's own, then nothing that is not for the notebook goes further.
 * @param {HTMLElement} root
 * @param {Record<string, () => void>} acts by key name
 */
export function panelKeys(root, acts) {
  const onKey = (/** @type {any} */ ev) => {
    if (isForNotebook(ev)) return;
    const act = acts[keyName(ev)];
    const isFree = !isTyping(ev.target) || /^F\d+$/.test(ev.key) || ev.key === "Escape";
    if (act && isFree && !isOwn(ev)) {
      act();
      ev.preventDefault();
    }
    ev.stopPropagation();
  };
  root.addEventListener("keydown", onKey);
  return () => root.removeEventListener("keydown", onKey);
}

/** The list of keys, and what the marks on the slider are. @param {[string, string][]} keys */
export function helpList(keys = HELP) {
  const rows = keys.flatMap(([key, text]) => [make("dt", {}, make("kbd", { text: key })), make("dd", { text })]);
  const mark = (/** @type {string} */ cls, /** @type {string} */ text) =>
    make("span", {}, make("i", { class: `fl-mark ${cls}` }), text);
  const legend = make(
    "p",
    { class: "fl-dim fl-legend" },
    "On the slider: ",
    mark("failed", "failed "),
    mark("person", "a question, an answer "),
    mark("stop", "breakpoint"),
  );
  const store = make("p", { class: "fl-dim fl-store" });
  return { kids: [make("dl", {}, ...rows), legend, store], store };
}
