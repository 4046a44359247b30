// Loads the file that measures the page's speed, when the browser is idle.
import { doc, later, listen, whenIdle, win } from "../guard.ts";
import { loadPart } from "../parts.ts";
import type { Tracker } from "../tracker.ts";

/** Most pages have their values well before this time, and the browser keeps them all. */
const AFTER_LOAD_MS = 500;

export const startSpeed = (tracker: Tracker): void => {
  const load = (): void => {
    if (!tracker.visitor.mayObserve()) return;
    loadPart(tracker, "vitals.js", { report: tracker.signal });
  };
  const soon = (): void => later(AFTER_LOAD_MS, () => whenIdle(load));
  if (doc.readyState === "complete") soon();
  else listen(win, "load", (event) => event.target === doc && soon());
};
