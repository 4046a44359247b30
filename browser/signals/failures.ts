// Errors of the page, as the browser reports them to every listener. The page keeps its
// window.onerror.
import { listen, win } from "../guard.ts";
import type { Tracker } from "../tracker.ts";

const MAX_MESSAGE = 300;
const MOST = 10;

export const startFailures = ({ signal }: Tracker): void => {
  let errors = 0;
  const say = (message: string, source: string, line: number, column: number): void => {
    errors += 1;
    if (errors <= MOST) signal("js_error", { message: message.slice(0, MAX_MESSAGE), source, line, column });
  };
  listen<ErrorEvent>(win, "error", (event) => {
    const { target } = event;
    if (!(target instanceof Element)) return say(`${event.message}`, `${event.filename}`, event.lineno, event.colno);
    const source = target.getAttribute("src") ?? target.getAttribute("href") ?? "";
    if (source !== "") signal("resource_error", { tag: target.tagName.toLowerCase(), source });
  });
  listen<PromiseRejectionEvent>(win, "unhandledrejection", ({ reason }) => {
    say(`unhandled rejection: ${reason?.message ?? typeof reason}`, "", 0, 0);
  });
};
