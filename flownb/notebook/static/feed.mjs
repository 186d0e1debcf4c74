// @ts-check
// The stream of ticks into the history: chunks come as they come, what is missing is asked for.
import { History } from "./history.mjs";

/** Ticks that are missing are asked for after this long, then each time after twice as long. */
const REPAIR_MS = 400;
const REPAIR_MOST_MS = 8000;

export class Feed {
  /** @param {(from: number) => void} ask for the ticks from this index on */
  constructor(ask) {
    this.ask = ask;
    this.history = new History(0, 0);
    /** Ticks the run is known to have. */
    this.total = 0;
    this.wait = REPAIR_MS;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /** Begins anew, for a graph of this size. @param {number} nodes @param {number} edges */
  reset(nodes, edges) {
    this.dispose();
    this.history = new History(nodes, edges);
    this.total = 0;
    this.wait = REPAIR_MS;
  }

  /**
   * Takes a `ticks` message.
   * @param {{ from: number, total?: number, cols: Record<string, any[]> }} message
   * @returns {boolean} whether there is something new
   */
  take(message) {
    this.total = Math.max(this.total, message.total ?? 0);
    const before = this.history.length;
    const took = this.history.take(message.from, message.cols);
    const isNew = took === "took" && this.history.length > before;
    if (isNew) {
      this.dispose();
      this.wait = REPAIR_MS;
      // A full chunk with more behind it: the next is asked for at once.
      if (this.isShort()) this.ask(this.history.length);
    }
    this.expect(0);
    return isNew;
  }

  /** The run is known to have `total` ticks; if some do not come by themselves they are asked for, ever more patiently. @param {number} total */
  expect(total) {
    this.total = Math.max(this.total, total);
    if (this.timer !== undefined || !this.isShort()) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (!this.isShort()) return;
      this.ask(this.history.length);
      this.wait = Math.min(this.wait * 2, REPAIR_MOST_MS);
      this.expect(0);
    }, this.wait);
  }

  isShort() {
    return this.history.length < this.total;
  }

  dispose() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
