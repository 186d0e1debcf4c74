// @ts-check
// The tick table: draws the ~20 rows that are in sight of any number of ticks.
import { clamp, glyph, icon, make, setText } from "./common.mjs";
import { count, took } from "./captions.mjs";

const ROW = 24;

/** @type {Record<string, string>} kind of a tick -> the state whose glyph it shows; the others show an icon */
const GLYPH_OF = {
  started: "running",
  event: "queued",
  finished: "done",
  failed: "failed",
  answered: "person",
  asked: "person",
  timer: "waiting",
  waiting: "waiting",
  cancelled: "skipped",
};
/** @type {Record<string, string>} */
const ICON_OF = { paused: "pause", continued: "cont", stepped: "step", sent: "sent", wrote: "wrote", ended: "stop" };

/**
 * Whether a tick passes the filter. Words are all looked for; `step:` and `type:` look in one column.
 * @param {{ kind: string, step: string, event: string, keys: string }} tick
 * @param {string[]} words in lower case
 */
export function passes(tick, words) {
  return words.every((word) => {
    const [, column, rest] = /^(step|type|kind|state):(.*)$/.exec(word) ?? [];
    const inside = { step: tick.step, type: tick.event, kind: tick.kind, state: tick.keys };
    const text = column
      ? inside[/** @type {keyof typeof inside} */ (column)]
      : `${tick.step} ${tick.kind} ${tick.event} ${tick.keys}`;
    return text.toLowerCase().includes(column ? rest : word);
  });
}

/**
 * The seqs of the ticks to show; null for all.
 * @param {import("./history.mjs").History} history
 * @param {{ text: string, errors: boolean, node: number, label: string }} wish node -1 for every step
 * @returns {number[] | null}
 */
export function filtered(history, wish) {
  const words = wish.text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !wish.errors && wish.node < 0) return null;
  const { kind, step, event, keys, d } = history.cols;
  const out = [];
  for (let i = 0; i < kind.length; i++) {
    if (wish.errors && kind[i] !== "failed") continue;
    if (wish.node >= 0 && step[i] !== wish.label && !(d[i] || []).some((/** @type {any} */ x) => x[0] === wish.node))
      continue;
    if (passes({ kind: kind[i], step: step[i], event: event[i], keys: keys[i] }, words))
      out.push(history.first + i + 1);
  }
  return out;
}

/**
 * @param {{ go: (seq: number) => void, clear: () => void, stop: (seq: number) => void }} hooks clear: no step is picked
 * any more; stop: the breakpoint at a tick is turned on or off
 */
export function tickTable(hooks) {
  const header = ["#", "what", "event", "took", "state"].map((text) =>
    make("span", { role: "columnheader", text, class: text === "#" || text === "took" ? "r" : undefined }),
  );
  const body = make("div", { class: "fl-rows", role: "rowgroup" });
  const scroll = make(
    "div",
    { class: "fl-scroll", role: "grid", tabindex: 0, "aria-label": "ticks", "aria-readonly": true },
    make("div", { role: "rowgroup", class: "fl-thead" }, make("div", { class: "fl-tr fl-th", role: "row" }, ...header)),
    body,
  );
  const empty = make("p", { class: "fl-empty" });
  const filter = make("input", {
    type: "search",
    class: "fl-filter",
    placeholder: "filter: step:score type:Scored",
    title: "Words that a tick must hold; step:score, type:Scored, kind:failed look in one column",
    "aria-label": "filter ticks",
    spellcheck: "false",
    autocomplete: "off",
  });
  const errors = make("input", { type: "checkbox" });
  const picked = make("button", { type: "button", class: "fl-picked", hidden: true, onclick: () => hooks.clear() });
  const total = make("span", { class: "fl-dim fl-total" });
  const el = make(
    "section",
    { class: "fl-ticks", "aria-label": "ticks" },
    make(
      "div",
      { class: "fl-bar" },
      make("b", { text: "Ticks" }),
      filter,
      picked,
      make("label", { class: "fl-check" }, errors, "errors only"),
      total,
    ),
    scroll,
    empty,
  );

  /** @type {import("./history.mjs").History | null} */
  let history = null;
  /** @type {number[] | null} */
  let rows = null;
  const at = { seq: 0, node: -1, label: "", follows: true, top: 0, isFlat: false, frame: 0 };
  /** @type {Map<number, string>} breakpoints by seq */
  let stops = new Map();
  const size = () => (rows ? rows.length : history ? history.cols.kind.length : 0);
  const seqOf = (/** @type {number} */ row) => (rows ? rows[row] : (history?.first ?? 0) + row + 1);
  const rowOf = (/** @type {number} */ seq) => (rows ? rows.indexOf(seq) : seq - 1 - (history?.first ?? 0));

  function draw() {
    at.frame = 0;
    const n = size();
    body.style.height = `${n * ROW}px`;
    scroll.setAttribute("aria-rowcount", String(n + 1));
    // While the page swaps its theme's style sheets everything has no height for a moment, which no observer hears of.
    if (scroll.clientHeight > 0) drawRows(n);
    else if (!at.isFlat) setTimeout(later, 300);
    at.isFlat = scroll.clientHeight === 0; // tried again once: a folded panel stays flat
    const all = history?.length ?? 0;
    setText(total, rows ? `${count(n)} of ${count(all)}` : `${count(all)} ${all === 1 ? "tick" : "ticks"}`);
    empty.hidden = n > 0;
    setText(empty, all ? "No tick matches the filter." : "No ticks yet.");
  }

  /** Draws the rows in sight. @param {number} n */
  function drawRows(n) {
    const from = clamp(Math.floor(scroll.scrollTop / ROW) - 4, 0, n);
    const to = Math.min(n, from + Math.ceil(scroll.clientHeight / ROW) + 8);
    const drawn = [];
    for (let row = from; row < to; row++) drawn.push(drawRow(row));
    body.replaceChildren(...drawn);
  }

  /** @param {number} row */
  function drawRow(row) {
    const seq = seqOf(row);
    const read = (/** @type {string} */ column) => history?.get(column, seq) ?? "";
    const kind = read("kind");
    const mark = ICON_OF[kind] ? icon(ICON_OF[kind]) : glyph(GLYPH_OF[kind] ?? "idle");
    const what = make(
      "span",
      { role: "gridcell", title: `${read("step") || "run"} ${kind}` },
      mark,
      make("b", { text: read("step") || "run" }),
      ` ${kind}`,
    );
    const look = stops.get(seq) ?? "none";
    const dot = make("i", { class: `fl-dot ${look}`, title: look === "none" ? "stop at such a tick" : "breakpoint" });
    const tr = make(
      "div",
      {
        class: `fl-tr k-${kind}${seq === at.seq ? " at" : ""}`,
        role: "row",
        "aria-rowindex": row + 2,
        "aria-selected": seq === at.seq,
        "data-seq": seq,
      },
      make("span", { role: "gridcell", class: "num" }, dot, String(seq)),
      what,
      make("span", { role: "gridcell", text: read("event"), title: read("event") }),
      make("span", { role: "gridcell", class: "num", text: took(Number(read("ms"))) }),
      make("span", { role: "gridcell", class: "fl-dim", text: read("keys"), title: read("keys") }),
    );
    tr.style.transform = `translateY(${row * ROW}px)`;
    return tr;
  }

  const later = () => {
    if (!at.frame) at.frame = requestAnimationFrame(draw);
  };

  function refilter() {
    rows = history && filtered(history, { text: filter.value, errors: errors.checked, node: at.node, label: at.label });
    reveal(true);
    later();
  }

  /** Brings the row of the tick shown into sight. @param {boolean} always even after the person scrolled away */
  function reveal(always) {
    if (!always && !at.follows) return;
    let row = rowOf(at.seq);
    if (row < 0 && rows) row = rows.filter((seq) => seq <= at.seq).length - 1;
    const inSight = scroll.clientHeight - ROW;
    const top = Math.max(row, 0) * ROW;
    body.style.height = `${size() * ROW}px`;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    else if (top + ROW > scroll.scrollTop + inSight) scroll.scrollTop = top + ROW - inSight;
    at.top = scroll.scrollTop;
  }

  filter.addEventListener("input", refilter);
  errors.addEventListener("change", refilter);
  scroll.addEventListener("scroll", () => {
    // The event of our own scrolling comes a frame later, when more ticks may be there: only the person stops following.
    if (Math.abs(scroll.scrollTop - at.top) > 2) {
      at.follows = scroll.scrollTop + scroll.clientHeight > size() * ROW - ROW;
    }
    later();
  });
  body.addEventListener("click", (/** @type {any} */ ev) => {
    const row = ev.target.closest(".fl-tr");
    if (row && ev.target.closest(".fl-dot")) hooks.stop(Number(row.dataset.seq));
    else if (row) hooks.go(Number(row.dataset.seq));
  });
  scroll.addEventListener("keydown", (/** @type {any} */ ev) => {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 6, PageUp: -6 };
    const move = moves[/** @type {keyof typeof moves} */ (ev.key)];
    if (!move || !size()) return;
    hooks.go(seqOf(clamp(rowOf(at.seq) + move, 0, size() - 1)));
    ev.preventDefault();
    ev.stopPropagation();
  });
  const observer = new ResizeObserver(() => {
    reveal(false);
    later();
  });
  observer.observe(scroll);

  return {
    el,
    filter,
    dispose() {
      observer.disconnect();
      cancelAnimationFrame(at.frame);
    },
    /** New ticks are there. @param {import("./history.mjs").History} h */
    set(h) {
      history = h;
      rows = filtered(h, { text: filter.value, errors: errors.checked, node: at.node, label: at.label });
      reveal(false);
      later();
    },
    /** @param {number} seq @param {boolean} live whether the newest tick is shown */
    at(seq, live) {
      if (seq === at.seq) return;
      at.seq = seq;
      reveal(!live);
      draw(); // in this frame, as the graph: all that is in sight tells of one tick
    },
    /** @param {Map<number, string>} now breakpoints by seq */
    stops(now) {
      if (now.size === stops.size && [...now].every(([seq, look]) => stops.get(seq) === look)) return;
      stops = now;
      later();
    },
    follow() {
      at.follows = true;
      reveal(true);
      later();
    },
    /** Shows the ticks that touch one step only. @param {number} node -1 for all @param {string} label */
    pick(node, label) {
      if (node === at.node) return;
      at.node = node;
      at.label = label;
      picked.hidden = node < 0;
      picked.replaceChildren(make("span", { text: label }), icon("close"));
      picked.setAttribute("aria-label", `only ${label}: show the ticks of all steps`);
      picked.title = `only ticks of ${label}`;
      refilter();
    },
  };
}
