// @ts-check
// A run without a kernel: the panes of the panel, fed from what the page itself holds.
import { button, clamp, make, setText } from "./common.mjs";
import { Player, playControls } from "./play.mjs";
import { count, tally } from "./captions.mjs";
import { graphPane } from "./graph.mjs";
import { tickTable } from "./ticks.mjs";
import { inspector } from "./inspector.mjs";
import { header } from "./header.mjs";
import { setDisabled } from "./controls.mjs";
import { slider } from "./slider.mjs";
import { problems } from "./problems.mjs";
import { narration } from "./narration.mjs";
import { popovers } from "./popovers.mjs";
import { helpList, panelKeys } from "./keys.mjs";
import { Recording } from "./page_data.mjs";

/** @type {[string, string][]} */
const PAGE_KEYS = [
  ["Space", "play, or stop playing"],
  ["+ −", "play faster, slower"],
  ["← or b, → or n", "one tick back, one on"],
  ["Home, End", "before the first tick, to the last one"],
  ["/", "filter the ticks"],
  ["arrows in the graph", "from step to step; Enter shows its ticks"],
  ["#12 in the address", "opens the page at tick 12"],
];

/** What the Queue pane shows of a gate, where there is none. */
const NO_GATE = { past: true, paused: false, inbox: [], work: [], waits: 0, timers: [], held: /** @type {any[]} */ ([]), now: () => 0 };

/** The tick that an address names, as "#12" or "#tick=12"; -1 for none. @param {string} hash */
export const tickOf = (hash) => Number(/^#(?:tick=)?(\d+)$/.exec(hash)?.[1] ?? -1);

/**
 * Puts a recorded run into `el`.
 * @param {any} data see `recording.py` @param {HTMLElement} el
 */
export function replayPage(data, el) {
  const recording = new Recording(data);
  const { graph, history } = recording;
  const at = { seq: recording.last, before: -1, node: -1, frame: 0 };
  const nothing = () => {};

  // ---- the parts ----
  const player = new Player({
    at: () => ({ seq: at.seq, first: recording.first, last: recording.last }),
    go: show,
    changed: later,
  });
  const root = make("main", {
    class: "flownb fl-page",
    tabindex: -1,
    "aria-label": `run ${graph.name ?? ""} ${graph.run ?? ""}`.trim(),
  });
  const pops = popovers(root);
  const top = header({ toggle: nothing, pause: nothing, cont: nothing, step: nothing, close: nothing, bell: nothing });
  top.fold.remove();
  const rail = slider({ go, back: () => go(at.seq - 1), forward: () => go(at.seq + 1), live: () => go(recording.last) });
  const play = playControls({ toggle: () => player.toggle(), setSpeed: (speed) => player.setSpeed(speed) });
  const help = button("help", "keys", () => keys.toggle(), { quiet: true, cls: "bare", key: "?" });
  const telling = narration();
  telling.el.setAttribute("role", "status");
  // Of one tick, what differs from the one before is in the page; against other ticks it is not.
  const inspect = inspector({ go, against: nothing, act: nothing }, "page");
  const table = tickTable({ go, clear: () => select(-1), stop: nothing });
  const pane = graphPane(graph, { select, stop: nothing });
  const wrong = problems({ select: (step) => select(graph.nodes.findIndex((/** @type {any} */ n) => n.label === step)) });
  rail.el.querySelector(".live")?.remove();
  rail.el.prepend(play.el);
  rail.el.append(help);
  root.append(
    top.head,
    rail.el,
    telling.el,
    make("div", { class: `fl-main ${graph.tall === false ? "wide" : "tall"}` }, pane.el, inspect.el, table.el),
    wrong.el,
    foot(data),
  );
  const keys = pops.add({ cls: "fl-help-box", title: "Keys", anchor: help }, ...helpList(PAGE_KEYS).kids);
  el.append(root);

  // ---- what the person does ----
  /** A person goes somewhere, so nothing plays on. @param {number} seq */
  function go(seq) {
    player.pause();
    show(seq);
  }

  /** @param {number} seq */
  function show(seq) {
    at.seq = clamp(seq, recording.first, recording.last);
    later();
  }

  /** @param {number} node picked again it is let go */
  function select(node) {
    at.node = node === at.node ? -1 : node;
    table.pick(at.node, graph.nodes?.[at.node]?.label ?? "");
    later();
  }

  const unKey = panelKeys(document.body, {
    b: () => go(at.seq - 1),
    ArrowLeft: () => go(at.seq - 1),
    n: () => go(at.seq + 1),
    ArrowRight: () => go(at.seq + 1),
    Home: () => go(recording.first),
    End: () => go(recording.last),
    " ": () => player.toggle(),
    "+": () => player.shift(1),
    "-": () => player.shift(-1),
    "/": () => table.filter.focus(),
    "?": () => keys.toggle(),
    Escape: () => pops.close(),
  });
  const onHash = () => tickOf(location.hash) >= 0 && go(tickOf(location.hash));
  window.addEventListener("hashchange", onHash);

  // ---- drawing ----
  function later() {
    if (!at.frame) at.frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(at.frame);
    at.frame = 0;
    const { seq } = at;
    const picture = history.at(seq);
    pane.draw(picture, at.node, seq === at.before + 1);
    at.before = seq;
    const read = (/** @type {string} */ column) => history.get(column, seq);
    const what = recording.has(seq) ? `${read("step") || "run"} ${read("kind")}` : "";
    rail.draw({ seq, first: recording.first, last: recording.last, isLive: seq === recording.last, what });
    setDisabled(rail.back, seq <= recording.first, root);
    setDisabled(rail.forward, seq >= recording.last, root);
    play.draw(player.isPlaying, player.speed);
    const live = recording.live(seq);
    root.dataset.status = live.status;
    root.dataset.tick = String(seq);
    top.draw(live, tally(picture.nodes, graph.nodes ?? []));
    top.clock(recording.seconds(seq));
    // While it plays a screen reader would read without an end.
    telling.el.setAttribute("aria-live", player.isPlaying ? "off" : "polite");
    telling.draw({ seq, last: recording.last, told: recording.told(seq), note: "" });
    table.at(seq, false);
    const late = "Left out of this page for its size.";
    inspect.set({
      seq: recording.has(seq) ? seq : 0,
      kind: read("kind"),
      step: read("step"),
      event: read("event"),
      t: recording.has(seq) ? recording.seconds(seq) : NaN,
      detail: recording.detail(seq),
      compared: null,
      against: null,
      last: recording.last,
      waits: late,
      queue: { ...NO_GATE, seq, queue: recording.queue(seq), late },
    });
    wrong.failure(live.error);
  }

  top.name(graph);
  rail.marks(history.cols.kind, history.cols.event);
  table.set(history);
  if (tickOf(location.hash) >= 0) at.seq = clamp(tickOf(location.hash), recording.first, recording.last);
  draw();
  table.follow();

  return () => {
    window.removeEventListener("hashchange", onHash);
    cancelAnimationFrame(at.frame);
    unKey();
    pops.dispose();
    player.dispose();
    pane.dispose();
    table.dispose();
    root.remove();
  };
}

/** What the page is, and what it has not. @param {any} data */
function foot(data) {
  const ticks = `${count(data.total)} ${data.total === 1 ? "tick" : "ticks"}`;
  const words = `Recorded ${data.made} · ${ticks} · works without a network and without a kernel`;
  const left = (data.left_out ?? []).map((/** @type {string} */ text) => make("span", { class: "fl-left", text }));
  return make("footer", { class: "fl-foot fl-dim" }, make("span", { text: words }), ...left);
}
