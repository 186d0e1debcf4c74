// @ts-check
// The graph pane: parses the SVG once, from then on only classes, texts and glyph paths change.
import { GLYPHS, button, clamp, glyph, make, makeSvg, setText } from "./common.mjs";
import { mostUrgent, shorten, spoken } from "./captions.mjs";
import { barCells } from "./cells.mjs";

const LEAST_ZOOM = 0.7;
const MOST_ZOOM = 1.15;

/**
 * The zoom at which a drawing fits its pane, within what can be read; beyond that the pane scrolls.
 * @param {number} paneW @param {number} paneH @param {number} w @param {number} h
 */
export const fitZoom = (paneW, paneH, w, h) => clamp(Math.min(paneW / w, paneH / h), LEAST_ZOOM, MOST_ZOOM);

/**
 * @typedef {{ el: any, sub: any, track: any, glyph: any[], label: string, last: string }} NodePart
 * @param {any} graph the trait
 * @param {{ select: (node: number) => void, stop: (at: { node: number } | { edge: number }) => void }} hooks
 */
export function graphPane(graph, hooks) {
  const drawing = graph.svg ? parse(graph.svg) : null;
  const canvas = make("div", { class: "fl-canvas" });
  const order = graph.order?.length
    ? graph.order
    : (graph.nodes ?? []).map((/** @type {any} */ _, /** @type {number} */ i) => i);
  const body = drawing ?? plainList(graph, order);
  body.setAttribute("role", "group");
  body.setAttribute("aria-label", `steps of ${graph.name ?? "the run"}`);
  canvas.append(body);

  const nodes = nodeParts(body, graph);
  const edges = [...body.querySelectorAll(".fl-edge")].map((el) => ({ el, times: el.querySelector(".n"), last: -1 }));
  const size = { w: Number(drawing?.getAttribute("width")) || 1, h: Number(drawing?.getAttribute("height")) || 1 };
  const zoom = { own: 0, now: 1, shown: -1, follows: true };
  let selected = -1;

  function resize() {
    const w = canvas.clientWidth - 16;
    const h = canvas.clientHeight - 16;
    if (!drawing || w <= 0 || h <= 0) return;
    const middle = { x: canvas.scrollLeft + w / 2, y: canvas.scrollTop + h / 2 };
    const before = zoom.now;
    zoom.now = zoom.own || fitZoom(w, h, size.w, size.h);
    drawing.setAttribute("width", String(size.w * zoom.now));
    drawing.setAttribute("height", String(size.h * zoom.now));
    canvas.scrollLeft = (middle.x * zoom.now) / before - w / 2;
    canvas.scrollTop = (middle.y * zoom.now) / before - h / 2;
    if (zoom.follows && zoom.shown >= 0) show(zoom.shown);
  }

  /** @param {number} factor */
  function scale(factor) {
    zoom.own = clamp(zoom.now * factor, 0.2, 2.5);
    zoom.follows = false;
    resize();
  }

  function fit() {
    zoom.own = 0;
    zoom.follows = true;
    resize();
  }

  /** Scrolls the pane, never the notebook. @param {number} i */
  function show(i) {
    const box = nodes[i]?.el.getBoundingClientRect();
    if (!box) return;
    const pane = canvas.getBoundingClientRect();
    if (box.left < pane.left + 8 || box.right > pane.right - 8) {
      canvas.scrollLeft += (box.left + box.right - pane.left - pane.right) / 2;
    }
    if (box.top < pane.top + 8 || box.bottom > pane.bottom - 8) {
      canvas.scrollTop += (box.top + box.bottom - pane.top - pane.bottom) / 2;
    }
  }

  /** @param {number} place in topological order */
  function focusAt(place) {
    const i = order[clamp(place, 0, order.length - 1)];
    if (!nodes[i]) return;
    for (const node of nodes) node?.el.setAttribute("tabindex", "-1");
    nodes[i].el.setAttribute("tabindex", "0");
    nodes[i].el.focus({ preventScroll: true });
    show(i);
  }

  body.addEventListener("click", (/** @type {any} */ ev) => {
    const el = ev.target.closest("[data-n]");
    const edge = ev.target.closest("[data-e]");
    if (el && ev.target.closest(".fl-bp")) hooks.stop({ node: Number(el.dataset.n) });
    else if (el) hooks.select(Number(el.dataset.n));
    else if (edge) hooks.stop({ edge: Number(edge.dataset.e) });
  });
  body.addEventListener("keydown", (/** @type {any} */ ev) => {
    const el = ev.target.closest("[data-n]");
    if (!el) return;
    const at = order.indexOf(Number(el.dataset.n));
    const moves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
    const move = moves[/** @type {keyof typeof moves} */ (ev.key)];
    if (move) focusAt(at + move);
    else if (ev.key === "Enter" || ev.key === " ") hooks.select(Number(el.dataset.n));
    else if (ev.key === "t") hooks.stop({ node: Number(el.dataset.n) });
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  });
  // The person looks somewhere else: stop following until "fit" or Live.
  for (const type of ["wheel", "pointerdown"]) {
    canvas.addEventListener(type, () => (zoom.follows = false), { passive: true });
  }
  nodes[order[0]]?.el.setAttribute("tabindex", "0");

  const quiet = { quiet: true, cls: "bare" };
  const tools = make(
    "div",
    { class: "fl-zoom", role: "group", "aria-label": "zoom" },
    button("minus", "zoom out", () => scale(1 / 1.25), quiet),
    button("plus", "zoom in", () => scale(1.25), quiet),
    button("fit", "fit the graph", fit, quiet),
  );
  const past = make("span", { class: "fl-lookback", text: "looking back" });
  let stops = "";
  const el = make("section", { class: "fl-graph", "aria-label": "graph" }, canvas, drawing ? tools : null, past);
  const observer = new ResizeObserver(resize);
  observer.observe(canvas);

  return {
    el,
    dispose: () => observer.disconnect(),
    follow: () => (zoom.follows = true),
    /** Shows the breakpoints. @param {{ nodes: Map<number, string>, edges: Map<number, string> }} at */
    stops(at) {
      const key = JSON.stringify([[...at.nodes], [...at.edges]]);
      if (key === stops) return;
      stops = key;
      nodes.forEach((node, i) => node && showStop(node.el, at.nodes.get(i)));
      edges.forEach(({ el: edge }, i) => showStop(edge, at.edges.get(i)));
    },
    /**
     * @param {{ nodes: [string, string, number[] | null][], edges: number[] }} picture
     * @param {number} select node, -1 for none
     * @param {boolean} pulses whether an edge that was just taken lights up
     */
    draw(picture, select, pulses) {
      picture.nodes.forEach((state, i) => nodes[i] && drawNode(nodes[i], state));
      edges.forEach((edge, k) => drawEdge(edge, picture.edges[k] ?? 0, pulses));
      if (select !== selected) {
        for (const i of [selected, select]) {
          nodes[i]?.el.classList.toggle("sel", i === select);
          nodes[i]?.el.setAttribute("aria-pressed", String(i === select));
        }
        selected = select;
      }
      const urgent = mostUrgent(picture.nodes);
      if (urgent >= 0 && urgent !== zoom.shown) {
        zoom.shown = urgent;
        if (zoom.follows) show(urgent);
      }
    },
  };
}

/** @param {string} text @returns {any} the drawing, null if the text is no SVG */
function parse(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return root.localName === "svg" ? document.importNode(root, true) : null;
}

/** What stands in for the drawing until its layout is there. @param {any} graph @param {number[]} order */
function plainList(graph, order) {
  const rows = order.map((i) => {
    const label = graph.nodes?.[i]?.label ?? "";
    const mark = glyph("idle");
    mark.classList.add("glyph");
    return make(
      "div",
      { class: "fl-plain-node s-idle", "data-n": i, role: "button", tabindex: -1, title: label },
      make("i", { class: "fl-bp fl-dot" }),
      mark,
      make("b", { class: "name", text: shorten(label, 40) }),
      make("span", { class: "sub", "data-room": 40 }),
    );
  });
  return make("div", { class: "fl-plain" }, ...rows);
}

/** @param {any} el a node or an edge @param {string | undefined} look */
function showStop(el, look) {
  const dot = el.querySelector(".fl-bp");
  if (!dot) return;
  for (const name of ["on", "half", "off"]) dot.classList.toggle(name, name === look);
  el.toggleAttribute("data-stop", Boolean(look));
}

/** @param {any} body @param {any} graph @returns {NodePart[]} by node index */
function nodeParts(body, graph) {
  /** @type {NodePart[]} */
  const parts = [];
  for (const el of body.querySelectorAll("[data-n]")) {
    const i = Number(el.dataset.n);
    parts[i] = {
      el,
      sub: el.querySelector(".sub"),
      track: el.querySelector(".fl-track"),
      glyph: [...el.querySelectorAll(".glyph path")],
      label: graph.nodes?.[i]?.label ?? "",
      last: "",
    };
    el.setAttribute("aria-pressed", "false");
  }
  return parts;
}

/** @param {NodePart} node @param {[string, string, number[] | null]} state */
function drawNode(node, state) {
  const [name, sub, bar] = state;
  const key = JSON.stringify(state);
  if (node.last === key) return;
  node.last = key;
  const classes = node.el.getAttribute("class").replace(/ s-\w+/g, "");
  node.el.setAttribute("class", `${classes} s-${name}`);
  node.el.classList.toggle("nosub", !sub);
  node.el.setAttribute("aria-label", spoken(node.label, state));
  node.glyph.forEach((path, j) => path.setAttribute("d", (GLYPHS[name] ?? GLYPHS.idle)[j]));
  if (node.sub) setText(node.sub, shorten(sub, Number(node.sub.dataset.room) || 40));
  if (node.track) drawBar(node.track, bar);
}

/** @param {any} track @param {number[] | null} bar */
function drawBar(track, bar) {
  const x = Number(track.getAttribute("x"));
  const y = track.getAttribute("y");
  const cells = barCells(bar, x, Number(track.getAttribute("width"))).map((c) =>
    makeSvg("rect", { class: c.cls, x: c.x.toFixed(2), y, width: c.w.toFixed(2), height: 3.5, rx: 1 }),
  );
  track.parentNode.replaceChildren(track, ...cells);
  track.classList.toggle("empty", !cells.length);
}

/** @param {{ el: any, times: any, last: number }} edge @param {number} taken @param {boolean} pulses */
function drawEdge(edge, taken, pulses) {
  if (edge.last === taken) return;
  const isNews = edge.last >= 0 && taken > edge.last && pulses;
  edge.last = taken;
  edge.el.classList.toggle("taken", taken > 0);
  if (edge.times) setText(edge.times, taken > 1 ? ` ×${taken}` : "");
  if (!isNews) return;
  edge.el.classList.remove("pulse");
  requestAnimationFrame(() => edge.el.classList.add("pulse"));
}
