// @ts-check
// The row of verbs, in a debugger's words. A verb is enabled exactly when it makes sense.
import { button, make, setText } from "./common.mjs";

/** The verbs of the row and of the keys. */
export const VERBS = /** @type {const} */ ([
  "cont",
  "pause",
  "step",
  "over",
  "out",
  "into",
  "runTo",
  "stop",
  "fork",
  "retry",
  "replay",
]);

/**
 * Which verbs make sense now. Those that go on work while the run goes on: they close the gate themselves when they are
 * there. A run that is over can be forked, tried again and replayed.
 * @param {any} live
 * @returns {Record<typeof VERBS[number], boolean>}
 */
export function allowed(live) {
  const can = /** @type {Record<typeof VERBS[number], boolean>} */ (Object.fromEntries(VERBS.map((v) => [v, false])));
  if (!live.status || live.bye || live.status === "cancelling") return can;
  const hasPast = (live.tick ?? 0) > 0;
  const isBeside = { ...can, fork: hasPast, retry: Boolean(live.retry), replay: hasPast };
  if (live.status === "suspended") return { ...isBeside, stop: true };
  if (live.ended) return isBeside;
  return {
    ...isBeside,
    cont: Boolean(live.paused),
    pause: !live.paused,
    step: true,
    over: true,
    out: true,
    into: (live.children ?? 0) > 0,
    runTo: true,
    stop: true,
  };
}

/** @param {Record<typeof VERBS[number] | "stops" | "help", () => void>} hooks */
export function controls(hooks) {
  const buttons = {
    cont: button("cont", "Continue", hooks.cont, { key: "F9", tip: "Continue: let the run go on", cls: "primary" }),
    pause: button("pause", "Pause", hooks.pause, { key: "p", tip: "Pause: admit no further tick" }),
    step: button("step", "Step", hooks.step, { key: "F10", tip: "Step: admit the next tick" }),
    over: button("over", "Step over", hooks.over, { key: "o", tip: "Step over: until this event is through its step" }),
    out: button("out", "Step out", hooks.out, {
      key: "Shift-F11",
      tip: "Step out: until this branch or sub-workflow joins",
    }),
    into: button("into", "Into", hooks.into, { key: "F11", tip: "Into: show the sub-workflow that runs" }),
    runTo: button("to", "Run to…", hooks.runTo, { key: "r", tip: "Run to a step, an event, a tick, a condition" }),
    stop: button("stop", "Stop", hooks.stop, { key: "Shift-F9", tip: "Stop: cancel the run", cls: "danger" }),
    retry: button("retry", "Edit & retry", hooks.retry, {
      tip: "Edit & retry: a new run from just before the failure, with another event if you like",
    }),
    fork: button("fork", "Fork here", hooks.fork, {
      key: "f",
      tip: "Fork here: a new run that shares the ticks up to the one shown",
    }),
    replay: button("replay", "Replay", hooks.replay, {
      tip: "Replay with the cells' new code; recorded results for what did not change",
    }),
  };
  const stops = button("stops", "breakpoints", hooks.stops, { quiet: true, cls: "bare fl-stops" });
  const number = make("span", { class: "fl-badge" });
  stops.append(number);
  const help = button("help", "keys", hooks.help, { quiet: true, cls: "bare", key: "?" });
  const gap = () => make("i", { class: "fl-sep" });
  const { cont, pause, step, over, out, into, runTo, stop, fork, retry, replay } = buttons;
  for (const b of [pause, over, out, runTo, stop, into]) b.classList.add("fl-fold1");
  for (const b of [fork, replay]) b.classList.add("fl-fold2");
  retry.classList.add("fl-fold1");
  const el = make(
    "div",
    { class: "fl-ctrl", role: "toolbar", "aria-label": "stepping" },
    ...[cont, pause, gap(), step, over, out, into, runTo, gap(), stop],
    make("span", { class: "fl-grow" }),
    ...[retry, fork, replay, stops, help],
  );
  return {
    el,
    buttons,
    stops,
    help,
    /** @param {Record<string, boolean>} can @param {any} live @param {HTMLElement} refuge */
    draw(can, live, refuge) {
      for (const verb of VERBS) setDisabled(buttons[verb], !can[verb], refuge);
      into.hidden = !can.into;
      retry.hidden = !can.retry;
      el.classList.toggle("crowded", can.retry || can.into);
      const all = live.stops ?? [];
      const on = all.filter((/** @type {any} */ s) => s.on).length;
      setText(number, all.length ? String(all.length) : "");
      stops.classList.toggle("has", on > 0);
      stops.classList.toggle(
        "ill",
        all.some((/** @type {any} */ s) => s.failed),
      );
      stops.title = all.length ? `breakpoints: ${all.length}, ${on} enabled` : "breakpoints: none";
      stops.setAttribute("aria-label", stops.title);
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
