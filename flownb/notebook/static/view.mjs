// @ts-check
// The panel: puts the panes together, draws what the traits say, looks back without asking Python.
import { clamp, make } from "./common.mjs";
import { announcement, tally } from "./captions.mjs";
import { Feed } from "./feed.mjs";
import { graphPane } from "./graph.mjs";
import { tickTable } from "./ticks.mjs";
import { inspector } from "./inspector.mjs";
import { header } from "./header.mjs";
import { allowed, controls, setDisabled } from "./controls.mjs";
import { slider } from "./slider.mjs";
import { Player, playControls } from "./play.mjs";
import { inShort, narration } from "./narration.mjs";
import { popovers } from "./popovers.mjs";
import { debuggerBoxes } from "./boxes.mjs";
import { placed, turnsOn } from "./stops.mjs";
import { attention } from "./attention.mjs";
import { problems } from "./problems.mjs";
import { questions } from "./questions.mjs";
import { Details, Outbox } from "./messages.mjs";
import { panelKeys } from "./keys.mjs";
import { focusCell, guardBox, hideTwin, isGone, showBelow } from "./page.mjs";

/** Messages that the panel sends by itself. */
const LOOKING = new Set(["hello", "bye", "ticks", "detail", "compact", "draft"]);

const ANSWERS = new Set(["done", "error", "detail", "draft"]);

/** @param {{ model: any, el: HTMLElement }} context */
function render({ model, el }) {
  const uid = `v${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  let graph = model.get("graph") ?? {};
  const live = () => model.get("live") ?? {};
  const at = { seq: 0, isLive: true, node: -1, isCompact: Boolean(model.get("compact")), frame: 0 };
  /** @type {{ against: number | null }} the tick that the state is compared with; null: the one before */
  const compared = { against: null };
  const known = { live: live(), since: performance.now() };
  let stands = placed([], graph);

  // ---- messages up ----
  const outbox = new Outbox(post, { view: uid, run: () => graph.run ?? "" });
  /** @param {string} kind @param {Record<string, any>} [more] @param {(m: any) => boolean} [told] */
  const intend = (kind, more = {}, told = undefined) => {
    const id = outbox.intend(kind, more, performance.now(), told);
    setTimeout(later, 750);
    return id;
  };
  /** A run that was made here is shown below: look at it at once. @param {any} m */
  const shows = (m) => (m.shows && showBelow(el, m.shows), false);
  /** What goes on is looked at where it goes on. @param {string} kind @param {Record<string, any>} [more] */
  const goOn = (kind, more = {}) => {
    player.pause();
    if (!at.isLive) goLive();
    return intend(kind, more);
  };
  /** A verb acts only while it makes sense. @param {keyof ReturnType<typeof allowed>} verb @param {() => unknown} act */
  const when = (verb, act) => () => allowed(live())[verb] && act();
  const verbs = {
    cont: when("cont", () => goOn("cont")),
    pause: when("pause", () => intend("pause")),
    step: when("step", () => goOn("step", { n: 1 })),
    over: when("over", () => goOn("over")),
    out: when("out", () => goOn("out")),
    into: () => (allowed(live()).into ? intend("into", { node: at.node }, shows) : verbs.step()),
    runTo: when("runTo", () => boxes.runTo.toggle()),
    stop: when("stop", () => intend("cancel")),
    fork: when("fork", () => at.seq > 0 && intend("fork", { at: forkedAt() }, shows)),
    retry: when("retry", () => boxes.retry.toggle()),
    replay: when("replay", () => intend("replay", {}, shows)),
  };
  const feed = new Feed((from) => outbox.send("ticks", { from }));
  const details = new Details({ ask: (seq) => outbox.send("detail", { seq }), changed: later });
  const comparison = new Details({
    ask: (seq) => outbox.send("detail", { seq, against: compared.against }),
    changed: later,
  });
  const player = new Player({
    at: () => ({ seq: at.seq, first: feed.history.first, last: feed.history.length }),
    go: playTo,
    changed: later,
  });

  // ---- the parts ----
  const say = make("div", { class: "fl-sr", role: "status", "aria-live": "polite" });
  const root = make("div", { class: "flownb", role: "region", tabindex: -1 });
  const pops = popovers(root);
  const top = header({ ...verbs, toggle: () => fold(!at.isCompact), close: () => intend("close"), bell: ring });
  const row = controls({ ...verbs, stops: () => boxes.stops.toggle(), help: () => boxes.help.toggle() });
  const boxes = debuggerBoxes(pops, row, { intend, goOn, shows, look: () => ({ graph, live: live(), at }) }, uid);
  const rail = slider({
    go: (seq) => look(seq),
    back: () => look(at.seq - 1),
    forward: () => look(at.seq + 1),
    live: goLive,
  });
  const plays = playControls({ toggle: () => player.toggle(), setSpeed: (speed) => player.setSpeed(speed) });
  rail.el.prepend(plays.el);
  const told = narration();
  const inspect = inspector({ go: look, against, act: actInPane }, uid);
  const table = tickTable({ go: look, clear: () => select(-1), stop: (seq) => stopAt({ seq }) });
  /** A wish of a row; what becomes of it is said there, also if it could not be sent. @param {string} kind @param {any} more */
  const wish = (kind, more) =>
    intend(kind, more, (m) => {
      if (m.kind === "done") ask.done(m.of, kind);
      else if (m.of === outbox.unsent) queueMicrotask(() => ask.refused(m.of, m.text));
      return false;
    });
  const ask = questions({
    answer: (id, value) => wish("answer", { request: id, value }),
    form: (id) => wish("form", { request: id }),
    hold: (id) => wish("hold", { request: id }),
    later: (id) => wish("later", { request: id }),
  });
  const wrong = problems({
    go: look,
    select: (step) => select((graph.nodes ?? []).findIndex((/** @type {any} */ n) => n.label === step)),
  });
  const calls = attention({
    root,
    view: uid,
    wish: (on) => intend("notify", { on }),
    refuse: (text) => wrong.refusal(text),
  });
  const inGraph = { select, stop: stopAt };
  let pane = graphPane(graph, inGraph);
  const main = make("div", { class: "fl-main" }, pane.el, inspect.el, table.el);
  const full = make("div", { class: "fl-full" }, row.el, rail.el, told.el, main);
  root.prepend(say, top.line, top.head, full, wrong.el, ask.el);
  el.append(root);

  // ---- what the person does ----
  /** @param {number} seq */
  function go(seq) {
    at.seq = clamp(seq, feed.history.first, feed.history.length);
    at.isLive = false;
    draw();
  }

  /** The person looks at a tick. @param {number} seq */
  function look(seq) {
    player.pause();
    go(seq);
  }

  function goLive() {
    player.pause();
    at.isLive = true;
    pane.follow();
    draw();
    table.follow();
  }

  /** Played to its end, a run is followed again. @param {number} seq */
  function playTo(seq) {
    if (seq >= feed.history.length) goLive();
    else go(seq);
  }

  /** Of a run that is over the end itself cannot be shared: a fork of it begins just before. */
  function forkedAt() {
    return live().ended && at.seq >= (live().tick ?? 0) ? null : at.seq;
  }

  function ring() {
    calls.ring(live());
  }

  /** @param {number | null} seq */
  function against(seq) {
    compared.against = seq === null ? null : clamp(seq, 0, feed.history.length);
    comparison.clear();
    later();
  }

  /** A wish from a pane; a run that it makes is looked at. @type {(kind: string, more: any, told?: (m: any) => boolean) => void} */
  function actInPane(kind, more, told = undefined) {
    intend(kind, more, (m) => {
      shows(m);
      return Boolean(told?.(m));
    });
  }

  /** @param {{ node: number } | { edge: number } | { seq: number }} spot */
  function stopAt(spot) {
    const there =
      "node" in spot
        ? stands.nodes.get(spot.node)
        : "edge" in spot
          ? stands.edges.get(spot.edge)
          : stands.ticks.get(spot.seq);
    intend("break", { ...spot, on: turnsOn(there) });
  }

  /** @param {number} node picked again it is let go */
  function select(node) {
    at.node = node === at.node ? -1 : node;
    table.pick(at.node, graph.nodes?.[at.node]?.label ?? "");
    draw();
  }

  /** @param {boolean} isCompact */
  function fold(isCompact) {
    at.isCompact = isCompact;
    pops.close(false);
    intend("compact", { on: isCompact });
    draw();
    (isCompact ? top.unfold : top.fold).focus({ preventScroll: true });
  }

  /** Nobody looks back in one line. @param {() => unknown} act */
  const unfolded = (act) => () => at.isCompact || act();
  const unKey = panelKeys(root, {
    F9: verbs.cont,
    c: verbs.cont,
    F10: verbs.step,
    n: verbs.step,
    o: verbs.over,
    F11: verbs.into,
    "Shift-F11": verbs.out,
    r: unfolded(verbs.runTo),
    p: verbs.pause,
    "Shift-F9": verbs.stop,
    f: unfolded(verbs.fork),
    t: unfolded(() => stopAt(at.node >= 0 ? { node: at.node } : { seq: at.seq })),
    b: unfolded(() => look(at.seq - 1)),
    ArrowLeft: unfolded(() => look(at.seq - 1)),
    ArrowRight: unfolded(() => look(at.seq + 1)),
    Home: unfolded(() => look(0)),
    End: goLive,
    " ": unfolded(() => player.toggle()),
    "+": unfolded(() => player.shift(1)),
    "-": unfolded(() => player.shift(-1)),
    "/": unfolded(() => table.filter.focus()),
    "?": unfolded(() => boxes.help.toggle()),
    Escape: () => (pops.isOpen() ? pops.close() : focusCell(el)),
  });
  const unGuard = guardBox(el);
  let showTwin = hideTwin(root, graph.twin ?? "");

  // ---- drawing ----
  function later() {
    if (!at.frame) at.frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(at.frame);
    at.frame = 0;
    const now = live();
    const last = Math.max(feed.history.length, now.tick ?? 0);
    if (at.isLive) at.seq = last;
    const nowNodes = now.nodes ?? [];
    const picture = at.isLive ? { nodes: nowNodes, edges: now.edges ?? [] } : feed.history.at(at.seq);
    pane.draw(picture, at.node, at.isLive || player.isPlaying);
    stands = placed(now.stops ?? [], graph);
    pane.stops(stands);
    table.stops(stands.ticks);
    boxes.draw(now);
    const read = (/** @type {string} */ column) => feed.history.get(column, at.seq);
    const words = inShort({ kind: read("kind"), step: read("step"), event: read("event") });
    const where = { seq: at.seq, last };
    rail.draw({
      ...where,
      first: feed.history.first,
      isLive: at.isLive,
      what: words,
    });
    plays.draw(player.isPlaying, player.speed);
    told.draw({
      ...where,
      told: (at.isLive ? now.told : details.get(at.seq)?.told) || words,
      note: outbox.waiting(performance.now()) || (at.isLive ? now.note : "looking back: nothing is undone") || "",
    });
    setDisabled(rail.back, at.seq <= feed.history.first, root);
    setDisabled(rail.forward, at.seq >= last, root);
    root.classList.toggle("is-past", !at.isLive);
    root.classList.toggle("compact", at.isCompact);
    root.dataset.status = now.status ?? "";
    top.draw(now, tally(nowNodes, graph.nodes ?? []));
    drawVerbs(now);
    table.at(at.seq, at.isLive);
    drawInspector(now, last);
    wrong.failure(now.error);
    wrong.replay(now.replay);
    ask.draw(now);
    tick();
  }

  /** @param {any} now */
  function drawVerbs(now) {
    const can = allowed(now);
    row.draw({ ...can, fork: can.fork && at.seq > 0 }, now, root);
    setDisabled(top.buttons.step, !can.step, root);
    for (const [button, isShown] of /** @type {const} */ ([
      [top.buttons.cont, can.cont],
      [top.buttons.pause, !can.cont && can.pause],
      [top.buttons.step, can.step],
    ])) {
      button.hidden = !isShown;
    }
  }

  /** @param {any} now @param {number} last */
  function drawInspector(now, last) {
    const read = (/** @type {string} */ column) => feed.history.get(column, at.seq);
    if (!at.isCompact) {
      details.want(at.seq, feed.history.length, at.isLive ? 250 : 60);
      if (compared.against !== null) comparison.want(at.seq, feed.history.length, at.isLive ? 250 : 60);
    }
    const waits = isGone(root)
      ? "The kernel is gone: this was not loaded."
      : details.isLate
        ? "Loads when the cell is done."
        : "…";
    const detail = details.get(at.seq);
    const past = !at.isLive && at.seq < last;
    inspect.set({
      seq: at.seq,
      kind: read("kind"),
      step: read("step"),
      event: read("event"),
      t: at.seq && read("kind") ? Number(read("t")) : NaN,
      detail,
      compared: comparison.get(at.seq),
      against: compared.against,
      last,
      waits,
      queue: {
        past,
        seq: at.seq,
        paused: Boolean(now.paused),
        queue: past ? (at.seq ? (detail?.queue ?? null) : []) : (now.queue ?? []),
        inbox: now.inbox ?? [],
        work: now.work ?? [],
        waits: now.waits ?? 0,
        timers: now.timers ?? [],
        held: now.held ?? [],
        now: clockNow,
        late: waits,
      },
    });
  }

  /** The run's clock, in seconds. */
  const clockNow = () =>
    (live().now ?? 0) + (live().ended || isGone(root) ? 0 : (performance.now() - known.since) / 1000);

  /** The clock runs on between two messages, but not after the kernel is gone. */
  function tick() {
    const now = live();
    const runs = now.counting && !now.ended && !isGone(root);
    top.clock((now.elapsed ?? 0) + (runs ? (performance.now() - known.since) / 1000 : 0));
    ask.tick(now, clockNow(), el.closest(".flownb-panel"));
    calls.draw(now, graph, isGone(root));
    top.bell(calls.bell(now));
  }
  const clockTimer = setInterval(() => {
    tick();
    if (at.isLive && live().timers?.length) later(); // they count down
  }, 200);

  // ---- messages down ----
  /** @param {any} m */
  function post(m) {
    try {
      if (!isGone(root)) return model.send(m);
    } catch (error) {
      console.warn("flownb: the kernel cannot be reached", error);
    }
    // Looking back goes on without the kernel, so only what the person wished for is worth a word.
    outbox.lost(m.id);
    if (!LOOKING.has(m.kind))
      wrong.refusal("The kernel is gone: nothing can be sent to the run. Looking back still works.");
  }

  /** @param {any} m */
  function onMessage(m) {
    if (m.kind === "ticks" && (!m.run || m.run === graph.run)) onTicks(m);
    if (m.view !== undefined && m.view !== uid) return;
    if (m.kind === "detail") {
      if (m.against === null || m.against === undefined) details.take(m, feed.history.length);
      else if (m.against === compared.against) comparison.take(m, feed.history.length);
    }
    const isShown = ANSWERS.has(m.kind) && outbox.settle(m.of, m);
    if (m.kind === "error" && !isShown) {
      if (!ask.refused(m.of, m.text)) wrong.refusal(m.text);
      say.textContent = m.text;
    }
    if (m.kind === "done" || m.kind === "error") later();
  }

  /** @param {any} m */
  function onTicks(m) {
    if (!feed.take(m)) return;
    rail.marks(feed.history.cols.kind, feed.history.cols.event);
    table.set(feed.history);
    later();
  }

  function onLive() {
    const now = live();
    const words = announcement(known.live, now, graph.name ?? "run");
    if (words) say.textContent = words;
    known.live = now;
    known.since = performance.now();
    calls.draw(now, graph, isGone(root)); // at once: a page that nobody sees draws no frame
    feed.expect(now.tick ?? 0);
    later();
  }

  function onCompact() {
    at.isCompact = Boolean(model.get("compact"));
    later();
  }

  function onGraph() {
    const before = graph;
    graph = model.get("graph") ?? {};
    name();
    if (graph.svg !== before.svg || graph.hash !== before.hash || graph.nodes?.length !== before.nodes?.length) {
      const old = pane;
      pane = graphPane(graph, inGraph);
      old.el.replaceWith(pane.el);
      old.dispose();
    }
    if (graph.twin !== before.twin) {
      showTwin();
      showTwin = hideTwin(root, graph.twin ?? "");
    }
    const isOther = ["nodes", "edges"].some((part) => graph[part]?.length !== before[part]?.length);
    if (graph.run !== before.run || isOther) begin();
    later();
  }

  /** A run is shown from its first tick on. */
  function begin() {
    feed.reset(graph.nodes?.length ?? 0, graph.edges?.length ?? 0);
    details.clear();
    against(null);
    table.set(feed.history);
    rail.marks([], []);
    outbox.send("hello", { have: 0 });
    feed.expect(live().tick ?? 0);
  }

  function name() {
    top.name(graph);
    root.dataset.run = graph.run ?? "";
    root.setAttribute("aria-label", `run ${graph.name ?? ""} ${graph.run ?? ""}`.trim());
    main.className = `fl-main ${graph.tall === false ? "wide" : "tall"}`;
    boxes.store.textContent = graph.store ?? "";
  }

  model.on("change:graph", onGraph);
  model.on("change:live", onLive);
  model.on("change:compact", onCompact);
  model.on("msg:custom", onMessage);
  name();
  begin();
  draw();

  return () => {
    model.off("change:graph", onGraph);
    model.off("change:live", onLive);
    model.off("change:compact", onCompact);
    model.off("msg:custom", onMessage);
    clearInterval(clockTimer);
    feed.dispose();
    cancelAnimationFrame(at.frame);
    details.dispose();
    comparison.dispose();
    player.dispose();
    calls.dispose();
    pops.dispose();
    pane.dispose();
    table.dispose();
    unKey();
    unGuard();
    showTwin();
    outbox.send("bye");
    root.remove();
  };
}

export default { render };
