// @ts-check
// The Queue pane: what waits before the gate and what can be done with it, timers, and what runs, is queued and waits.
import { button, make, setText } from "./common.mjs";
import { count, took } from "./captions.mjs";
import { editor } from "./editor.mjs";

/**
 * @typedef {{ id: number, what: string, brings: string, does: string, admit: boolean, edit: boolean, drop: boolean, edited: boolean }} Entry
 * @typedef {{ id: number, what: string, due: number }} TimerLine
 * @typedef {{ past: boolean, seq: number, paused: boolean, queue: [string, string][] | null, inbox: Entry[], work: Entry[], waits: number,
 *   timers: TimerLine[], held: [string, string][], now: () => number, late: string }} Shown
 * `queue` is null until it came. `now`: the run's clock in seconds.
 */

/** What the tab says. @param {Shown} shown */
export const queued = (shown) => (shown.past ? (shown.queue?.length ?? 0) : shown.waits + (shown.queue?.length ?? 0));

/** "in 4.2 s", "due". @param {number} seconds */
export const dueIn = (seconds) => (seconds <= 0 ? "due" : `in ${took(Math.max(1, seconds * 1000))}`);

/**
 * @param {{ act: (kind: string, more: Record<string, any>, told?: (m: any) => boolean) => void }} hooks `told` gets the
 * answer; gives true if it showed it
 */
export function queuePane(hooks) {
  const hint = make("p", { class: "fl-dim fl-hint" });
  const gate = make("div", { class: "fl-sub" });
  const entries = make("ul", { class: "fl-inbox" });
  const more = make("p", { class: "fl-dim fl-hint" });
  const clocks = make("div", { class: "fl-sub", text: "Timers" });
  const timers = make("ul", { class: "fl-inbox fl-timers" });
  const ready = make("div", { class: "fl-sub", text: "Waiting for a worker" });
  const work = make("ul", { class: "fl-inbox fl-work" });
  const rest = make("div", { class: "fl-sub", text: "In the run" });
  const list = make("ul", { class: "fl-queue" });
  const el = make("div", { class: "fl-queuepane" }, hint, gate, entries, more, ready, work, clocks, timers, rest, list);
  /** @type {Map<number, ReturnType<typeof entryRow>>} */
  const rows = new Map();
  /** @type {Map<number, ReturnType<typeof entryRow>>} */
  const workRows = new Map();
  /** @type {Map<number, ReturnType<typeof timerRow>>} */
  const clockRows = new Map();
  let drawn = "";

  /** @param {Entry} entry @param {"entry" | "work"} kind before the gate, or behind it and not begun */
  function entryRow(entry, kind) {
    const name = { [kind]: entry.id };
    const place = make("span", { class: "fl-place" });
    const what = make("b", {});
    const brings = make("span", { class: "fl-dim fl-brings mono" });
    const mark = make("span", { class: "fl-tag", text: "edited", hidden: true });
    const does = make("span", { class: "fl-dim fl-does" });
    const act = (/** @type {"admit" | "drop"} */ verb) => () => {
      const b = buttons[verb];
      b.disabled = true;
      hooks.act(verb, name, () => ((b.disabled = false), false));
    };
    const buttons = {
      admit: button("cont", "Admit now", act("admit"), { cls: "small", tip: "admit it now, ahead of those before it" }),
      edit: button("wrote", "Edit", () => toggle(), { cls: "small", tip: "edit its event’s fields", quiet: true }),
      drop: button("trash", "Drop", act("drop"), {
        cls: "small no",
        tip: "drop it: its event goes nowhere",
        quiet: true,
      }),
    };
    const acts = make("span", { class: "fl-entryacts" }, buttons.admit, buttons.edit, buttons.drop);
    const words = make(
      "span",
      { class: "fl-entrywords" },
      make("span", { class: "fl-entrywhat" }, place, what, brings, mark),
      does,
    );
    const li = make("li", { [`data-${kind}`]: entry.id }, make("div", { class: "fl-entry" }, words, acts));
    /** @type {ReturnType<typeof editor> | null} */
    let edit = null;

    function toggle() {
      if (edit) return close();
      const one = editor({ save: "Save", tip: "put this event in its place", onSave: save, onCancel: close });
      edit = one;
      li.append(one.el);
      one.wait();
      hooks.act("draft", name, (m) => {
        if (edit !== one) return true;
        if (m.kind === "draft") one.load(m);
        else one.refuse(m.text);
        return true;
      });
    }
    function close() {
      edit?.el.remove();
      edit = null;
      if ((kind === "entry" ? rows : workRows).has(entry.id) && !li.classList.contains("gone"))
        buttons.edit.focus({ preventScroll: true });
      else li.remove();
    }
    function save(/** @type {string | null} */ text) {
      const one = edit;
      hooks.act("edit", { ...name, text }, (m) => {
        if (m.kind === "error") one?.refuse(m.text);
        else if (edit === one) close();
        return true;
      });
    }

    return {
      li,
      /** @param {Entry} now @param {number} i */
      draw(now, i) {
        setText(place, kind === "work" ? "" : i === 0 ? "next" : `${i + 1}`);
        setText(what, now.what);
        what.title = now.what;
        setText(brings, now.brings);
        brings.title = now.brings;
        setText(does, now.does ? `→ ${now.does}` : "");
        does.title = now.does;
        mark.hidden = !now.edited;
        buttons.admit.hidden = !now.admit;
        buttons.edit.hidden = !now.edit;
        buttons.drop.hidden = !now.drop;
      },
      /** It is not there any more. An editor that is open stays with its text until it is closed. */
      leave() {
        if (!edit?.isDirty()) return li.remove();
        li.classList.add("gone");
        setText(does, "It does not wait any more. Your text is still here.");
        for (const b of Object.values(buttons)) b.hidden = true;
      },
    };
  }

  /** @param {TimerLine} timer */
  function timerRow(timer) {
    const due = make("span", { class: "fl-dim mono" });
    const fire = button(
      "fire",
      "Fire now",
      () => {
        fire.disabled = true;
        hooks.act("fire", { timer: timer.id }, () => ((fire.disabled = false), false));
      },
      { cls: "small", tip: "let this happen now" },
    );
    const what = make("span", { class: "fl-entrywords", text: timer.what, title: timer.what });
    const li = make("li", { "data-timer": timer.id }, make("div", { class: "fl-entry" }, what, due, fire));
    return { li, due, fire, at: timer.due };
  }

  return {
    el,
    /** @param {Shown} shown */
    draw(shown) {
      const { now, ...facts } = shown;
      for (const row of clockRows.values()) setText(row.due, dueIn(row.at - now()));
      const key = JSON.stringify(facts);
      if (key === drawn) return;
      drawn = key;
      const { past, queue } = shown;
      const inbox = past ? [] : shown.inbox;
      const clock = past || !shown.paused ? [] : shown.timers;
      const waiting = past ? [] : shown.work;
      setText(hint, hintOf(shown));
      hint.hidden = !hint.textContent;
      gate.hidden = !inbox.length;
      setText(gate, `Before the gate: ${count(shown.waits)}`);
      keyed(
        entries,
        rows,
        inbox,
        (entry) => entryRow(entry, "entry"),
        (row, entry, i) => row.draw(entry, i),
        (row) => row.leave(),
      );
      ready.hidden = !waiting.length;
      keyed(
        work,
        workRows,
        waiting,
        (entry) => entryRow(entry, "work"),
        (row, entry, i) => row.draw(entry, i),
        (row) => row.leave(),
      );
      const left = past ? 0 : shown.waits - inbox.length;
      more.hidden = !(inbox.length && left > 0);
      setText(more, `and ${count(left)} more`);
      clocks.hidden = !clock.length;
      keyed(
        timers,
        clockRows,
        clock,
        timerRow,
        (row) => setText(row.due, dueIn(row.at - now())),
        (row) => row.li.remove(),
      );
      const lines = (queue ?? []).filter(
        ([what]) => !(clock.length && what === "timer") && !(waiting.length && what === "queued"),
      );
      /** @type {[string, string][]} */
      const all = [
        ...(past
          ? []
          : shown.held.map(([step, what]) => /** @type {[string, string]} */ (["held", `${step}: ${what}`]))),
        ...lines,
      ];
      rest.hidden = !all.length || !(inbox.length || clock.length || waiting.length);
      list.replaceChildren(...all.map(queueLine));
    },
  };
}

/** @param {Shown} shown */
function hintOf(shown) {
  if (!shown.queue) return shown.late;
  const is = shown.past ? "was" : "is";
  if (shown.queue.length + (shown.past ? 0 : shown.waits) === 0) return `Nothing ${is} queued, running or waiting.`;
  return shown.past ? `As it was after tick ${count(shown.seq)}.` : "";
}

/** @param {[string, string]} pair */
const queueLine = ([what, text]) =>
  make(
    "li",
    { class: `q-${/^\w+$/.test(what) ? what : "other"}` },
    make("b", { text: what }),
    make("span", { text, title: text }),
  );

/**
 * Rows of a list that keep their elements as long as their entry is there: what is typed in one is not lost.
 * @template {{ li: any }} Row
 * @template {{ id: number }} Item
 * @param {any} ul @param {Map<number, Row>} rows @param {Item[]} items @param {(item: Item) => Row} create
 * @param {(row: Row, item: Item, i: number) => void} update @param {(row: Row) => void} leave
 */
function keyed(ul, rows, items, create, update, leave) {
  const ids = new Set(items.map((item) => item.id));
  for (const [id, row] of rows) {
    if (ids.has(id)) continue;
    rows.delete(id);
    leave(row);
  }
  items.forEach((item, i) => {
    const row = rows.get(item.id) ?? create(item);
    rows.set(item.id, row);
    if (ul.children[i] !== row.li) ul.insertBefore(row.li, ul.children[i] ?? null);
    update(row, item, i);
  });
}
