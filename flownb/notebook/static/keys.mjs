// @ts-check
// Keys of the panel, and the guard that keeps them from the notebook, where a letter can delete a cell.
import { button, make } from "./common.mjs";

/** @type {[string, string][]} */
const HELP = [
  ["F9 or c", "Continue"],
  ["F10 or n", "Step: the next tick"],
  ["p", "Pause"],
  ["Shift-F9", "Stop the run"],
  ["← or b, →", "one tick back, one on (looks only)"],
  ["Home, End", "before the first tick, Live"],
  ["/", "filter the ticks"],
  ["arrows in the graph", "from step to step; Enter shows its ticks"],
  ["Ctrl-Enter in a form", "send the answer"],
  ["Esc", "back to the cell"],
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
    if (act && isFree) {
      act();
      ev.preventDefault();
    }
    ev.stopPropagation();
  };
  root.addEventListener("keydown", onKey);
  return () => root.removeEventListener("keydown", onKey);
}

/** The list of keys, over the panel. @param {() => void} close */
export function helpBox(close) {
  const rows = HELP.flatMap(([key, text]) => [make("dt", {}, make("kbd", { text: key })), make("dd", { text })]);
  const store = make("p", { class: "fl-dim fl-store" });
  const el = make(
    "div",
    { class: "fl-help-box", role: "dialog", "aria-label": "keys of the panel", tabindex: -1, hidden: true },
    make(
      "div",
      { class: "fl-help-head" },
      make("b", { text: "Keys" }),
      button("close", "close", close, { quiet: true, cls: "bare" }),
    ),
    make("dl", {}, ...rows),
    store,
  );
  return { el, store };
}
