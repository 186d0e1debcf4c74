// @ts-check
// The table of open questions: one row each, a pane for the one that the cursor is on, keys to go through them.
import { button, glyph, make, setText } from "./common.mjs";
import { panelKeys } from "./keys.mjs";
import { focusCell, guardBox, isGone } from "./page.mjs";
import { aimedAt, countdown, isOpen, moved, nextOpen, ofOneKind, progress, questions, span, wanted } from "./reviewrows.mjs";

/** @typedef {import("./reviewrows.mjs").Row} Row */

/** The page says so often that somebody looks, in ms. */
const HERE_MS = 10000;
/** The cursor has to rest so long before a question is shown in full. */
const REST_MS = 150;
const HEADS = ["run", "workflow", "step", "question", "waits", "deadline"];
const GLYPH_OF = { open: "person", failed: "failed", sending: "running", done: "done", gone: "skipped" };
const FIELDS = ":is(input, textarea, select):not([disabled])";

/** @param {any} el @param {boolean} on @param {string} tip why not, or what it does */
function allow(el, on, tip) {
  el.setAttribute("aria-disabled", String(!on));
  el.title = tip;
}

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  const table = () => model.get("table") ?? {};
  /** @type {{ cursor: string, confirms: "" | "approve" | "reject", rest: any, focus: number, left: any, shut: number,
   *   repeats: boolean, isLost: boolean }} isLost: the question of the cursor went away, and nobody picked another one */
  let mixed = ""; // why what is selected cannot be answered together
  const at = { cursor: "", confirms: "", rest: 0, focus: 0, left: 0, shut: 0, repeats: false, isLost: false };
  /** @type {Set<string>} */
  const selected = new Set();
  /** @type {Map<string, { el: any, row: string, due: any, waits: any, box: any }>} */
  const drawn = new Map();
  /** @type {Map<string, { rows: [string, string][], digest: string }>} what the last questions show */
  const contents = new Map();
  let since = performance.now();
  const now = () => (table().now ?? 0) + (performance.now() - since) / 1000;
  const all = () => /** @type {Row[]} */ (table().rows ?? []);
  const inSight = () => wanted(all(), filter.value);
  const row = (/** @type {string} */ id) => all().find((r) => r.id === id);

  // ---- the parts ----
  const say = make("div", { class: "fl-sr", role: "status", "aria-live": "polite" });
  const filter = make("input", {
    type: "search",
    class: "fl-filter",
    placeholder: "filter: step:check penguin",
    title: "Words that a question must have; run:, workflow: and step: look in one column (/)",
    "aria-label": "filter the questions",
    spellcheck: "false",
    autocomplete: "off",
  });
  const done = make("span", { class: "fl-rdone" });
  const gone = make("span", { class: "fl-gone", text: "the kernel is gone" });
  const bar = make("div", { class: "fl-bar" }, make("b", { text: "Open questions" }), filter, gone, done);
  const every = make("input", { type: "checkbox", "aria-label": "select all of one kind", title: "select all of one kind" });
  const head = make(
    "div",
    { class: "fl-rr fl-rhead", role: "row" },
    make("span", { role: "columnheader" }, every),
    ...HEADS.map((text) => make("span", { role: "columnheader", class: `c-${text}`, text })),
  );
  const body = make("div", { role: "rowgroup", class: "fl-rbody" });
  const empty = make("p", { class: "fl-rempty" });
  const grid = make(
    "div",
    { class: "fl-rgrid", role: "grid", tabindex: 0, "aria-label": "open questions", "aria-multiselectable": true },
    make("div", { role: "rowgroup" }, head),
    body,
  );
  const fault = make("p", { class: "fl-rfault", role: "alert", hidden: true });
  const title = make("div", { class: "fl-rtitle" });
  const shown = make("dl", { class: "fl-rshown" });
  const approve = button("cont", "Approve", (ev) => aim("approve", ev), { key: "a", cls: "yes" });
  approve.firstChild?.replaceWith(glyph("done"));
  const reject = button("close", "Reject", (ev) => aim("reject", ev), { key: "r", cls: "no" });
  const edit = button("wrote", "Edit", () => open(), { key: "e" });
  const next = button("forward", "Next", () => go(nextOpen(inSight(), at.cursor)), { key: "n" });
  const sure = make("span", { class: "fl-rsure", role: "alert" });
  const cancel = button("close", "Cancel", () => unconfirm(), { key: "Esc" });
  const acts = make("div", { class: "fl-racts" }, approve, reject, edit, next, sure, cancel);
  const word = make("p", { class: "fl-rword" });
  const pane = make("section", { class: "fl-rpane", "aria-label": "the question" }, title, shown, acts, word);
  const root = make(
    "div",
    { class: "flownb fl-review", role: "region", tabindex: -1, "aria-label": "open questions of all runs" },
    say,
    bar,
    grid,
    empty,
    fault,
    pane,
  );
  el.append(root);

  // ---- what the person does ----
  /** @param {any} m */
  function post(m) {
    try {
      if (!isGone(root)) return model.send(m);
    } catch (error) {
      console.warn("flownb: the kernel cannot be reached", error);
    }
    if (m.kind !== "here" && m.kind !== "bye") tell("The kernel is gone: nothing can be sent to the runs.");
  }

  /** @param {string} text */
  function tell(text) {
    setText(word, text);
    setText(say, text);
  }

  /** Whose form is open; one that is to be closed is none. */
  const edited = () => ((table().editing?.n ?? 0) > at.shut ? table().editing.id : "");
  function shut() {
    at.shut = table().editing?.n ?? 0;
    post({ kind: "shut" });
  }

  /** The cursor goes to a row. @param {string} id */
  function go(id) {
    if (!id) return tell("No other question is open.");
    if (id === at.cursor) return;
    if (edited() && edited() !== id) shut();
    at.cursor = id;
    at.isLost = false;
    at.confirms = "";
    setText(word, "");
    setText(say, row(id)?.text ?? "");
    draw();
    drawn.get(id)?.el.scrollIntoView({ block: "nearest" });
    clearTimeout(at.rest);
    at.rest = setTimeout(look, REST_MS);
  }

  function look() {
    if (at.cursor) post({ kind: "look", id: at.cursor });
  }

  /**
   * Approve or reject what is selected; of several it asks once more. Nobody answers what he has not seen (R4.71): of one
   * the content has to be shown, and the second click of a double click, or a key that is held down, is none.
   * @param {"approve" | "reject"} what @param {any} [click] the button was used, by mouse or Enter
   */
  function aim(what, click) {
    if (click?.detail > 1 || (!click && at.repeats)) return;
    const { rows, why } = aimedAt(all(), selected, at.cursor);
    if (why) return tell(why);
    if (!selected.size && !contents.has(at.cursor)) return tell("It is not shown yet.");
    if (at.confirms && !click) return tell(`Enter answers ${questions(rows.length)}, Esc does not.`);
    if (rows.length > 1 && at.confirms !== what) {
      at.confirms = what;
      draw();
      (what === "approve" ? approve : reject).focus({ preventScroll: true });
      return;
    }
    post({ kind: what, ids: rows.map((r) => r.id) });
    const ids = new Set(rows.map((r) => r.id));
    at.confirms = "";
    selected.clear();
    const following = nextOpen(
      inSight().filter((r) => r.id === at.cursor || !ids.has(r.id)),
      at.cursor,
    );
    const label = what === "approve" ? rows[0].yes : rows[0].no;
    if (following && ids.has(at.cursor)) go(following);
    const named = rows.length > 1 ? questions(rows.length) : rows[0].text;
    setText(say, `${label}: ${named}. ${following ? `Next: ${row(following)?.text}` : "No other question is open."}`);
    draw();
    grid.focus({ preventScroll: true });
  }

  function unconfirm() {
    at.confirms = "";
    draw();
    grid.focus({ preventScroll: true });
  }

  /** The form of the question at the cursor, with the focus in its first field. */
  function open() {
    const r = row(at.cursor);
    if (!isOpen(r)) return tell("This question is not open any more.");
    at.focus = 60;
    if (edited() !== at.cursor) setText(word, "opening the form…");
    post({ kind: "edit", id: at.cursor }); // of one that is open already nothing comes
    enter();
  }

  /** Gives the focus to the form once it is there. */
  function enter() {
    clearTimeout(at.left);
    const { n } = table().editing ?? {};
    const form = edited() === at.cursor ? el.closest(".flownb-review-box")?.querySelector(`.fl-form-${n}`) : null;
    const fields = /** @type {HTMLElement[]} */ ([...(form?.querySelectorAll(FIELDS) ?? [])]);
    const field = fields.find((f) => f.matches("[type=radio]:checked")) ?? fields[0];
    if (field) {
      at.focus = 0;
      setText(word, "");
      field.scrollIntoView({ block: "nearest" });
      field.focus({ preventScroll: true });
    } else if (at.focus-- > 0) at.left = setTimeout(enter, 50);
  }

  /** @param {string} id @param {boolean} [on] */
  function pick(id, on = !selected.has(id)) {
    if (on && isOpen(row(id))) selected.add(id);
    else selected.delete(id);
    at.confirms = "";
    draw();
  }

  function leave() {
    if (at.confirms) unconfirm();
    else if (edited()) {
      shut();
      grid.focus({ preventScroll: true });
    } else if (selected.size) {
      selected.clear();
      draw();
    } else if (document.activeElement === filter) {
      filter.value = "";
      draw();
      grid.focus({ preventScroll: true });
    } else focusCell(el);
  }

  const onAnyKey = (/** @type {any} */ ev) => {
    at.repeats = ev.repeat;
  };
  root.addEventListener("keydown", onAnyKey, true);
  const by = (/** @type {number} */ n) => () => go(moved(inSight(), at.cursor, n));
  const unKey = panelKeys(root, {
    a: () => aim("approve"),
    r: () => aim("reject"),
    e: open,
    n: () => go(nextOpen(inSight(), at.cursor)),
    j: by(1),
    k: by(-1),
    ArrowDown: by(1),
    ArrowUp: by(-1),
    PageDown: by(8),
    PageUp: by(-8),
    Home: by(-1e6),
    End: by(1e6),
    x: () => pick(at.cursor),
    "/": () => filter.focus(),
    Escape: leave,
  });
  const unGuard = guardBox(el, {
    leave() {
      grid.focus({ preventScroll: true });
      shut();
    },
  });
  filter.addEventListener("input", () => {
    const seen = new Set(inSight().map((r) => r.id));
    for (const id of selected) if (!seen.has(id)) selected.delete(id); // what nobody sees is not answered with the others
    at.confirms = "";
    draw();
  });
  filter.addEventListener("keydown", (/** @type {any} */ ev) => {
    if (ev.key !== "Enter" && ev.key !== "ArrowDown") return;
    ev.preventDefault();
    ev.stopPropagation();
    grid.focus({ preventScroll: true });
    if (!inSight().some((r) => r.id === at.cursor)) go(inSight()[0]?.id ?? "");
  });
  every.addEventListener("change", () => {
    const ids = ofOneKind(inSight(), at.cursor);
    selected.clear();
    if (every.checked) for (const id of ids) selected.add(id);
    at.confirms = "";
    draw();
    grid.focus({ preventScroll: true });
  });

  // ---- drawing ----
  /** @param {Row} r */
  function makeRow(r) {
    const box = make("input", { type: "checkbox", tabindex: -1, "aria-label": `select ${r.id}` });
    const cell = (/** @type {string} */ name, /** @type {string} */ text) =>
      make("span", { role: "gridcell", class: `c-${name}`, text, title: text });
    const due = cell("deadline", "");
    const waits = cell("waits", "");
    const said = r.state === "sending" ? "sending…" : r.said;
    const line = make(
      "div",
      { class: `fl-rr s-${r.state}`, role: "row", "data-request": r.id },
      make("span", { role: "gridcell" }, box),
      cell("run", r.run),
      cell("workflow", r.workflow),
      cell("step", r.step),
      make(
        "span",
        { role: "gridcell", class: "c-question", title: r.text },
        glyph(GLYPH_OF[/** @type {keyof typeof GLYPH_OF} */ (r.state)] ?? "idle"),
        make("span", { text: r.text }),
        r.state === "failed" ? "" : make("span", { class: "fl-rsaid", text: said }),
      ),
      waits,
      due,
    );
    if (r.state === "failed") line.append(make("span", { class: "fl-rsaid", role: "gridcell", text: said }));
    line.addEventListener("click", (/** @type {any} */ ev) => {
      if (ev.target === box) pick(r.id, box.checked);
      else {
        go(r.id);
        grid.focus({ preventScroll: true });
      }
    });
    return { el: line, row: JSON.stringify(r), due, waits, box };
  }

  function drawRows() {
    const rows = inSight();
    const kept = rows.map((r) => {
      const old = drawn.get(r.id);
      const made = old && old.row === JSON.stringify(r) ? old : makeRow(r);
      drawn.set(r.id, made);
      made.el.classList.toggle("at", r.id === at.cursor);
      made.el.setAttribute("aria-selected", String(r.id === at.cursor || selected.has(r.id)));
      made.box.checked = selected.has(r.id);
      made.box.disabled = !isOpen(r);
      return made.el;
    });
    for (const id of drawn.keys()) if (!rows.some((r) => r.id === id)) drawn.delete(id);
    if (kept.length !== body.childElementCount || kept.some((line, i) => body.children[i] !== line))
      body.replaceChildren(...kept);
    grid.classList.toggle("no-due", rows.every((r) => r.due === null));
    const more = table().more ? ` The list shows the first ${all().length}; ${table().more} more follow.` : "";
    empty.hidden = rows.length > 0 && !more;
    setText(empty, rows.length ? more : all().length ? "No question matches the filter." : `Nobody is asked anything.${more}`);
    const open = rows.filter(isOpen);
    every.checked = selected.size > 0 && open.every((r) => selected.has(r.id));
    every.indeterminate = selected.size > 0 && !every.checked;
    every.disabled = !open.length;
  }

  function drawPane() {
    const r = row(at.cursor);
    pane.hidden = !r && !selected.size;
    const aimed = aimedAt(all(), selected, at.cursor);
    const many = selected.size > 0;
    const [yes, no] = [aimed.rows[0]?.yes || "Approve", aimed.rows[0]?.no || "Reject"];
    const words = (/** @type {string} */ verb) => (many ? `${verb} ${aimed.rows.length > 1 ? "all" : "1"}` : verb);
    const confirmed = (/** @type {string} */ verb) => `${verb} ${aimed.rows.length}`;
    setText(approve.lastChild, at.confirms === "approve" ? confirmed(yes) : words(yes));
    setText(reject.lastChild, at.confirms === "reject" ? confirmed(no) : words(no));
    allow(approve, !aimed.why, aimed.why || `${yes} (a)`);
    allow(reject, !aimed.why, aimed.why || `${no} (r)`);
    allow(edit, isOpen(r) && !many, many ? "Edit opens one form: clear the selection first" : "Open the whole form (e)");
    approve.hidden = at.confirms === "reject";
    reject.hidden = at.confirms === "approve";
    edit.hidden = next.hidden = at.confirms !== "";
    sure.hidden = cancel.hidden = at.confirms === "";
    const verb = at.confirms === "approve" ? yes : no;
    setText(sure, at.confirms ? `${verb} ${questions(aimed.rows.length)}? This cannot be undone.` : "");
    if (many) setText(title, `${aimed.rows.length} selected`);
    else setText(title, r ? r.text : "");
    const content = many || !r ? undefined : contents.get(r.id);
    const facts = r && !many ? [["asked by", `${r.step || "the outside"} in ${r.workflow}, run ${r.run}`]] : [];
    const lines = [...facts, ...(content?.rows ?? []), ...(content?.digest ? [["content", content.digest.slice(0, 12)]] : [])];
    const isEditing = Boolean(r && edited() === r.id);
    shown.hidden = isEditing || !lines.length;
    const kids = lines.flatMap(([name, text]) => [make("dt", { text: name }), make("dd", { text })]);
    if (shown.textContent !== kids.map((k) => k.textContent).join("")) shown.replaceChildren(...kids);
    const why = many ? aimed.why : "";
    if (why !== mixed) setText(word, why);
    mixed = why;
  }

  function drawTimes() {
    const t = now();
    const isDead = isGone(root);
    for (const r of inSight()) {
      const made = drawn.get(r.id);
      if (!made) continue;
      setText(made.waits, r.since === null ? "" : span(t - r.since));
      setText(made.due, isOpen(r) && !isDead ? countdown(r, t) : "");
      made.due.title = made.due.textContent;
      made.due.classList.toggle("soon", isOpen(r) && r.due !== null && r.due - t < 30);
    }
  }

  function draw() {
    const rows = inSight();
    for (const id of selected) if (!isOpen(row(id))) selected.delete(id);
    if (selected.size < 2) at.confirms = "";
    // It never moves by itself from what somebody looks at to another one, which he might answer unseen.
    if (at.cursor && !row(at.cursor)) {
      at.cursor = "";
      at.isLost = rows.some(isOpen);
    }
    if (!at.cursor && !at.isLost) {
      at.cursor = rows.find(isOpen)?.id ?? "";
      clearTimeout(at.rest);
      at.rest = setTimeout(look, REST_MS);
    }
    setText(done, progress(table()));
    fault.hidden = !table().fault;
    setText(fault, table().fault ?? "");
    drawRows();
    drawPane();
    drawTimes();
  }

  // ---- messages down ----
  let before = all();
  let editing = table().editing?.id ?? "";
  const isInForm = () => Boolean(document.activeElement?.closest(".flownb-review-box .flownb-form"));
  function onTable() {
    since = performance.now();
    const rows = all();
    for (const r of rows) {
      const old = before.find((b) => b.id === r.id);
      if (old && old.state !== r.state && (r.state === "gone" || r.state === "failed"))
        setText(say, `${r.text}: ${r.said}`);
    }
    before = rows;
    const r = row(at.cursor);
    if (r?.state === "gone") setText(word, `${r.said}. n goes to the next one.`);
    if (r?.state === "done") {
      const following = nextOpen(inSight(), at.cursor);
      if (following) go(following);
    }
    // A form that is gone took the focus with it.
    const isLost = !document.activeElement || document.activeElement === document.body || isInForm();
    if (editing && !table().editing?.id && isLost) grid.focus({ preventScroll: true });
    editing = table().editing?.id ?? "";
    draw();
    if (at.focus > 0) enter();
  }

  /** @param {any} m */
  function onMessage(m) {
    if (m.kind === "content") {
      contents.set(m.id, m);
      while (contents.size > 20) contents.delete(contents.keys().next().value ?? "");
      draw();
    } else if (m.kind === "error" && m.id === at.cursor) tell(m.text);
  }

  const here = () => document.visibilityState === "visible" && root.isConnected && post({ kind: "here" });
  const hereTimer = setInterval(here, HERE_MS);
  const clockTimer = setInterval(drawTimes, 1000);
  document.addEventListener("visibilitychange", here);
  model.on("change:table", onTable);
  model.on("msg:custom", onMessage);
  post({ kind: "hello" });
  draw();

  return () => {
    model.off("change:table", onTable);
    model.off("msg:custom", onMessage);
    document.removeEventListener("visibilitychange", here);
    clearInterval(hereTimer);
    clearInterval(clockTimer);
    clearTimeout(at.rest);
    clearTimeout(at.left);
    unKey();
    unGuard();
    post({ kind: "bye" });
    root.remove();
  };
}

export default { render };
