// @ts-check
// An editor of JSON text in a pane. What is typed survives an error, and a second look.
import { make, setText } from "./common.mjs";

/** Scrolls the pane, never the notebook. @param {HTMLElement} el */
function reveal(el) {
  const pane = /** @type {HTMLElement | null} */ (el.closest(".fl-pane"));
  if (!pane) return;
  const over = el.getBoundingClientRect().bottom - pane.getBoundingClientRect().bottom + 8;
  if (over > 0) pane.scrollTop += over;
}

/**
 * @param {{ save: string, tip?: string, onSave: (text: string | null) => void, onCancel: () => void }} options `onSave`
 * gets null where there is nothing to edit
 */
export function editor(options) {
  const title = make("span", { class: "fl-dim fl-edtitle" });
  const area = make("textarea", {
    class: "fl-json mono",
    rows: 3,
    spellcheck: "false",
    autocomplete: "off",
    "aria-label": "the event’s fields as JSON",
  });
  const wrong = make("p", { class: "fl-wrong", role: "alert", hidden: true });
  const word = (/** @type {string} */ text, /** @type {string} */ cls, /** @type {() => void} */ act) =>
    make("button", { type: "button", class: `fl-btn word ${cls}`, onclick: act, title: options.tip }, text);
  const save = word(options.save, "yes", () => send());
  const cancel = word("Cancel", "", options.onCancel);
  const el = make("div", { class: "fl-editor" }, title, area, wrong, make("div", { class: "fl-acts" }, save, cancel));
  const state = { isLoaded: false, first: "", hasText: true };

  function send() {
    if (save.disabled) return;
    wrong.hidden = true;
    save.disabled = true;
    options.onSave(state.hasText ? area.value : null);
  }
  const grow = () => (area.rows = Math.min(12, Math.max(2, area.value.split("\n").length)));
  area.addEventListener("input", grow);
  area.addEventListener("keydown", (/** @type {any} */ ev) => {
    if (ev.key === "Escape") options.onCancel();
    else if (ev.key === "Enter" && (ev.ctrlKey || ev.metaKey)) send();
    else return;
    ev.preventDefault();
    ev.stopPropagation();
  });

  return {
    el,
    area,
    isDirty: () => state.isLoaded && area.value !== state.first,
    /** Shows that the text is on its way. */
    wait() {
      if (state.isLoaded) return;
      setText(title, "Loads when the cell is done…");
      area.disabled = true;
      save.disabled = true;
    },
    /** @param {{ text: string | null, title: string, kept: string[] }} draft @param {string} [nothing] words where there is no text */
    load(draft, nothing = "There is nothing to edit here.") {
      state.hasText = draft.text !== null;
      state.isLoaded = true;
      state.first = area.value = draft.text ?? "";
      area.hidden = !state.hasText;
      area.disabled = false;
      save.disabled = false;
      const kept = draft.kept?.length ? ` · ${draft.kept.join(", ")} cannot be shown as JSON and stays as it is` : "";
      setText(title, state.hasText ? `${draft.title}${kept}` : nothing);
      grow();
      (state.hasText ? area : save).focus({ preventScroll: true });
      reveal(el);
    },
    /** It was refused: the text stays. @param {string} text */
    refuse(text) {
      wrong.hidden = false;
      setText(wrong, text);
      save.disabled = false;
      if (state.hasText && state.isLoaded) area.focus({ preventScroll: true });
      reveal(el);
    },
  };
}
