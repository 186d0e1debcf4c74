// @ts-check
// What the view does to the page round it, each with its undoing: the guard on the box of panel and form, the twin that
// is hidden while a live view stands beside it, the focus that goes back to the cell.
import { isForNotebook } from "./keys.mjs";

/** Keeps Lumino, the notebook's front end, from looking for shortcuts when a key goes to an element that has it. */
const SUPPRESS = "data-lm-suppress-shortcuts";

/** Gives the focus to the cell, in command mode. @param {HTMLElement} el */
export function focusCell(el) {
  const cell = /** @type {HTMLElement | null} */ (el.closest(".jp-Cell"));
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  if (!cell) return;
  if (!cell.hasAttribute("tabindex")) cell.tabIndex = -1;
  cell.focus({ preventScroll: true });
}

/**
 * Brings a panel that came below into sight and gives it the focus, once it is drawn.
 * @param {HTMLElement} el a view @param {string} run @param {number} [left] tries
 */
export function showBelow(el, run, left = 60) {
  const box = el.closest(".flownb-panel");
  if (!box) return;
  const panels = /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll(":scope .flownb-panel .flownb"));
  const found = [...panels].find((panel) => panel.dataset.run === run && panel.dataset.status);
  if (!found) {
    if (left > 0) setTimeout(showBelow, 50, el, run, left - 1);
    return;
  }
  found.scrollIntoView({ block: "nearest" });
  found.focus({ preventScroll: true });
}

/** Clicks the form's Send button; the focus goes there first, so that what is being typed is committed. @param {any} form */
function sendForm(form) {
  const send = form.querySelector(".flownb-send");
  const target = send?.matches("button") ? send : send?.querySelector("button");
  if (!target || target.disabled) return;
  target.focus({ preventScroll: true });
  target.click();
}

/** Whether ipywidgets says that the kernel of this view is gone. @param {HTMLElement} el */
export const isGone = (el) => Boolean(el.closest(".jupyter-widgets-disconnected"));

/** @param {any} ev */
const isSend = (ev) => ev.key === "Enter" && (ev.ctrlKey || ev.metaKey) && Boolean(ev.target.closest?.(".flownb-form"));

/** @param {any} ev */
const isSave = (ev) => (ev.ctrlKey || ev.metaKey) && !ev.altKey && !ev.shiftKey && /^s$/i.test(ev.key);

/** Gives the notebook a key that the focused control would keep to itself. @param {Element} at @param {any} ev */
function passOn(at, ev) {
  const { key, code, keyCode, ctrlKey, metaKey } = ev;
  at.dispatchEvent(
    new KeyboardEvent("keydown", { key, code, keyCode, ctrlKey, metaKey, bubbles: true, cancelable: true }),
  );
}

/**
 * Guards the box round panel and forms as the panel guards itself; Ctrl-Enter in a form sends it, Esc leaves it.
 *
 * JupyterLab looks for shortcuts while a key bubbles, so stopping it is enough there. Notebook 7 looks in the document's
 * capture phase, before anything in the box sees the key: what helps is Lumino's attribute on the focused element itself,
 * and only while this one key is under way, since it would keep Ctrl-S from the notebook too.
 *
 * The box becomes our parent only after `render` has returned, hence the waiting.
 * @param {HTMLElement} el
 * @param {{ selector?: string, leave?: () => void }} [of] selector: of the box; a form that stands alone is its own.
 * leave: where Esc in a form goes; else to the cell
 */
export function guardBox(el, { selector = ".flownb-panel", leave = () => focusCell(el) } = {}) {
  /** @type {HTMLElement | null} */
  let box = null;
  /** @type {any} */
  let timer;
  /** @type {Element | null} wears the attribute because of us */
  let marked = null;
  const unmark = () => {
    marked?.removeAttribute(SUPPRESS);
    marked = null;
  };
  const onFirst = (/** @type {any} */ ev) => {
    unmark(); // on a busy page the timer of the key before comes after this key, which may be Ctrl-S
    if (!(box ?? el).contains(ev.target) || (isForNotebook(ev) && !isSend(ev))) return;
    const { target } = ev;
    if (target.hasAttribute(SUPPRESS)) return;
    marked = target;
    target.setAttribute(SUPPRESS, "");
    setTimeout(unmark);
  };
  // While capturing, since a text control of ipywidgets lets no key bubble out.
  const onFormKey = (/** @type {any} */ ev) => {
    const form = ev.target.closest?.(".flownb-form");
    if (form && isSend(ev)) sendForm(form);
    else if (form && ev.key === "Escape") leave();
    else if (form && box && isSave(ev) && !ev.defaultPrevented) passOn(box, ev);
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  };
  const onKey = (/** @type {any} */ ev) => {
    if (!isForNotebook(ev)) ev.stopPropagation();
  };
  const look = (/** @type {number} */ left) => {
    box = el.closest(selector);
    if (box) {
      box.addEventListener("keydown", onFormKey, true);
      box.addEventListener("keydown", onKey);
    } else if (left > 0) timer = setTimeout(look, 50, left - 1);
  };
  window.addEventListener("keydown", onFirst, true);
  look(100);
  return () => {
    clearTimeout(timer);
    unmark();
    window.removeEventListener("keydown", onFirst, true);
    box?.removeEventListener("keydown", onFormKey, true);
    box?.removeEventListener("keydown", onKey);
  };
}

/**
 * The rule that hides a twin: by its class, so it holds however often its output is replaced and whenever it arrives.
 * The second selector takes the whole output, with its prompt and margins, where the page's style sheet engine can.
 * @param {string} hash
 * @returns {string} "" for anything but 12 hex digits, which could not be trusted in a style sheet
 */
export function twinRule(hash) {
  if (!/^[0-9a-f]{12}$/.test(hash)) return "";
  const twin = `.flownb-twin-${hash}`;
  return `${twin}{display:none!important}.jp-OutputArea-child:has(${twin}){display:none!important}`;
}

/**
 * Hides the twin while `el` is on the page. The style element is inside `el`: a view that is thrown away without its
 * cleanup takes it along.
 * @param {HTMLElement} el @param {string} hash
 */
export function hideTwin(el, hash) {
  const rule = twinRule(hash);
  if (!rule) return () => {};
  const style = document.createElement("style");
  style.textContent = rule;
  el.append(style);
  return () => style.remove();
}
