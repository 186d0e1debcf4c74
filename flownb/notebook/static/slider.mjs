// @ts-check
// The slider over all ticks, with marks where steps failed, people were asked and breakpoints stood.
import { button, make, makeSvg, setText } from "./common.mjs";
import { count } from "./captions.mjs";

const BINS = 400;
/** @type {Record<string, string>} */
const MARKED = { failed: "failed", asked: "person", answered: "person" };
const RANK = ["person", "stop", "failed"];
/** Heights of the marks of a strip that is 6 high: they differ in more than colour. @type {Record<string, number>} */
const HEIGHT = { person: 3.5, stop: 6, failed: 6 };

/** @param {string} kind @param {string} event @returns {string | undefined} the mark of a tick */
const markOf = (kind, event) => (kind === "paused" && event.startsWith("breakpoint") ? "stop" : MARKED[kind]);

/**
 * Where the strip has marks: at most one per bin, a failure before a breakpoint before a person.
 * @param {string[]} kinds @param {string[]} [events]
 * @returns {{ bin: number, cls: string }[]} by bin, of 400
 */
export function density(kinds, events = []) {
  /** @type {Map<number, string>} */
  const bins = new Map();
  const n = kinds.length;
  for (let i = 0; i < n; i++) {
    const cls = markOf(kinds[i], events[i] ?? "");
    if (!cls) continue;
    // A tick's place on the track is its seq of n, so the last one sits at the right end.
    const bin = Math.min(BINS - 1, Math.floor((BINS * (i + 1)) / n));
    if (RANK.indexOf(cls) > RANK.indexOf(bins.get(bin) ?? "")) bins.set(bin, cls);
  }
  return [...bins].sort((a, b) => a[0] - b[0]).map(([bin, cls]) => ({ bin, cls }));
}

/** @param {{ go: (seq: number) => void, back: () => void, forward: () => void, live: () => void }} hooks */
export function slider(hooks) {
  const range = make("input", { type: "range", min: 0, max: 0, value: 0, class: "fl-range", "aria-label": "tick" });
  const strip = makeSvg("svg", {
    class: "fl-strip",
    "aria-hidden": "true",
    preserveAspectRatio: "none",
    viewBox: `0 0 ${BINS} 6`,
  });
  const label = make("output", { class: "mono fl-tick" });
  const bare = { quiet: true, cls: "bare" };
  const back = button("back", "one tick back", hooks.back, { ...bare, tip: "Back: one tick, looks only", key: "b" });
  const forward = button("forward", "one tick on", hooks.forward, { ...bare, key: "→" });
  forward.setAttribute("aria-keyshortcuts", "ArrowRight");
  const live = button("live", "Live", hooks.live, { cls: "live", tip: "Live: follow the newest tick", key: "End" });
  range.addEventListener("input", () => hooks.go(Number(range.value)));
  const el = make(
    "div",
    { class: "fl-slide" },
    back,
    make("div", { class: "fl-rail" }, strip, range),
    forward,
    label,
    live,
  );
  let marked = -1;
  return {
    el,
    back,
    forward,
    /** @param {{ seq: number, first: number, last: number, isLive: boolean, what: string }} at */
    draw({ seq, first, last, isLive, what }) {
      range.min = String(first);
      range.max = String(last);
      range.value = String(seq);
      range.style.setProperty("--at", last > first ? `${(100 * (seq - first)) / (last - first)}%` : "100%");
      range.setAttribute("aria-valuetext", `tick ${seq} of ${last}${what ? `, ${what}` : ""}`);
      setText(label, `${count(seq)} / ${count(last)}`);
      live.setAttribute("aria-pressed", String(isLive));
    },
    /** @param {string[]} kinds @param {string[]} events */
    marks(kinds, events) {
      if (kinds.length === marked) return;
      marked = kinds.length;
      strip.replaceChildren(
        ...density(kinds, events).map(({ bin, cls }) =>
          makeSvg("rect", { x: bin, y: 6 - HEIGHT[cls], width: 1.6, height: HEIGHT[cls], class: `m-${cls}` }),
        ),
      );
    },
  };
}
