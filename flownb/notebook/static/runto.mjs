// @ts-check
// "Run to…": where the run shall stop next, once.
import { button, make } from "./common.mjs";

/**
 * What the form says as an intent's fields; words where it says nothing.
 * @param {{ kind: string, step: string, event: string, tick: string, when: string }} form
 * @returns {Record<string, any> | string}
 */
export function goal(form) {
  switch (form.kind) {
    case "step":
      return form.step ? { step: form.step } : "This workflow has no step.";
    case "event":
      return form.event ? { event: form.event } : "This workflow has no event.";
    case "tick": {
      const tick = Number(form.tick);
      return Number.isInteger(tick) && tick > 0 ? { tick } : "A tick has a number from 1 on.";
    }
    case "when":
      return form.when.trim() ? { when: form.when.trim() } : "Give an expression over event, state and tick.";
    default:
      return { request: true };
  }
}

/** Steps and event types that a graph has. @param {any} graph @returns {{ steps: string[], events: [string, string][] }} */
export function places(graph) {
  const steps = (graph.nodes ?? []).filter((/** @type {any} */ n) => n.shape !== "start" && n.shape !== "stop");
  /** @type {Map<string, string>} */
  const events = new Map();
  for (const edge of graph.edges ?? []) if (edge.key) events.set(edge.key, edge.label || edge.key);
  return { steps: steps.map((/** @type {any} */ n) => n.label), events: [...events] };
}

/** Fills a select, keeping what is chosen. @param {any} select @param {[string, string][]} options value, text */
export function fill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value, text })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

/** @param {{ go: (goal: Record<string, any>) => void }} hooks @param {string} uid */
export function runToForm(hooks, uid) {
  const controls = {
    step: make("select", { "aria-label": "step" }),
    event: make("select", { "aria-label": "event type" }),
    tick: make("input", { type: "number", min: 1, step: 1, "aria-label": "tick number" }),
    when: make("input", {
      type: "text",
      class: "mono",
      placeholder: "event.score < 0.5",
      "aria-label": "condition",
      spellcheck: "false",
      autocomplete: "off",
    }),
    person: make("span", { class: "fl-dim", text: "when one is asked" }),
  };
  const words = { step: "step starts", event: "event comes", tick: "tick", when: "condition", person: "next person" };
  const radios = /** @type {Record<string, any>} */ ({});
  const rows = Object.entries(controls).map(([kind, control]) => {
    radios[kind] = make("input", { type: "radio", name: `${uid}-to`, value: kind });
    const pick = () => (radios[kind].checked = true);
    for (const type of ["input", "pointerdown", "change"]) control.addEventListener(type, pick);
    return make(
      "div",
      { class: "fl-row" },
      make("label", {}, radios[kind], words[/** @type {"step"} */ (kind)]),
      control,
    );
  });
  radios.step.checked = true;
  const wrong = make("p", { class: "fl-wrong", role: "alert", hidden: true });
  const el = make(
    "form",
    { class: "fl-form" },
    ...rows,
    make("p", {
      class: "fl-dim fl-hint",
      text: "A condition sees event, state and tick, and the names of your cells.",
    }),
    wrong,
    make(
      "div",
      { class: "fl-acts" },
      button("cont", "Run", () => {}, { cls: "yes", tip: "go on, and stop there" }),
    ),
  );
  el.querySelector(".fl-acts button").type = "submit";
  el.addEventListener("submit", (/** @type {any} */ ev) => {
    ev.preventDefault();
    const kind = Object.keys(radios).find((name) => radios[name].checked) ?? "step";
    const { step, event, tick, when } = controls;
    const found = goal({ kind, step: step.value, event: event.value, tick: tick.value, when: when.value });
    wrong.hidden = typeof found !== "string";
    if (typeof found === "string") wrong.textContent = found;
    else hooks.go(found);
  });
  return {
    el,
    /** @param {any} graph @param {{ label: string, last: number }} at label of the picked step */
    open(graph, at) {
      const { steps, events } = places(graph);
      fill(
        controls.step,
        steps.map((s) => [s, s]),
      );
      fill(controls.event, events);
      if (steps.includes(at.label)) controls.step.value = at.label;
      controls.tick.placeholder = String(at.last + 1);
      wrong.hidden = true;
      radios[Object.keys(radios).find((name) => radios[name].checked) ?? "step"].focus({ preventScroll: true });
    },
  };
}
