// @ts-check
// A masked box whose text goes to Python as messages: a trait would be saved with the notebook.

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  const id = `fl-secret-${Math.random().toString(36).slice(2)}`;
  const label = document.createElement("label");
  label.className = "widget-label";
  label.htmlFor = id;
  const input = document.createElement("input");
  input.id = id;
  input.type = "password";
  input.autocomplete = "new-password";
  input.spellcheck = false;
  el.classList.add("jupyter-widgets", "widget-inline-hbox", "widget-text", "fl-secret");
  el.replaceChildren(label, input);

  const draw = () => {
    label.textContent = model.get("description");
    input.disabled = model.get("disabled");
    input.title = model.get("tooltip");
    // Drawn anew, the box is empty though something was typed.
    input.placeholder = model.get("kept") && !input.value ? "kept as it was typed" : model.get("placeholder");
  };
  const onInput = () => model.send({ kind: "typed", text: input.value });
  const onMessage = (/** @type {any} */ message) => {
    if (message?.kind === "forget") input.value = "";
  };
  const changes = "change:description change:disabled change:kept change:placeholder change:tooltip";
  input.addEventListener("input", onInput);
  model.on(changes, draw);
  model.on("msg:custom", onMessage);
  draw();
  return () => {
    model.off(changes, draw);
    model.off("msg:custom", onMessage);
  };
}

export default { render };
