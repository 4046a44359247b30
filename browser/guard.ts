// Keeps errors of the script inside it, and copies browser functions when it loads, because a page
// may overwrite them later.

export const win = window;
export const doc = document;
export const nav = navigator;
const delay = win.setTimeout;

/** Returns undefined if `work` throws. */
export const quietly = <T>(work: () => T): T | undefined => {
  try {
    return work();
  } catch {
    return undefined;
  }
};

/** Whether `work` ran to its end without an error. */
export const runs = (work: () => void): boolean =>
  quietly(() => {
    work();
    return true;
  }) === true;

/** The same function, but it never throws. */
export const guarded =
  <A extends readonly unknown[]>(work: (...args: A) => void) =>
  (...args: A): void => {
    quietly(() => work(...args));
  };

/** Runs `work` once, guarded, after at least `ms`; never on a page that broke the timers. */
export const later = (ms: number, work: () => void): void => {
  quietly(() => delay.call(win, guarded(work), ms));
};

/**
 * Listens without blocking the page. `first` runs before the page's own handlers can stop the
 * event, `last` after all of them.
 */
export const listen = <E extends Event>(
  target: EventTarget,
  names: string,
  handler: (event: E) => void,
  order: "first" | "last" = "first",
): void => {
  const quiet = guarded(handler) as unknown as EventListener;
  const options = { capture: order === "first", passive: true };
  for (const name of names.split(" ")) target.addEventListener(name, quiet, options);
};

/** Runs `work` when the browser is idle, at the latest after two seconds. */
export const whenIdle = (work: () => void): void => {
  const quiet = guarded(work);
  if (win.requestIdleCallback) win.requestIdleCallback(quiet, { timeout: 2_000 });
  else later(200, quiet);
};

/** 128 random bits, as hex digits. */
export const randomId = (): string => {
  const bytes = new Uint8Array(16);
  if (quietly(() => win.crypto.getRandomValues(bytes)) === undefined)
    for (let n = 0; n < 16; n += 1) bytes[n] = Math.random() * 256;
  return Array.from(bytes, (byte) => (byte + 256).toString(16).slice(1)).join("");
};
