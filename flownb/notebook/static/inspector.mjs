// @ts-check
// The inspector: one tick's event, what it changed, the queue, the log. Payloads are asked for and come when they come.
import { make } from "./common.mjs";
import { count } from "./captions.mjs";

const NAMES = ["Event", "State Δ", "Queue", "Log"];

/**
 * @typedef {{ seq: number, kind: string, step: string, event: string, t: number, detail: any, waits: string, past: boolean, queue: [string, string][] }} Shown
 * `detail` is null until it came; `waits` says in words why it is not there yet.
 * @param {{ go: (seq: number) => void }} hooks
 * @param {string} uid prefix of the ids that tie tabs to their panel
 */
export function inspector(hooks, uid) {
  const pane = make("div", { class: "fl-pane", role: "tabpanel", tabindex: 0, id: `${uid}-pane` });
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
    const draws = [drawEvent, drawDelta, drawQueue, drawLog];
    pane.replaceChildren(...(shown ? draws[open](shown, hooks.go) : []));
  }

  draw();
  return {
    el: make("section", { class: "fl-inspect", "aria-label": "inspector" }, list, pane),
    /** @param {Shown} next */
    set(next) {
      const key = JSON.stringify(next);
      if (key === last) return;
      const moved = shown?.seq !== next.seq;
      last = key;
      shown = next;
      const queue = `Queue ${next.queue.length}`;
      if (tabs[2].textContent !== queue) tabs[2].textContent = queue;
      draw();
      if (moved) pane.scrollTop = 0;
    },
  };
}

/** @param {string} text */
const dim = (text) => make("p", { class: "fl-dim fl-hint", text });

/** @param {Shown} shown @param {(seq: number) => void} go @returns {Node[]} */
function drawEvent(shown, go) {
  if (!shown.seq) return [dim("Before the first tick.")];
  const { detail } = shown;
  const what = shown.kind ? `${shown.step || "run"} ${shown.kind}` : "";
  const title = detail?.title || shown.event || what;
  const route = detail?.route || what;
  const when = Number.isFinite(shown.t) ? ` · ${shown.t.toFixed(3)} s` : "";
  const out = [
    make(
      "p",
      { class: "fl-what" },
      make("b", { text: title }),
      make("span", { class: "fl-dim", text: ` tick ${count(shown.seq)}${when}` }),
    ),
    make("p", { class: "fl-route", text: route }),
  ];
  if (!detail) return [...out, dim(shown.waits)];
  const pairs = (detail.payload ?? []).flatMap((/** @type {[string, string]} */ [name, text]) => [
    make("dt", { text: name, title: name }),
    make("dd", { text, title: text }),
  ]);
  out.push(pairs.length ? make("dl", {}, ...pairs) : dim("No fields."));
  const cause = make("p", { class: "fl-cause" });
  links(cause, "caused by ", detail.causes ?? [], go);
  links(cause, "causes ", detail.effects ?? [], go);
  if (cause.childNodes.length) out.push(cause);
  return out;
}

/** @param {any} into @param {string} words @param {number[]} seqs @param {(seq: number) => void} go */
function links(into, words, seqs, go) {
  if (!seqs.length) return;
  const most = 12;
  into.append(make("span", { class: "fl-dim", text: words }));
  for (const seq of seqs.slice(0, most)) {
    into.append(
      make("button", {
        type: "button",
        class: "fl-link",
        text: `#${seq}`,
        "aria-label": `go to tick ${seq}`,
        onclick: () => go(seq),
      }),
      " ",
    );
  }
  if (seqs.length > most) into.append(make("span", { class: "fl-dim", text: `and ${seqs.length - most} more ` }));
}

/** @param {Shown} shown @returns {Node[]} */
function drawDelta(shown) {
  if (!shown.seq) return [dim("Before the first tick.")];
  if (!shown.detail) return [dim(shown.waits)];
  const rows = (shown.detail.state ?? []).flatMap(
    (/** @type {[string, string | null, string | null]} */ [key, before, after]) => [
      make("dt", { text: key, title: key }),
      make(
        "dd",
        { title: `${before ?? "(not set)"} → ${after ?? "(removed)"}` },
        before === null ? make("span", { class: "fl-dim", text: "not set" }) : make("del", { text: before }),
        make("span", { class: "fl-dim", text: " → " }),
        after === null ? make("span", { class: "fl-dim", text: "removed" }) : make("ins", { text: after }),
      ),
    ],
  );
  return rows.length ? [make("dl", { class: "fl-delta" }, ...rows)] : [dim("This tick changed no state.")];
}

/** @param {Shown} shown @returns {Node[]} */
function drawQueue(shown) {
  const out = shown.past ? [dim("The queue as it is now.")] : [];
  if (!shown.queue.length) return [...out, dim("Nothing is queued, running or waiting.")];
  const rows = shown.queue.map(([what, text]) =>
    make(
      "li",
      { class: `q-${/^\w+$/.test(what) ? what : "other"}` },
      make("b", { text: what }),
      make("span", { text, title: text }),
    ),
  );
  return [...out, make("ul", { class: "fl-queue" }, ...rows)];
}

/** @param {Shown} shown @returns {Node[]} */
function drawLog(shown) {
  if (!shown.seq) return [dim("Before the first tick.")];
  if (!shown.detail) return [dim(shown.waits)];
  return [shown.detail.log ? make("pre", { text: shown.detail.log }) : dim("Nothing was printed or logged.")];
}
