// @ts-check
// The row of verbs: Continue, Pause, Step, Stop. Nothing is drawn that does nothing.
import { button, make, setText } from "./common.mjs";

/**
 * Which verbs make sense now. Step works while the run goes on: it closes the gate first.
 * @param {any} live
 * @returns {{ cont: boolean, pause: boolean, step: boolean, stop: boolean }}
 */
export function allowed(live) {
  const none = { cont: false, pause: false, step: false, stop: false };
  if (!live.status || live.ended || live.bye || live.status === "cancelling") return none;
  if (live.status === "suspended") return { ...none, stop: true };
  return { cont: Boolean(live.paused), pause: !live.paused, step: true, stop: true };
}

/** @param {{ cont: () => void, pause: () => void, step: () => void, stop: () => void, help: () => void }} hooks */
export function controls(hooks) {
  const buttons = {
    cont: button("cont", "Continue", hooks.cont, { key: "F9", tip: "let the run go on", cls: "primary" }),
    pause: button("pause", "Pause", hooks.pause, { key: "p", tip: "admit no further tick" }),
    step: button("step", "Step", hooks.step, { key: "F10", tip: "admit the next tick" }),
    stop: button("stop", "Stop", hooks.stop, { key: "Shift-F9", tip: "cancel the run", cls: "danger" }),
  };
  const note = make("span", { class: "fl-note fl-dim" });
  const help = button("help", "keys", hooks.help, { quiet: true, cls: "bare", key: "?" });
  const el = make(
    "div",
    { class: "fl-ctrl", role: "toolbar", "aria-label": "stepping" },
    buttons.cont,
    buttons.pause,
    make("i", { class: "fl-sep" }),
    buttons.step,
    make("i", { class: "fl-sep" }),
    buttons.stop,
    note,
    help,
  );
  return {
    el,
    buttons,
    help,
    /** @param {string} text */
    note(text) {
      setText(note, text);
      note.title = text;
    },
  };
}

/**
 * Disables a button without losing the focus: on a disabled button it would fall to the page, where a letter key is a
 * command of the notebook.
 * @param {HTMLButtonElement} el @param {boolean} off @param {HTMLElement} refuge
 */
export function setDisabled(el, off, refuge) {
  if (el.disabled === off) return;
  if (off && el.ownerDocument.activeElement === el) refuge.focus({ preventScroll: true });
  el.disabled = off;
}
