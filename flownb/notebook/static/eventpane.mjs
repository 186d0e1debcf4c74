// @ts-check
// The Event pane: what the shown tick brought, what caused it and what it caused; its event can be another one in a fork.
import { button, make } from "./common.mjs";
import { count } from "./captions.mjs";
import { editor } from "./editor.mjs";

/** @param {string} text */
export const dim = (text) => make("p", { class: "fl-dim fl-hint", text });

/**
 * @typedef {{ seq: number, kind: string, step: string, event: string, t: number, detail: any, waits: string }} Shown
 * `detail` is null until it came; `waits` says in words why it is not there yet.
 * @param {{ go: (seq: number) => void, act: (kind: string, more: Record<string, any>, told?: (m: any) => boolean) => void }} hooks
 */
export function eventPane(hooks) {
  const facts = make("div", {});
  const other = button("fork", "Fork with another event…", () => open(), {
    cls: "small fl-other",
    tip: "a new run in which this tick brings another event",
  });
  const el = make("div", {}, facts, other);
  /** @type {{ seq: number, one: ReturnType<typeof editor> } | null} */
  let edit = null;
  let seq = 0;

  function open() {
    const mine = {
      seq,
      one: editor({ save: "Fork", tip: "begin the fork", onSave: save, onCancel: () => close(true) }),
    };
    edit = mine;
    other.hidden = true;
    el.append(mine.one.el);
    mine.one.wait();
    hooks.act("draft", { seq }, (m) => {
      if (m.kind === "draft") mine.one.load(m);
      else mine.one.refuse(m.text);
      return true;
    });
  }
  /** @param {boolean} [back] */
  function close(back = false) {
    edit?.one.el.remove();
    edit = null;
    other.hidden = false;
    if (back) other.focus({ preventScroll: true });
  }
  /** @param {string | null} text */
  function save(text) {
    const mine = edit;
    hooks.act("fork", { at: mine?.seq, text }, (m) => {
      if (m.kind === "error") mine?.one.refuse(m.text);
      else if (edit === mine) close();
      return m.kind === "error";
    });
  }

  return {
    el,
    /** @param {Shown} shown */
    draw(shown) {
      seq = shown.seq;
      if (edit && edit.seq !== seq) close();
      other.hidden = edit !== null || !shown.detail?.edit;
      facts.replaceChildren(...lines(shown, hooks.go));
    },
  };
}

/** @param {Shown} shown @param {(seq: number) => void} go @returns {Node[]} */
function lines(shown, go) {
  if (!shown.seq) return [dim("Before the first tick.")];
  const { detail } = shown;
  const what = shown.kind ? `${shown.step || "run"} ${shown.kind}` : "";
  const title = detail?.title || shown.event || what;
  const route = detail?.route || what;
  const when = Number.isFinite(shown.t) ? ` · ${shown.t.toFixed(3)} s` : "";
  const out = [
    make(
      "p",
      { class: "fl-what" },
      make("b", { text: title }),
      make("span", { class: "fl-dim", text: ` tick ${count(shown.seq)}${when}` }),
    ),
    make("p", { class: "fl-route", text: route }),
  ];
  if (!detail) return [...out, dim(shown.waits)];
  const pairs = (detail.payload ?? []).flatMap((/** @type {[string, string]} */ [name, text]) => [
    make("dt", { text: name, title: name }),
    name === "traceback" ? make("dd", {}, make("pre", { text })) : make("dd", { text, title: text }),
  ]);
  out.push(pairs.length ? make("dl", {}, ...pairs) : dim("No fields."));
  const cause = make("p", { class: "fl-cause" });
  links(cause, "caused by ", detail.causes ?? [], go);
  if (cause.childNodes.length && detail.effects?.length) cause.append(make("span", { class: "fl-dim", text: "· " }));
  links(cause, "causes ", detail.effects ?? [], go);
  if (cause.childNodes.length) out.push(cause);
  return out;
}

/** @param {any} into @param {string} words @param {number[]} seqs @param {(seq: number) => void} go */
function links(into, words, seqs, go) {
  if (!seqs.length) return;
  const most = 12;
  into.append(make("span", { class: "fl-dim", text: words }));
  for (const seq of seqs.slice(0, most)) {
    into.append(
      make("button", {
        type: "button",
        class: "fl-link",
        text: `#${seq}`,
        "aria-label": `go to tick ${seq}`,
        onclick: () => go(seq),
      }),
      " ",
    );
  }
  if (seqs.length > most) into.append(make("span", { class: "fl-dim", text: `and ${seqs.length - most} more ` }));
}
