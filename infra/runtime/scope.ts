// Opens resources by name and closes them in reverse order, within one deadline; the frame of every
// app's main.
import type { Log } from "./log.ts";
import { within } from "./timing/time-limit.ts";

/**
 * An open resource and how it is closed. `stop` may take its time: the deadline of the scope bounds
 * it.
 */
export interface Resource<T> {
  readonly value: T;
  readonly stop: () => Promise<void> | void;
}

/** Makes a resource of an object that closes itself. */
export const closing = <T extends { readonly close: () => Promise<void> | void }>(value: T): Resource<T> => ({
  value,
  stop: () => value.close(),
});

export interface Scope {
  /**
   * A resource is opened after all earlier ones, and closed before them. A start that throws must
   * leave nothing of its own behind; the scope closes the rest.
   */
  readonly open: <T>(name: string, start: () => Promise<Resource<T>> | Resource<T>) => Promise<T>;
  /** Fires when closing begins. */
  readonly closing: AbortSignal;
  /**
   * Closes everything and ends the app with 1: for a crashed consumer, and for every error that
   * nothing handles.
   */
  readonly fail: (error: Error) => void;
  /**
   * Closes in reverse order. Resolves with the resources that could not be closed, because of an
   * error or because the deadline had passed.
   */
  readonly close: () => Promise<readonly { readonly name: string; readonly problem: string }[]>;
}

// One deadline bounds the sum of all steps: docs/design/laws.md L4 gives a process 20 s from
// SIGTERM to its exit.
const DEADLINE_MS = 20_000;

export const openScope = (log: Log, onFail: (error: Error) => void, deadlineMs = DEADLINE_MS): Scope => {
  const opened: { readonly name: string; readonly stop: () => Promise<void> | void }[] = [];
  const closing = new AbortController();
  let closed: ReturnType<Scope["close"]> | undefined;

  const closeAll = async () => {
    closing.abort();
    const problems: { name: string; problem: string }[] = [];
    const end = performance.now() + deadlineMs;
    for (let last = opened.pop(); last !== undefined; last = opened.pop()) {
      const { name, stop } = last;
      // After the deadline each remaining resource is still asked to stop, but not awaited.
      const problem = await problemOf(Math.max(1, end - performance.now()), stop);
      if (problem === null) {
        log.debug("resource.closed", { resource: name });
        continue;
      }
      problems.push({ name, problem });
      log.warn("resource.not_closed", { resource: name, problem });
    }
    return problems;
  };

  return {
    closing: closing.signal,
    fail: onFail,
    open: async (name, start) => {
      if (closing.signal.aborted) throw new Error(`${name}: the app is closing`);
      const { value, stop } = await start();
      opened.push({ name, stop });
      log.debug("resource.opened", { resource: name });
      // A signal may have come meanwhile, and closing has already passed this resource.
      if (closed !== undefined) {
        await closed;
        await closeAll();
        throw new Error(`${name}: the app is closing`);
      }
      return value;
    },
    close: () => {
      closed ??= closeAll();
      return closed;
    },
  };
};

/** The error of the stop, or null. */
const problemOf = (ms: number, stop: () => Promise<void> | void): Promise<string | null> =>
  within(ms, Promise.resolve().then(stop), "the deadline has passed").then(
    () => null,
    (error: Error) => error.message,
  );

/** Replaced in tests. */
export interface Surroundings {
  readonly on: (event: string, listener: (given: unknown) => void) => unknown;
  readonly exit: (code: number) => void;
}

/**
 * Runs an app: `main` opens its resources and returns once it serves. Then the first SIGTERM or
 * SIGINT closes in reverse order and exits with 0, or with 1 if something could not be closed; a
 * second signal exits with 1 at once. An error of `main`, and `scope.fail`, close and exit with 1;
 * an uncaught error exits with 1 at once.
 */
export const run = (main: (scope: Scope) => Promise<void>, log: Log, around: Surroundings = process): void => {
  let isEnding = false;
  const end = async (code: number): Promise<void> => {
    if (isEnding) return;
    isEnding = true;
    const problems = await scope.close();
    log.info("app.stopped", { code: problems.length > 0 ? 1 : code });
    around.exit(problems.length > 0 ? 1 : code);
  };
  const scope = openScope(log, (error) => {
    log.error("app.failed", { error });
    void end(1);
  });
  for (const signal of ["SIGTERM", "SIGINT"])
    around.on(signal, () => {
      if (isEnding) return around.exit(1);
      log.info("app.stopping", { signal });
      void end(0);
    });
  for (const event of ["uncaughtException", "unhandledRejection"])
    around.on(event, (error) => {
      log.error("app.crashed", { error });
      around.exit(1);
    });
  main(scope).catch((error) => {
    // A start that a signal interrupted is not a failure.
    if (!isEnding) scope.fail(error);
  });
};
