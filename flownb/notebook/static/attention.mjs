// @ts-check
// How a page tells a person who looks elsewhere that questions are open: in its title, and by notifications of the
// browser if the person allowed them. All panels of a page share one board.
import { count } from "./captions.mjs";

const MARK = /● [\d,]+ needs? you · /g;
const BOARD = Symbol.for("flownb.attention.1");

/** A title without our words. @param {string} title */
export const untitled = (title) => title.replace(MARK, "");

/** A title with them: "● 2 need you · triage.ipynb". @param {string} base @param {number} n */
export const titled = (base, n) => (n > 0 ? `● ${count(n)} ${n === 1 ? "needs" : "need"} you · ${base}` : base);

/**
 * @typedef {{ run: string, ids: string[], needs: number }} Asks  of one panel: open questions that are listed, and how many
 *   are open
 */

/** How many questions several panels ask; one that two of them show counts once. @param {Iterable<Asks>} panels */
export function total(panels) {
  const ids = new Set();
  /** @type {Map<string, number>} of a run, open questions that are not listed */
  const more = new Map();
  for (const { run, ids: listed, needs } of panels) {
    for (const id of listed) ids.add(id);
    more.set(run, Math.max(more.get(run) ?? 0, needs - listed.length));
  }
  return [...more.values()].reduce((sum, n) => sum + Math.max(0, n), ids.size);
}

/** The title of a page, as long as questions are open; the application may write it meanwhile. */
export class Board {
  /** @param {{ title: string }} page @param {(changed: () => void) => () => void} watch calls when the title may be new */
  constructor(page, watch) {
    this.page = page;
    this.watch = watch;
    /** @type {Map<string, Asks>} by view */
    this.panels = new Map();
    /** @type {Set<string>} questions that somebody was told of */
    this.told = new Set();
    this.base = "";
    this.shown = "";
    /** @type {null | (() => void)} */
    this.unwatch = null;
  }

  /** What a panel asks now; null for nothing. @param {string} view @param {Asks | null} asks */
  set(view, asks) {
    if (asks && asks.needs > 0) this.panels.set(view, asks);
    else this.panels.delete(view);
    this.draw();
  }

  draw() {
    const n = total(this.panels.values());
    if (n) {
      if (!this.unwatch) {
        this.base = this.page.title;
        this.shown = this.base;
        this.unwatch = this.watch(() => this.draw());
      }
      if (this.page.title !== this.shown) this.base = untitled(this.page.title); // the application wrote another one
      this.shown = titled(this.base, n);
      if (this.page.title !== this.shown) this.page.title = this.shown;
    } else if (this.unwatch) {
      this.unwatch();
      this.unwatch = null;
      this.page.title = this.page.title === this.shown ? this.base : untitled(this.page.title);
    }
  }
}

/** The board of this page. @returns {Board} */
function board() {
  const page = /** @type {any} */ (window);
  return (page[BOARD] ??= new Board(document, (changed) => {
    const observer = new MutationObserver(changed);
    observer.observe(document.head, { childList: true, subtree: true, characterData: true });
    return () => observer.disconnect();
  }));
}

/** Whether nobody looks at the page. */
const isAway = () => document.hidden || !document.hasFocus();

/**
 * One panel's part: the title, the bell, the notifications.
 * @param {{ root: HTMLElement, view: string, wish: (on: boolean) => void, refuse: (text: string) => void }} panel
 */
export function attention({ root, view, wish, refuse }) {
  const own = board();
  /** @type {Map<string, any>} notifications that stand, by question */
  const standing = new Map();
  const api = () => /** @type {any} */ (window).Notification;

  /** @param {any} live @param {string} name @param {any} q */
  function tell(live, name, q) {
    const mayTell = live.notify && api()?.permission === "granted";
    if (isAway() && !mayTell) return; // another panel of the page may, or this one later
    own.told.add(q.id);
    if (!isAway()) return;
    try {
      // The tag: of two pages with the same panel only one is seen.
      const note = new (api())(`${name} needs you`, { body: `${q.step}: ${q.title} ${q.about ?? ""}`.trim().slice(0, 200), tag: q.id });
      note.onclick = () => {
        window.focus();
        root.scrollIntoView({ block: "nearest" });
        root.focus({ preventScroll: true });
        note.close();
      };
      standing.set(q.id, note);
    } catch (error) {
      console.warn("flownb: this browser shows no notification", error);
    }
  }

  return {
    /** @param {any} live @param {{ run?: string, name?: string }} graph @param {boolean} gone the kernel is */
    draw(live, graph, gone) {
      const open = live.ended || live.bye || gone ? [] : (live.questions ?? []);
      const ids = open.map((/** @type {any} */ q) => q.id);
      own.set(view, open.length ? { run: graph.run ?? "", ids, needs: live.needs ?? 0 } : null);
      for (const q of open) if (!own.told.has(q.id)) tell(live, graph.name ?? "run", q);
      for (const [id, note] of standing) {
        if (ids.includes(id)) continue;
        note.close();
        standing.delete(id);
      }
    },
    /** The bell was clicked: the only place where the browser is asked for permission. @param {any} live */
    async ring(live) {
      if (live.notify && api()?.permission === "granted") return wish(false);
      const said = api() ? await api().requestPermission() : "denied";
      if (said === "granted") wish(true);
      else if (said === "denied")
        refuse("The browser does not allow notifications of this page. Its settings for this site can change that.");
    },
    /** How the bell looks: "none" where there are no notifications, "on", "off", "ask". @param {any} live */
    bell(live) {
      if (!api()) return "none";
      if (!live.notify) return "off";
      return api().permission === "granted" ? "on" : "ask";
    },
    dispose() {
      for (const note of standing.values()) note.close();
      standing.clear();
      own.set(view, null);
    },
  };
}
