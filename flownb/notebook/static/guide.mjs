// @ts-check
// What ipywidgets leave out of a form: radio buttons that are one group, names and errors for screen readers, the focus
// after a row comes or goes, and, where no panel stands round the form, its keys.
import { guardBox } from "./page.mjs";

const CONTROL = "input, select, textarea, [role=radiogroup]";

/** @param {string} what */
const newId = (what) => `fl-${what}-${Math.random().toString(36).slice(2)}`;

/** The id of an element, which it gets if it has none. @param {Element} el @param {string} what */
function idOf(el, what) {
  if (!el.id) el.id = newId(what);
  return el.id;
}

/** Sets an attribute that differs only, or takes it away. @param {Element} el @param {string} name @param {string} value */
function put(el, name, value) {
  if (!value) el.removeAttribute(name);
  else if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

/** What belongs to a field itself, not to a field inside it. @param {Element} field @param {string} selector */
const own = (field, selector) => [...field.querySelectorAll(selector)].filter((el) => el.closest(".fl-field, .fl-row") === field);

/** Makes the buttons of one question one group: arrows choose, Tab passes. @param {Element} radio */
function group(radio) {
  const box = radio.querySelector(".widget-radio-box");
  if (!box) return;
  const words = radio.querySelector(":scope > .widget-label");
  const legend = radio.closest(".fl-set")?.querySelector(".fl-legend");
  const name = words?.textContent ? words : legend;
  put(box, "role", "radiogroup");
  if (name) put(box, "aria-labelledby", idOf(name, "label"));
  const shared = idOf(box, "radios");
  for (const input of box.querySelectorAll("input[type=radio]")) put(input, "name", shared);
}

/** Says of a field's controls what is wrong with them, what they are for, and whether they must be filled in. @param {Element} field */
function describe(field) {
  const [error] = own(field, ".fl-err");
  const [help] = own(field, ".fl-help");
  const by = [error && idOf(error, "error"), help && idOf(help, "help")].filter(Boolean).join(" ");
  if (field.matches(".fl-set")) {
    const [legend] = own(field, ".fl-legend");
    put(field, "role", "group");
    if (legend) put(field, "aria-labelledby", idOf(legend, "legend"));
    put(field, "aria-describedby", by);
    return;
  }
  const isRequired = own(field, ".widget-label").some((label) => label.textContent?.endsWith(" *"));
  for (const control of own(field, CONTROL)) {
    if (control.closest("[role=radiogroup]") && !control.matches("[role=radiogroup]")) continue;
    put(control, "aria-describedby", by);
    put(control, "aria-invalid", error ? "true" : "");
    put(control, "aria-required", isRequired ? "true" : "");
  }
}

/** @param {Element} form */
function markUp(form) {
  for (const radio of form.querySelectorAll(".widget-radio")) group(radio);
  for (const field of form.querySelectorAll(".fl-field")) describe(field);
  for (const button of form.querySelectorAll(".fl-remove, .fl-add")) {
    const title = button.getAttribute("title");
    if (title) put(button, "aria-label", title);
  }
}

/**
 * Calls `act` once `ready` gives something, within 3 s: what Python changes is there a little later.
 * @param {() => any} ready @param {(found: any) => void} act @param {number} [left] tries
 */
function once(ready, act, left = 60) {
  const found = ready();
  if (found) act(found);
  else if (left > 0) setTimeout(once, 50, ready, act, left - 1);
}

/** Whether the focus may be moved: it is in the form, or it is nowhere since what had it went. @param {Element} form */
const mayFocus = (form) => form.contains(document.activeElement) || document.activeElement === document.body;

/** Gives the focus to the first control that is marked. @param {Element} form */
function focusError(form) {
  const find = () => form.querySelector(".fl-bad :is(input, select, textarea):not(:disabled)");
  once(find, (control) => mayFocus(form) && control.focus());
}

/** The focus goes along when rows come and go. @param {Element} form @param {any} ev */
function followRows(form, ev) {
  const button = ev.target.closest?.(".fl-add, .fl-remove");
  const rows = button?.closest(".fl-set")?.querySelector(".fl-rows");
  if (!rows) return;
  const before = [...rows.children];
  const gone = before.indexOf(button.closest(".fl-row"));
  if (button.matches(".fl-add")) {
    const find = () => rows.children.length > before.length && rows.lastElementChild?.querySelector(CONTROL);
    once(find, (control) => mayFocus(form) && control.focus());
  } else {
    const find = () => {
      if (rows.children.length >= before.length) return null;
      const next = rows.children[Math.min(gone, rows.children.length - 1)]?.querySelector(".fl-remove");
      return next ?? rows.closest(".fl-set")?.querySelector(".fl-add");
    };
    once(find, (next) => mayFocus(form) && next.focus());
  }
}

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  el.classList.add("fl-guide");
  /** @type {Element | null} */
  let form = null;
  let over = false;
  let asked = 0;
  let unGuard = () => {};
  const watcher = new MutationObserver(() => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => form && markUp(form));
  });
  const onClick = (/** @type {any} */ ev) => form && followRows(form, ev);
  const onMessage = (/** @type {any} */ message) => {
    if (message?.kind === "focus" && form) focusError(form);
  };
  model.on("msg:custom", onMessage);
  // The form becomes our parent only after this has returned.
  once(
    () => over || el.closest(".flownb-form"),
    (found) => {
      if (over) return;
      form = found;
      if (!found.closest(".flownb-panel")) unGuard = guardBox(el, { selector: ".flownb-form" });
      found.addEventListener("click", onClick, true);
      watcher.observe(found, { subtree: true, childList: true, attributes: true, attributeFilter: ["class", "title"] });
      markUp(found);
    },
  );
  return () => {
    over = true;
    model.off("msg:custom", onMessage);
    watcher.disconnect();
    cancelAnimationFrame(asked);
    form?.removeEventListener("click", onClick, true);
    unGuard();
  };
}

export default { render };
