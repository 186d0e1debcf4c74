// @ts-check
// Several short texts, each on a chip with a button that takes it away.

/** The texts with one more, if there is something in it. @param {string[]} texts @param {string} typed */
export const added = (texts, typed) => (typed.trim() ? [...texts, typed.trim()] : texts);

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  const id = `fl-chips-${Math.random().toString(36).slice(2)}`;
  const label = document.createElement("label");
  label.className = "widget-label";
  label.htmlFor = id;
  const list = document.createElement("span");
  list.className = "fl-chip-list";
  list.setAttribute("role", "list");
  const input = document.createElement("input");
  input.id = id;
  input.type = "text";
  input.autocomplete = "off";
  input.setAttribute("aria-description", "Enter adds");
  const offered = document.createElement("datalist");
  offered.id = `${id}-offered`;
  input.setAttribute("list", offered.id);
  const box = document.createElement("div");
  box.className = "fl-chip-box";
  box.append(list, input, offered);
  el.classList.add("jupyter-widgets", "widget-inline-hbox", "widget-text", "fl-chips");
  el.replaceChildren(label, box);

  /** @param {string[]} texts */
  const put = (texts) => {
    model.set("value", texts);
    model.save_changes();
  };
  /** Takes what is typed into the box as one more. */
  const take = () => {
    const texts = added(model.get("value"), input.value);
    input.value = "";
    if (texts !== model.get("value")) put(texts);
  };
  /** @param {string} text @param {number} place */
  const chip = (text, place) => {
    const said = document.createElement("span");
    said.className = "fl-chip";
    said.setAttribute("role", "listitem");
    const words = document.createElement("span");
    words.textContent = text;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "×";
    button.title = `Remove ${text}`;
    button.setAttribute("aria-label", `Remove ${text}`);
    button.disabled = model.get("disabled");
    button.addEventListener("click", () => {
      put(model.get("value").filter((/** @type {string} */ _, /** @type {number} */ i) => i !== place));
      input.focus();
    });
    said.append(words, button);
    return said;
  };
  const draw = () => {
    label.textContent = model.get("description");
    input.disabled = model.get("disabled");
    input.title = model.get("tooltip");
    input.placeholder = model.get("placeholder") || "Enter adds";
    list.replaceChildren(...model.get("value").map(chip));
    offered.replaceChildren(
      ...model.get("choices").map((/** @type {string} */ text) => {
        const option = document.createElement("option");
        option.value = text;
        return option;
      }),
    );
  };
  const onKey = (/** @type {KeyboardEvent} */ ev) => {
    const texts = model.get("value");
    if (ev.key === "Enter" && !ev.ctrlKey && !ev.metaKey && !ev.isComposing) {
      take();
      ev.preventDefault();
    } else if (ev.key === "Backspace" && !input.value && texts.length) {
      input.value = texts.at(-1);
      put(texts.slice(0, -1));
      ev.preventDefault();
    }
  };
  const changes = "change:description change:disabled change:value change:choices change:placeholder change:tooltip";
  input.addEventListener("keydown", onKey);
  input.addEventListener("blur", take);
  model.on(changes, draw);
  draw();
  return () => model.off(changes, draw);
}

export default { render };
