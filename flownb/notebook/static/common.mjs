// @ts-check
// What every pane uses: the states with their glyphs, DOM helpers, icons, buttons.

/** The states of a node; a tick carries the index. */
export const STATES = ["idle", "queued", "running", "person", "waiting", "done", "failed", "retrying", "skipped"];

const CIRCLE = "M4.2 0A4.2 4.2 0 1 1-4.2 0A4.2 4.2 0 1 1 4.2 0Z";

/**
 * [stroked, filled] path round (0, 0), 12 px wide. Paths, since fonts lack some of the characters and others become emoji.
 * @type {Record<string, [string, string]>}
 */
export const GLYPHS = {
  idle: [CIRCLE, ""],
  queued: [CIRCLE, "M0 0V-4.2A4.2 4.2 0 0 1 4.2 0Z"],
  running: ["", "M-3.2-4.8L5 0L-3.2 4.8Z"],
  person: ["", "M0-5.6L5.6 0L0 5.6L-5.6 0Z"],
  waiting: ["M-3.6-4.8H3.6L-3.6 4.8H3.6Z", "M0 0L3.6 4.8H-3.6Z"],
  done: ["M-4.4 .3L-1.4 3.4L4.6-3.6", ""],
  failed: ["M-3.6-3.6L3.6 3.6M3.6-3.6L-3.6 3.6", ""],
  retrying: ["M3.7-2.4A4.4 4.4 0 1 0 4.4 .6M4.4-5.2V-2H1.2", ""],
  skipped: [CIRCLE + "M-3 3L3-3", ""],
};

/** @type {Record<string, string>} icons on a 16 px grid */
const ICONS = {
  cont: "M4.5 3l8 5-8 5z",
  pause: "M4.5 3h2.4v10H4.5zM9.1 3h2.4v10H9.1z",
  step: "M3 3v10M6.5 3.5l6 4.5-6 4.5z",
  stop: "M4 4h8v8H4z",
  back: "M10 3.5L5.5 8l4.5 4.5",
  forward: "M6 3.5L10.5 8 6 12.5",
  live: "M8 5.5a2.5 2.5 0 1 0 .01 0z",
  fit: "M3 6V3h3M13 6V3h-3M3 10v3h3M13 10v3h-3",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  help: "M5.8 6.2a2.2 2.2 0 1 1 3.3 1.9c-.8.4-1.1.8-1.1 1.6M8 12.2v.1",
  over: "M2.5 9.5a5.5 5.5 0 0 1 10.6-2.2M13.6 3.6v4h-4M8 12.4h.01",
  out: "M8 10.5V3M5 6l3-3 3 3M3.5 13.2h9",
  into: "M8 2.8v7.5M5 7.4l3 3 3-3M3.5 13.2h9",
  to: "M2.5 8h7M7 4.8L10.2 8 7 11.2M13 3v10",
  fork: "M4.5 3v10M4.5 9.5c0-3.2 6.5-1.8 6.5-5.2M8.9 5.6L11 3.4l2.1 2.2",
  retry: "M12.6 8.4a4.7 4.7 0 1 1-1.5-3.8M11.6 2v3H8.6",
  replay: "M3.4 8.4a4.7 4.7 0 1 0 1.5-3.8M4.4 2v3h3M7.2 6.4l2.8 1.9-2.8 1.9z",
  stops: "M8 4.2a3.8 3.8 0 1 0 .01 0z",
  play: "M5.5 4l6 4-6 4z",
  rest: "M6 4v8M10 4v8",
  fire: "M8 2.8v5.4l3.2 2M8 13.2a5.2 5.2 0 1 0-.01 0z",
  trash: "M3.5 4.8h9M6.3 4.6V3.2h3.4v1.4M4.8 4.8l.6 8h5.2l.6-8",
  sent: "M3 8h9M8.5 4.5L12 8l-3.5 3.5",
  bell: "M8 2.6a3.7 3.7 0 0 0-3.7 3.7c0 3.1-1.5 4.3-1.5 4.3h10.4s-1.5-1.2-1.5-4.3A3.7 3.7 0 0 0 8 2.6zM6.8 12.9a1.3 1.3 0 0 0 2.4 0",
  later: "M8 4.6V8l2.4 1.5M8 13.2a5.2 5.2 0 1 0-.01 0z",
  wrote: "M3.5 12.5l.6-2.6 6.6-6.6 2 2-6.6 6.6z",
};
const FILLED = new Set(["cont", "pause", "stop", "live", "stops"]);

/** @param {number} x @param {number} low @param {number} high */
export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/**
 * An element. `text` becomes its textContent, `onclick` and the like listeners, aria booleans the words true and false.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node | string | null | undefined)} kids
 * @returns {any}
 */
export function make(tag, props = {}, ...kids) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    const isAria = key.startsWith("aria-");
    if (value === undefined || value === null || (value === false && !isAria)) continue;
    if (key === "text") el.textContent = value;
    else if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else el.setAttribute(key, value === true && !isAria ? "" : String(value));
  }
  for (const kid of kids) if (kid !== null && kid !== undefined) el.append(kid);
  return el;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {...Node} kids
 * @returns {any}
 */
export function makeSvg(tag, attributes = {}, ...kids) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) el.setAttribute(key, String(value));
  el.append(...kids);
  return el;
}

/** @param {string} name */
export function icon(name) {
  const cls = FILLED.has(name) ? "fl-i fill" : "fl-i";
  return makeSvg(
    "svg",
    { viewBox: "0 0 16 16", "aria-hidden": "true", class: cls },
    makeSvg("path", { d: ICONS[name] }),
  );
}

/** @param {string} state */
export function glyph(state) {
  const [stroked, filled] = GLYPHS[state] ?? GLYPHS.idle;
  return makeSvg(
    "svg",
    { viewBox: "-6.5 -6.5 13 13", "aria-hidden": "true", class: "fl-g" },
    makeSvg("path", { class: "gs", d: stroked }),
    makeSvg("path", { class: "gf", d: filled }),
  );
}

/**
 * A button with an icon. `quiet` shows the icon alone and says the label.
 * @param {string} name
 * @param {string} label
 * @param {(ev: Event) => void} act
 * @param {{ key?: string, tip?: string, cls?: string, quiet?: boolean }} [options]
 * @returns {HTMLButtonElement}
 */
export function button(name, label, act, options = {}) {
  const tip = options.tip ?? label;
  const el = make(
    "button",
    {
      type: "button",
      class: `fl-btn ${options.cls ?? ""}`.trim(),
      title: options.key ? `${tip} (${options.key})` : tip,
      "aria-label": options.quiet ? label : undefined,
      "aria-keyshortcuts": options.key?.replace("-", "+"),
      onclick: act,
    },
    icon(name),
  );
  if (!options.quiet) el.append(make("span", { text: label }));
  return el;
}

/**
 * Sets `el[key]`s that differ only: a write that changes nothing still costs a style recalculation.
 * @param {any} el @param {string} text
 */
export function setText(el, text) {
  if (el.textContent !== text) el.textContent = text;
}
