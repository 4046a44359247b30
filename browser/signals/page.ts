// Measures how a page is read and left: scroll depth, attention, visibility, network, size and
// history.
import { doc, later, listen, nav, win } from "../guard.ts";
import type { Tracker } from "../tracker.ts";

const DEPTHS = [25, 50, 75, 100];
/** A tick is sent after these seconds of attention, and then every five minutes. */
const TICKS = [15, 30, 60, 120, 300];
const TICK_MS = 1_000;
const ACTIVE_MS = 10_000;
const IDLE_MS = 60_000;
const SEARCH_PARAMETERS = ["q", "s", "search", "query", "buscar", "busqueda", "keyword"];

export const startPage = (tracker: Tracker): void => {
  const { signal, onPage } = tracker;
  const depth = startScroll(tracker);
  startAttention(tracker, depth);
  listen(win, "focus", (event) => event.target === win && signal("focus", { state: "focus" }));
  listen(win, "blur", (event) => event.target === win && signal("focus", { state: "blur" }));
  listen(doc, "visibilitychange", () => signal("visibility", { state: doc.visibilityState }));
  listen(win, "online", () => signal("online"));
  listen(win, "offline", () => signal("offline"));
  listen<PageTransitionEvent>(win, "pageshow", ({ persisted }) => {
    if (persisted) signal("bfcache_restore");
  });
  startSizes(signal);
  startHistory(signal);
  siteSearch(signal);
  onPage(() => siteSearch(signal));
};

/** Returns the deepest scroll position so far, in percent of the page. */
const startScroll = ({ signal, onPage }: Tracker): (() => number) => {
  let deepest = 0;
  let isWaiting = false;
  const measure = (): void => {
    isWaiting = false;
    const { scrollHeight } = doc.documentElement;
    const now = Math.min(100, Math.round(((win.scrollY + win.innerHeight) / Math.max(1, scrollHeight)) * 100));
    for (const step of DEPTHS)
      if (deepest < step && now >= step) signal(`scroll_${step}`, { depth: step, page_height: scrollHeight });
    deepest = Math.max(deepest, now);
  };
  listen(win, "scroll", () => {
    if (isWaiting) return;
    isWaiting = true;
    later(250, measure);
  });
  onPage(() => {
    deepest = 0;
  });
  return () => deepest;
};

/**
 * A second counts if the page is visible and the visitor was active within the last ten seconds.
 */
const startAttention = ({ signal, onPage }: Tracker, depth: () => number): void => {
  let active = 0;
  let began = Date.now();
  let latest = began;
  let isIdle = false;
  const act = (): void => {
    latest = Date.now();
    isIdle = false;
  };
  listen(win, "pointerdown pointermove keydown scroll touchstart wheel", act);
  const tick = (): void => {
    later(TICK_MS, tick);
    if (doc.visibilityState !== "visible") return;
    const rest = Date.now() - latest;
    if (rest < ACTIVE_MS) {
      active += 1;
      const last = TICKS[TICKS.length - 1]!;
      if (TICKS.indexOf(active) >= 0 || active % last === 0) signal("engagement", { active_s: active, depth: depth() });
    } else if (rest >= IDLE_MS && !isIdle) {
      isIdle = true;
      signal("idle", { active_s: active });
    }
  };
  later(TICK_MS, tick);
  listen(win, "pagehide", () => {
    signal("exit", { active_s: active, total_s: Math.round((Date.now() - began) / 1_000), depth: depth() });
  });
  onPage(() => {
    active = 0;
    began = Date.now();
  });
};

const startSizes = (signal: Tracker["signal"]): void => {
  let latest = 0;
  listen(win, "resize", () => {
    latest += 1;
    const mine = latest;
    later(500, () => mine === latest && signal("resize", { width: win.innerWidth, height: win.innerHeight }));
  });
  const { orientation } = win.screen;
  if (orientation) listen(orientation, "change", () => signal("orientation", { orientation: orientation.type }));
};

/**
 * Reports a change of the address without a load. The page's own history functions are not
 * replaced: without the Navigation API the address is compared after events that may change it.
 */
const startHistory = (signal: Tracker["signal"]): void => {
  let from = win.location.href;
  const look = (): void => {
    const to = win.location.href;
    if (to === from) return;
    signal("history_change", { from, to });
    from = to;
  };
  const { navigation } = win as unknown as { navigation?: EventTarget };
  if (navigation) listen(navigation, "currententrychange", look);
  else {
    listen(win, "popstate hashchange", () => later(0, look));
    listen(doc, "click keydown", () => later(300, look));
  }
};

const siteSearch = (signal: Tracker["signal"]): void => {
  const parameters = new URLSearchParams(win.location.search);
  for (const parameter of SEARCH_PARAMETERS) {
    const term = parameters.get(parameter)?.trim();
    if (!term) continue;
    signal("site_search", { term: term.slice(0, 100), parameter, language: nav.language });
    return;
  }
};
