// @ts-check
// Plays the past: goes from tick to tick by itself, at a speed that a person picks. It knows nothing of panes: who makes
// it says where it stands and how to go somewhere.
import { button, icon, make } from "./common.mjs";

/** Ticks a second at the speed ×1. */
const PACE = 2;
export const SPEEDS = [0.5, 1, 2, 4, 10, 50];
/** More pictures a second than that nobody sees: above it, each beat goes on by several ticks. */
const MOST_BEATS = 20;

/**
 * How often it goes on at a speed, and by how much.
 * @param {number} speed
 * @returns {{ ms: number, ticks: number }}
 */
export function beat(speed) {
  const rate = PACE * speed;
  const ticks = Math.max(1, Math.ceil(rate / MOST_BEATS));
  return { ms: (1000 * ticks) / rate, ticks };
}

/** @param {number} speed */
export const speedWords = (speed) => `×${speed === 0.5 ? "½" : speed}`;

export class Player {
  /**
   * @param {{ at: () => { seq: number, first: number, last: number }, go: (seq: number) => void, changed: () => void }} hooks
   * at: the tick shown, the oldest one and the newest one; changed: it plays, stands still or has another speed now
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.speed = 1;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  get isPlaying() {
    return this.timer !== undefined;
  }

  /** Plays from the tick shown on; from the newest one, all over again. */
  play() {
    const { seq, first, last } = this.hooks.at();
    if (this.isPlaying || last <= first) return;
    if (seq >= last) this.hooks.go(first);
    this.wait();
    this.hooks.changed();
  }

  pause() {
    if (!this.isPlaying) return;
    this.dispose();
    this.hooks.changed();
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  /** @param {number} speed one of SPEEDS */
  setSpeed(speed) {
    if (speed === this.speed || !SPEEDS.includes(speed)) return;
    this.speed = speed;
    if (this.isPlaying) this.wait();
    this.hooks.changed();
  }

  /** The next speed up or down. @param {number} by 1 or -1 */
  shift(by) {
    this.setSpeed(SPEEDS[SPEEDS.indexOf(this.speed) + by] ?? this.speed);
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.next(), beat(this.speed).ms);
  }

  next() {
    const { seq, last } = this.hooks.at();
    const to = Math.min(last, seq + beat(this.speed).ticks);
    this.timer = undefined;
    // Armed before it is drawn, so that what `go` draws says that it plays.
    if (to < last) this.wait();
    this.hooks.go(to);
    if (!this.isPlaying) this.hooks.changed();
  }

  dispose() {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/**
 * The button and the choice of the speed for a player; `draw` after each of its changes.
 * @param {{ toggle: () => void, setSpeed: (speed: number) => void }} hooks
 */
export function playControls(hooks) {
  const tip = "play the ticks one after the other";
  const play = button("play", "play", hooks.toggle, { tip, key: "Space", quiet: true, cls: "bare" });
  const speed = make(
    "select",
    { class: "fl-speed", "aria-label": "speed", title: `ticks a second: ×1 is ${PACE}` },
    ...SPEEDS.map((s) => make("option", { value: s, text: speedWords(s) })),
  );
  speed.addEventListener("change", () => hooks.setSpeed(Number(speed.value)));
  let wasPlaying = false;
  return {
    el: make("span", { class: "fl-play", role: "group", "aria-label": "playing" }, play, speed),
    play,
    /** @param {boolean} isPlaying @param {number} at the speed */
    draw(isPlaying, at) {
      if (isPlaying !== wasPlaying) {
        wasPlaying = isPlaying;
        play.replaceChildren(icon(isPlaying ? "rest" : "play"));
        play.setAttribute("aria-label", isPlaying ? "stop playing" : "play");
      }
      speed.value = String(at);
    },
  };
}
