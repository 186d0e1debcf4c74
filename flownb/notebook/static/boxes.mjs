// @ts-check
// The boxes that the controls open: Run to…, breakpoints, Edit & retry, keys.
import { editor } from "./editor.mjs";
import { helpList } from "./keys.mjs";
import { make } from "./common.mjs";
import { runToForm } from "./runto.mjs";
import { stopList } from "./stops.mjs";

/**
 * @typedef {(kind: string, more?: Record<string, any>, told?: (m: any) => boolean) => number} Intend
 * @param {ReturnType<typeof import("./popovers.mjs").popovers>} pops
 * @param {{ buttons: Record<string, any>, stops: any, help: any }} row the controls
 * @param {{ intend: Intend, goOn: (kind: string, more?: Record<string, any>) => number, shows: (m: any) => boolean,
 *   look: () => { graph: any, live: any, at: { node: number, seq: number } } }} hooks
 * @param {string} uid
 */
export function debuggerBoxes(pops, row, hooks, uid) {
  const goals = runToForm(
    {
      go(goal) {
        pops.close();
        hooks.goOn("run_to", goal);
      },
    },
    uid,
  );
  const runTo = pops.add(
    {
      cls: "fl-runto",
      title: "Run to",
      anchor: row.buttons.runTo,
      opened() {
        const { graph, live, at } = hooks.look();
        goals.open(graph, { label: graph.nodes?.[at.node]?.label ?? "", last: live.tick ?? 0 });
      },
    },
    goals.el,
  );

  const list = stopList({
    set: (n, to) => hooks.intend("breakpoint", { n, to }),
    add: (spot, told) =>
      hooks.intend("break_at", spot, (m) => {
        told(m.kind === "error" ? m.text : "");
        return true;
      }),
  });
  const stops = pops.add(
    { cls: "fl-breaks", title: "Breakpoints", anchor: row.stops, opened: () => list.open(hooks.look().graph) },
    list.el,
  );

  const again = retryBox(hooks, () => pops.close());
  const retry = pops.add(
    { cls: "fl-retry", title: "Edit & retry", anchor: row.buttons.retry, opened: again.open },
    again.el,
  );

  const { kids, store } = helpList();
  const help = pops.add({ cls: "fl-help-box", title: "Keys of the panel", anchor: row.help }, ...kids);
  return {
    runTo,
    stops,
    retry,
    help,
    store,
    /** @param {any} live */
    draw(live) {
      list.draw(live.stops ?? []);
    },
  };
}

/**
 * The failed event as JSON, and the button that tries again in a fork. What was typed is there when it is opened again.
 * @param {{ intend: Intend, shows: (m: any) => boolean, look: () => { live: any } }} hooks @param {() => void} close
 */
function retryBox(hooks, close) {
  const what = make("p", { class: "fl-dim fl-hint" });
  const el = make("div", {}, what);
  /** @type {{ of: string, one: ReturnType<typeof editor> } | null} */
  let edit = null;

  function open() {
    const { step = "", what: words = "" } = hooks.look().live.retry ?? {};
    what.textContent = `A new run from just before ${words ? `“${words}”` : "the failure"}: what was done before is not done again.`;
    const of = JSON.stringify(hooks.look().live.retry ?? null);
    if (edit?.of === of && edit.one.isDirty()) return edit.one.area.focus({ preventScroll: true });
    edit?.one.el.remove();
    const one = editor({
      save: "Retry",
      tip: "begin the new run",
      onSave: (text) => save(one, step, text),
      onCancel: close,
    });
    edit = { of, one };
    el.append(one.el);
    one.wait();
    hooks.intend("draft", { step }, (m) => {
      if (m.kind === "draft") one.load(m, "It is tried again as it was: no single event failed.");
      else one.refuse(m.text);
      return true;
    });
  }

  /** @param {ReturnType<typeof editor>} one @param {string} step @param {string | null} text */
  function save(one, step, text) {
    hooks.intend("retry", { step, ...(text === null ? {} : { text }) }, (m) => {
      if (m.kind === "error") one.refuse(m.text);
      else {
        edit?.one.el.remove();
        edit = null;
        close();
        hooks.shows(m);
      }
      return m.kind === "error";
    });
  }

  return { el, open };
}
