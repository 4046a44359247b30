// Web vitals, first input, long tasks and navigation. The script loads this second file when the
// page is ready; it reports through a property of its own script element and needs no global.
import { type Metric, onCLS, onFCP, onINP, onLCP, onTTFB } from "web-vitals";
import { guarded, listen, quietly, win } from "../guard.ts";
import type { Tracker } from "../tracker.ts";

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;

const watch = (type: string, work: (entries: readonly any[]) => void): void => {
  const { PerformanceObserver: Observer } = win;
  if (!Observer.supportedEntryTypes.includes(type)) return;
  new Observer(guarded((list: PerformanceObserverEntryList) => work(list.getEntries()))).observe({
    type,
    buffered: true,
  });
};

const start = (signal: Tracker["signal"]): void => {
  const report = guarded(({ name, value, rating, navigationType }: Metric) =>
    // Not named `value`, which is the amount of an event.
    signal(name.toLowerCase(), {
      [name === "CLS" ? "score" : "ms"]: rounded(value),
      rating,
      navigation: navigationType,
    }),
  );
  for (const observe of [onLCP, onINP, onCLS, onFCP, onTTFB]) observe(report as () => void);

  watch("first-input", ([{ startTime, processingStart, name: input }]) =>
    signal("first_input", { delay_ms: rounded(processingStart - startTime), at_ms: rounded(startTime), input }),
  );
  let long = { tasks: 0, total_ms: 0, longest_ms: 0 };
  watch("longtask", (entries) => {
    for (const entry of entries) {
      const ms = Math.round(entry.duration);
      long = { tasks: long.tasks + 1, total_ms: long.total_ms + ms, longest_ms: Math.max(long.longest_ms, ms) };
    }
  });
  listen(win, "pagehide", () => {
    if (long.tasks > 0) signal("long_tasks", long);
    long = { tasks: 0, total_ms: 0, longest_ms: 0 };
  });
  const [entry] = win.performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  if (entry !== undefined)
    signal("navigation", {
      navigation: entry.type,
      redirects: entry.redirectCount,
      dom_ms: Math.round(entry.domContentLoadedEventEnd),
      load_ms: Math.round(entry.loadEventEnd),
      transferred: entry.transferSize,
    });
};

quietly(() => {
  const { report } = document.currentScript as unknown as { report?: Tracker["signal"] };
  // web-vitals takes these for granted and would fail without them.
  const isModern = win.PerformanceObserver?.supportedEntryTypes && typeof queueMicrotask === "function";
  if (report !== undefined && isModern) start(report);
});
