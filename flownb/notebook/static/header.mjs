// @ts-check
// The header of the open panel and the line of the compact one: who, how far, how long.
import { button, glyph, icon, make, setText } from "./common.mjs";
import { WORDS, clock, compactText, count, pills } from "./captions.mjs";

const CHIPS = ["done", "running", "person", "waiting", "retrying", "failed"];

/**
 * @typedef {{ total: number, by: Record<string, number> }} Steps
 * @param {{ toggle: () => void, pause: () => void, cont: () => void, step: () => void, close: () => void,
 *   bell: () => void }} hooks
 */
export function header(hooks) {
  const open = titles();
  const shut = titles();
  const marks = make("span", { class: "fl-pills" });
  const chips = make("span", { class: "fl-chips" });
  const time = make("span", { class: "fl-dim mono fl-time", title: "time since the start" });
  const from = make("span", { class: "fl-from fl-dim" });
  const putAway = button("close", "close this panel; its run goes on", hooks.close, { quiet: true, cls: "bare" });
  const fold = button("up", "fold to one line", hooks.toggle, { quiet: true, cls: "bare" });
  const bells = [bell(hooks.bell), bell(hooks.bell)];
  const head = make(
    "div",
    { class: "fl-head" },
    open.name,
    open.run,
    from,
    marks,
    chips,
    make("span", { class: "fl-grow" }),
    gone(),
    time,
    bells[0],
    fold,
    putAway,
  );

  const state = make("span", { class: "fl-cstate" });
  const fill = make("div", { class: "fl-fill" });
  const bar = make(
    "div",
    { class: "fl-prog", role: "progressbar", "aria-label": "steps done", "aria-valuemin": 0 },
    fill,
  );
  const text = make("span", { class: "fl-ctext" });
  const small = { cls: "small" };
  const buttons = {
    cont: button("cont", "Continue", hooks.cont, small),
    pause: button("pause", "Pause", hooks.pause, small),
    step: button("step", "Step", hooks.step, small),
  };
  const unfold = button("down", "open the panel", hooks.toggle, { quiet: true, cls: "bare" });
  const line = make(
    "div",
    { class: "fl-compact" },
    state,
    shut.name,
    shut.run,
    bar,
    text,
    make("span", { class: "fl-grow" }),
    gone(),
    buttons.cont,
    buttons.pause,
    buttons.step,
    bells[1],
    unfold,
  );
  let drawn = "";

  return {
    head,
    line,
    fold,
    unfold,
    buttons,
    /** @param {any} graph */
    name(graph) {
      for (const part of [open, shut]) {
        setText(part.name, graph.name || "run");
        part.name.title = graph.name ?? "";
        setText(part.run, graph.run ?? "");
        part.run.title = [`run ${graph.run ?? ""}`, graph.store].filter(Boolean).join("\n");
      }
      putAway.hidden = !graph.below;
      setText(from, graph.from ?? "");
      from.title = graph.from ?? "";
    },
    /** @param {any} live @param {Steps} steps */
    draw(live, steps) {
      const key = JSON.stringify([pills(live), steps, live.note, live.tick]);
      if (key === drawn) return;
      drawn = key;
      const shown = pills(live);
      marks.replaceChildren(
        ...shown.map(([tone, words]) =>
          make("span", { class: `fl-pill p-${tone}` }, mark(tone), make("span", { text: words })),
        ),
      );
      const seen = CHIPS.filter((s) => steps.by[s] || s === "done");
      chips.replaceChildren(...seen.map((s) => chip(s, steps.by[s] ?? 0)));
      const [tone, words] = shown[shown.length - 1];
      state.className = `fl-cstate p-${tone}`;
      state.replaceChildren(mark(tone), make("span", { text: words, class: tone === "running" ? "fl-sr" : undefined }));
      fill.style.width = `${steps.total ? (100 * steps.by.done) / steps.total : 0}%`;
      bar.setAttribute("aria-valuemax", String(steps.total));
      bar.setAttribute("aria-valuenow", String(steps.by.done ?? 0));
      setText(text, compactText(live, steps));
      text.title = text.textContent ?? "";
    },
    /** @param {string} state "none", "off", "on", "ask" */
    bell(state) {
      for (const one of bells) {
        if (one.dataset.state === state) continue;
        one.dataset.state = state;
        one.hidden = state === "none";
        one.setAttribute("aria-pressed", String(state === "on"));
        one.title = BELL[state] ?? "";
      }
    },
    /** @param {number} seconds */
    clock(seconds) {
      setText(time, clock(seconds));
    },
  };
}

const titles = () => ({
  name: make("strong", { class: "fl-name" }),
  run: make("span", { class: "fl-dim mono fl-run" }),
});

/** @type {Record<string, string>} */
const BELL = {
  off: "tell me of questions when I look elsewhere: the browser asks whether it may",
  on: "the browser tells you of questions when you look elsewhere; click to stop that",
  ask: "click, so that the browser may tell you of questions when you look elsewhere",
};

/** Hidden until somebody says that this page can notify. @param {() => void} ring */
function bell(ring) {
  const el = button("bell", "notifications", ring, { quiet: true, cls: "bare bell" });
  el.hidden = true;
  return el;
}

/** Shown by the style sheet once ipywidgets marks the panel as disconnected. */
const gone = () => make("span", { class: "fl-gone", text: "kernel gone: last state" });

/** @param {string} tone */
const mark = (tone) => (tone === "paused" ? icon("pause") : glyph(tone));

/** @param {string} state @param {number} n */
const chip = (state, n) =>
  make(
    "span",
    { class: `fl-chip c-${state}`, title: `${n} ${WORDS[state]}` },
    glyph(state),
    make("span", { text: count(n) }),
    make("span", { class: "fl-sr", text: WORDS[state] }),
  );
