// @ts-check
// A run that is read from the page itself instead of a kernel: what Python recorded, tick by tick. Pure.
import { STATES } from "./common.mjs";
import { History } from "./history.mjs";

/** @typedef {{ title: string, route: string, payload: [string, string][], state: any[], causes: number[], effects: number[], log: string, edit: boolean }} Detail */

export class Recording {
  /** @param {any} data see `recording.py` */
  constructor(data) {
    this.data = data;
    this.graph = data.graph ?? {};
    this.history = historyOf(data);
  }

  get first() {
    return this.history.first;
  }

  get last() {
    return this.history.length;
  }

  /** @param {number} seq @returns {boolean} whether the tick is one of those that the page has */
  has(seq) {
    return seq > this.first && seq <= this.last;
  }

  /** What the inspector shows, null if it is not in the page. @param {number} seq @returns {Detail | null} */
  detail(seq) {
    const found = this.data.details?.[seq];
    if (!found) return null;
    return { ...found, edit: false, log: found.log < 0 ? "" : (this.data.logs[found.log] ?? "") };
  }

  /** A sentence about the tick. @param {number} seq @returns {string} */
  told(seq) {
    if (seq <= this.first) return this.first ? "Earlier ticks are not in this page." : "Before the first tick.";
    return this.data.told[seq - 1 - this.first] ?? "";
  }

  /** What was queued, running and waited for after the tick. @param {number} seq @returns {[string, string][]} */
  queue(seq) {
    return (this.data.queues[seq - 1 - this.first] ?? []).map((/** @type {number} */ i) => this.data.lines[i]);
  }

  /** Seconds from the start of the run to the tick. @param {number} seq */
  seconds(seq) {
    return Number(this.history.get("t", seq)) || 0;
  }

  /**
   * The run after the tick, as the panel's header wants it.
   * @param {number} seq
   * @returns {{ status: string, needs: number, paused: boolean, ended: boolean, tick: number, error: any }}
   */
  live(seq) {
    const status = this.data.status;
    let low = 0;
    for (let high = status.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (status[middle][0] <= seq) low = middle + 1;
      else high = middle;
    }
    const [, name, needs, paused] = status[low - 1] ?? [0, "", 0, false];
    const ended = ENDED.has(name);
    return { status: name, needs, paused, ended, tick: seq, error: ended && seq === this.last ? this.data.error : null };
  }
}

/** Statuses after which nothing moves, or at least nobody moves it. */
const ENDED = new Set(["completed", "failed", "timed_out", "cancelled", "suspended"]);

/** @param {any} data @returns {History} */
function historyOf(data) {
  const nodes = data.graph?.nodes?.length ?? 0;
  const edges = data.graph?.edges?.length ?? 0;
  const history = new History(nodes, edges);
  history.first = data.first ?? 0;
  (data.start?.nodes ?? []).forEach((/** @type {any} */ [state, sub, bar], /** @type {number} */ i) => {
    if (i >= nodes) return;
    history.now.s[i] = Math.max(0, STATES.indexOf(state));
    history.now.sub[i] = sub;
    history.now.bar[i] = bar;
  });
  (data.start?.edges ?? []).forEach((/** @type {number} */ n, /** @type {number} */ i) => {
    if (i < edges) history.now.e[i] = n;
  });
  history.take(history.first, data.cols);
  return history;
}
