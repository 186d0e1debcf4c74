// @ts-check
// All ticks of a run as columns, with a checkpoint every 256 ticks, so that the state at any tick is computed here: it
// works while a cell runs and after the kernel is dead. Pure.
import { STATES } from "./common.mjs";

export const COLUMNS = ["kind", "step", "event", "t", "ms", "keys", "d", "e"];
const EVERY = 256;
/** Ticks that are kept at least; up to 8 checkpoints' worth more before the oldest are dropped. */
export const KEPT = 10_000;
const SLACK = 8 * EVERY;

/** @typedef {{ s: Uint8Array, sub: string[], bar: (number[] | null)[], e: Uint32Array }} Picture */

export class History {
  /** @param {number} nodes @param {number} edges */
  constructor(nodes, edges) {
    this.nodeCount = nodes;
    this.edgeCount = edges;
    /** Index of the oldest tick kept, a multiple of 256; the tick at index i has seq i + 1. */
    this.first = 0;
    /** @type {Record<string, any[]>} */
    this.cols = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    /** @type {Picture[]} the picture before tick `first + 256 k` */
    this.marks = [];
    /** @type {Picture} the picture after the newest tick */
    this.now = this.blank();
  }

  /** Ticks there were, kept or not: the seq of the newest. */
  get length() {
    return this.first + this.cols.kind.length;
  }

  /**
   * Takes a chunk that begins at index `from`. What is there already is skipped.
   * @param {number} from
   * @param {Record<string, any[]>} cols
   * @returns {"took" | "old" | "gap"} "gap": ticks between are missing and must be asked for
   */
  take(from, cols) {
    const have = this.length;
    if (from > have) return "gap";
    const skip = have - from;
    const size = cols.kind.length;
    if (skip >= size && size > 0) return "old";
    for (let i = skip; i < size; i++) {
      if (this.cols.kind.length % EVERY === 0) this.marks.push(this.copy(this.now));
      for (const name of COLUMNS) this.cols[name].push(cols[name]?.[i] ?? "");
      this.apply(this.now, this.cols.kind.length - 1);
    }
    this.trim();
    return "took";
  }

  /**
   * The picture after `seq` ticks (0: before the first).
   * @param {number} seq
   * @returns {{ nodes: [string, string, number[] | null][], edges: number[] }}
   */
  at(seq) {
    const upTo = Math.min(Math.max(seq - this.first, 0), this.cols.kind.length);
    const mark = Math.min(Math.floor(upTo / EVERY), this.marks.length - 1);
    const picture = mark >= 0 ? this.copy(this.marks[mark]) : this.blank();
    for (let i = Math.max(mark, 0) * EVERY; i < upTo; i++) this.apply(picture, i);
    return {
      nodes: Array.from(picture.s, (s, i) => [STATES[s] ?? "idle", picture.sub[i], picture.bar[i]]),
      edges: Array.from(picture.e),
    };
  }

  /**
   * One column's value of the tick with this seq; "" if it is not kept.
   * @param {string} column @param {number} seq
   */
  get(column, seq) {
    return this.cols[column][seq - 1 - this.first] ?? "";
  }

  /** Drops the oldest checkpoints' ticks once there are too many. */
  trim() {
    const over = this.cols.kind.length - KEPT;
    if (over < SLACK) return;
    const drop = Math.floor(over / EVERY) * EVERY;
    for (const name of COLUMNS) this.cols[name].splice(0, drop);
    this.marks.splice(0, drop / EVERY);
    this.first += drop;
  }

  /** @returns {Picture} */
  blank() {
    return {
      s: new Uint8Array(this.nodeCount),
      sub: Array(this.nodeCount).fill(""),
      bar: Array(this.nodeCount).fill(null),
      e: new Uint32Array(this.edgeCount),
    };
  }

  /** @param {Picture} p @returns {Picture} */
  copy(p) {
    return { s: p.s.slice(), sub: p.sub.slice(), bar: p.bar.slice(), e: p.e.slice() };
  }

  /** @param {Picture} p @param {number} i place in the columns */
  apply(p, i) {
    for (const [node, state, sub, bar] of this.cols.d[i] || []) {
      if (node >= this.nodeCount) continue;
      p.s[node] = state;
      p.sub[node] = sub ?? "";
      p.bar[node] = bar ?? null;
    }
    for (const edge of this.cols.e[i] || []) if (edge < this.edgeCount) p.e[edge] += 1;
  }
}
