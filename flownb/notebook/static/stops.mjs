// @ts-check
// Breakpoints: where they stand in the graph and in the tick table, and the list of them.
import { button, make, setText } from "./common.mjs";
import { fill, places } from "./runto.mjs";

/** @typedef {{ n: number, what: string, on: boolean, half: boolean, hits: number, failed: string,
 *   step: string, narrow: boolean, event: string, seq: number }} Stop */
/** @typedef {"on" | "half" | "off"} Look on: filled; half: has a condition; off: disabled, hollow */

/** @param {{ on: boolean, half: boolean }} stop @returns {Look} */
export const lookOf = (stop) => (stop.on ? (stop.half ? "half" : "on") : "off");

/** Of several at one place the one that stops most is shown. @param {Look | undefined} a @param {Look} b @returns {Look} */
const stronger = (a, b) => (a === "on" || b === "on" ? "on" : a === "half" || b === "half" ? "half" : "off");

/**
 * What stands where: by index of the node and of the edge, and by seq of the tick.
 * @param {Stop[]} stops @param {any} graph
 * @returns {{ nodes: Map<number, Look>, edges: Map<number, Look>, ticks: Map<number, Look> }}
 */
export function placed(stops, graph) {
  const found = { nodes: new Map(), edges: new Map(), ticks: new Map() };
  const put = (/** @type {Map<number, Look>} */ into, /** @type {number} */ at, /** @type {Stop} */ stop) =>
    into.set(at, stronger(into.get(at), lookOf(stop)));
  for (const stop of stops) {
    if (stop.seq) put(found.ticks, stop.seq, stop);
    (graph.nodes ?? []).forEach((/** @type {any} */ node, /** @type {number} */ i) => {
      const isStep = node.shape !== "start" && node.shape !== "stop";
      if (!stop.step || !isStep || stop.step !== node.label) return;
      put(found.nodes, i, stop.narrow ? { ...stop, half: true } : stop);
    });
    (graph.edges ?? []).forEach((/** @type {any} */ edge, /** @type {number} */ i) => {
      if (stop.event && isSame(stop.event, edge.key ?? "")) put(found.edges, i, stop);
    });
  }
  return found;
}

/** Whether a type's name, short or whole, is that of a key ("module:Outer.Name"). @param {string} name @param {string} key */
export const isSame = (name, key) =>
  name === key || key.replace(/^.*:/, "") === name || key.replace(/^.*[:.]/, "") === name;

/** What a click makes of it: one that is off, or not there, is put on. @param {Look | undefined} look */
export const turnsOn = (look) => look === undefined || look === "off";

/**
 * @param {{ set: (n: number, to: "enable" | "disable" | "remove") => void,
 *   add: (spot: Record<string, any>, told: (text: string) => void) => void }} hooks `told` gets "" or what is wrong
 */
export function stopList(hooks) {
  const none = make("p", {
    class: "fl-dim fl-hint",
    text: "None. Click the dot at a step’s corner, an edge, or the dot before a tick’s number; or add one here.",
  });
  const list = make("ul", { class: "fl-stoplist" });
  const kind = make(
    "select",
    { "aria-label": "what to stop at" },
    ...["step", "event", "error", "state"].map((value) => make("option", { value, text: value })),
  );
  const step = make("select", { "aria-label": "step" });
  const event = make("select", { "aria-label": "event type", hidden: true });
  const state = make("input", {
    type: "text",
    "aria-label": "name in the state",
    placeholder: "docs.count",
    hidden: true,
  });
  const text = { type: "text", class: "mono", spellcheck: "false", autocomplete: "off" };
  const when = make("input", { ...text, "aria-label": "condition", placeholder: "only when event.n > 3" });
  const wrong = make("p", { class: "fl-wrong", role: "alert", hidden: true });
  const add = button("plus", "Add", () => {}, { tip: "add a breakpoint" });
  add.type = "submit";
  const form = make("form", { class: "fl-form fl-addstop" }, kind, step, event, state, when, add);
  kind.addEventListener("change", () => {
    step.hidden = kind.value !== "step" && kind.value !== "error";
    event.hidden = kind.value !== "event";
    state.hidden = kind.value !== "state";
  });
  form.addEventListener("submit", (/** @type {any} */ ev) => {
    ev.preventDefault();
    hooks.add(
      spotOf(kind.value, { step: step.value, event: event.value, state: state.value, when: when.value }),
      (said) => {
        wrong.hidden = !said;
        setText(wrong, said);
        if (!said) when.value = "";
      },
    );
  });

  /** @param {Stop} stop */
  function row(stop) {
    const on = make("input", {
      type: "checkbox",
      "aria-label": `${stop.what}: enabled`,
      onchange: () => hooks.set(stop.n, on.checked ? "enable" : "disable"),
    });
    on.checked = stop.on;
    const hits = stop.hits ? `hit ${stop.hits}×` : "";
    return make(
      "li",
      { "data-stop": stop.n },
      make(
        "label",
        {},
        on,
        make("i", { class: `fl-dot ${lookOf(stop)}` }),
        make("span", { text: stop.what, title: stop.what }),
      ),
      make("span", { class: "fl-dim", text: hits }),
      button("trash", `remove ${stop.what}`, () => hooks.set(stop.n, "remove"), { quiet: true, cls: "bare" }),
      stop.failed ? make("p", { class: "fl-wrong", text: `Its condition failed: ${stop.failed}` }) : null,
    );
  }

  let drawn = "";
  return {
    el: make("div", { class: "fl-stopbox" }, none, list, form, wrong),
    /** @param {any} graph */
    open(graph) {
      const { steps, events } = places(graph);
      fill(
        step,
        steps.map((s) => [s, s]),
      );
      fill(event, events);
      wrong.hidden = true;
    },
    /** @param {Stop[]} stops */
    draw(stops) {
      const key = JSON.stringify(stops);
      if (key === drawn) return;
      drawn = key;
      none.hidden = stops.length > 0;
      const focused = document.activeElement?.closest?.("[data-stop]")?.getAttribute("data-stop");
      const wasIn = list.contains(document.activeElement);
      list.replaceChildren(...stops.map(row));
      if (!wasIn) return;
      const to = list.querySelector(`[data-stop="${focused}"] input`) ?? list.querySelector("input") ?? kind;
      to.focus({ preventScroll: true });
    },
  };
}

/**
 * The form as an intent's fields.
 * @param {string} kind @param {{ step: string, event: string, state: string, when: string }} form
 */
export function spotOf(kind, form) {
  const when = form.when.trim() ? { when: form.when.trim() } : {};
  if (kind === "event") return { event: form.event, ...when };
  if (kind === "state") return { state: form.state.trim(), ...when };
  return { step: form.step, ...(kind === "error" ? { error: true } : {}), ...when };
}
