// @ts-check
// The inspector: one tick's event, what it changed, the queue, the log. Payloads are asked for and come when they come.
import { make, setText } from "./common.mjs";
import { count } from "./captions.mjs";
import { diffPane } from "./diffpane.mjs";
import { dim, eventPane } from "./eventpane.mjs";
import { queued, queuePane } from "./queue.mjs";

const NAMES = ["Event", "State Δ", "Queue", "Log"];
const QUEUE = 2;

/**
 * @typedef {import("./eventpane.mjs").Shown & { detail: any, compared: any, against: number | null, last: number,
 *   queue: import("./queue.mjs").Shown }} Shown
 * `detail` is null until it came; `compared` is the detail against another tick, if one was picked.
 * @param {{ go: (seq: number) => void, against: (seq: number | null) => void,
 *   act: (kind: string, more: Record<string, any>, told?: (m: any) => boolean) => void }} hooks
 * @param {string} uid prefix of the ids that tie tabs to their panel
 */
export function inspector(hooks, uid) {
  const pane = make("div", { class: "fl-pane", role: "tabpanel", tabindex: 0, id: `${uid}-pane` });
  const panes = [eventPane(hooks), diffPane(hooks), queuePane(hooks), logPane()];
  let open = 0;
  /** @type {Shown | null} */
  let shown = null;
  let last = "";
  const tabs = NAMES.map((text, i) =>
    make("button", {
      type: "button",
      role: "tab",
      id: `${uid}-tab${i}`,
      "aria-controls": `${uid}-pane`,
      text,
      onclick: () => pick(i),
    }),
  );
  const list = make("div", { class: "fl-tabs", role: "tablist", "aria-label": "inspector" }, ...tabs);
  list.addEventListener("keydown", (/** @type {any} */ ev) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    const move = moves[/** @type {keyof typeof moves} */ (ev.key)];
    if (!move) return;
    pick((open + move + NAMES.length) % NAMES.length);
    tabs[open].focus();
    ev.preventDefault();
    ev.stopPropagation();
  });

  /** @param {number} i */
  function pick(i) {
    open = i;
    draw();
    pane.scrollTop = 0;
  }

  function draw() {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === open));
      tab.tabIndex = i === open ? 0 : -1;
    });
    pane.setAttribute("aria-labelledby", `${uid}-tab${open}`);
    // A pane that is there already stays: an editor in it would lose the focus.
    if (pane.firstElementChild !== panes[open].el) pane.replaceChildren(panes[open].el);
    if (shown) panes[open].draw(/** @type {any} */ (part(shown)));
  }

  /** What the open pane draws. @param {Shown} now */
  function part(now) {
    if (open === QUEUE) return now.queue;
    return open === 1 && now.against !== null ? { ...now, detail: now.compared } : now;
  }

  draw();
  return {
    el: make("section", { class: "fl-inspect", "aria-label": "inspector" }, list, pane),
    /** @param {Shown} next */
    set(next) {
      if (open === QUEUE) panes[QUEUE].draw(/** @type {any} */ (next.queue));
      const key = JSON.stringify(next);
      if (key === last) return;
      const moved = shown?.seq !== next.seq && open !== QUEUE;
      last = key;
      shown = next;
      setText(tabs[QUEUE], `Queue ${count(queued(next.queue))}`);
      draw();
      if (moved) pane.scrollTop = 0;
    },
  };
}

function logPane() {
  const el = make("div", {});
  return {
    el,
    /** @param {{ seq: number, detail: any, waits: string }} shown */
    draw(shown) {
      const { detail } = shown;
      const words = !shown.seq ? "Before the first tick." : !detail ? shown.waits : "Nothing was printed or logged.";
      el.replaceChildren(detail?.log && shown.seq ? make("pre", { text: detail.log }) : dim(words));
    },
  };
}
