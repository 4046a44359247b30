// Opened resources are closed in reverse order within one deadline, whatever happens.
import { describe, expect, test } from "vitest";
import type { Log } from "../../infra/runtime/log.ts";
import { openScope, run, type Scope } from "../../infra/runtime/scope.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, with: () => quiet };
const never = new Promise<void>(() => {});

const opening = async (scope: Scope, name: string, closed: string[], stop: () => Promise<void> | void = () => {}) =>
  scope.open(name, () => ({
    value: name,
    stop: async () => {
      closed.push(name);
      await stop();
    },
  }));

test("resources are closed in reverse, each after the one before", async () => {
  const closed: string[] = [];
  const scope = openScope(quiet, () => {});
  for (const name of ["postgres", "kafka", "http"])
    await opening(scope, name, closed, () => new Promise((done) => setImmediate(done)));
  expect(await scope.close()).toEqual([]);
  expect(closed).toEqual(["http", "kafka", "postgres"]);
});

test("one that cannot be closed does not keep the others open", async () => {
  const closed: string[] = [];
  const scope = openScope(quiet, () => {});
  await opening(scope, "first", closed);
  await opening(scope, "broken", closed, () => Promise.reject(new Error("no")));
  expect(await scope.close()).toEqual([{ name: "broken", problem: "no" }]);
  expect(closed).toEqual(["broken", "first"]);
});

test("one deadline bounds the sum of all: after it each is asked to stop, and nothing is waited for", async () => {
  const closed: string[] = [];
  const scope = openScope(quiet, () => {}, 20);
  for (const name of ["first", "second", "third"]) await opening(scope, name, closed, () => never);
  const began = performance.now();
  const problem = "the deadline has passed";
  expect(await scope.close()).toEqual(["third", "second", "first"].map((name) => ({ name, problem })));
  expect(closed).toEqual(["third", "second", "first"]);
  expect(performance.now() - began).toBeLessThan(1_000);
});

test("closing twice closes once", async () => {
  const closed: string[] = [];
  const scope = openScope(quiet, () => {});
  await opening(scope, "only", closed);
  await Promise.all([scope.close(), scope.close()]);
  expect(closed).toEqual(["only"]);
});

test("what was still opening when closing began is closed too", async () => {
  const closed: string[] = [];
  const scope = openScope(quiet, () => {});
  let ready = () => {};
  const late = scope.open("late", async () => {
    await new Promise<void>((resolve) => (ready = resolve));
    return { value: 1, stop: () => void closed.push("late") };
  });
  await scope.close();
  ready();
  await expect(late).rejects.toThrow("closing");
  expect(closed).toEqual(["late"]);
  await expect(scope.open("later", () => ({ value: 1, stop: () => {} }))).rejects.toThrow("closing");
});

describe("an app", () => {
  const surroundings = () => {
    const listeners = new Map<string, (given: unknown) => void>();
    let ended: (code: number) => void;
    const exited = new Promise<number>((resolve) => (ended = resolve));
    return {
      listeners,
      exited,
      on: (event: string, listener: (given: unknown) => void) => listeners.set(event, listener),
      exit: (code: number) => ended(code),
    };
  };
  const started = async (stop: () => Promise<void> | void = () => {}) => {
    const around = surroundings();
    const closed: string[] = [];
    let scopeOf: Scope;
    const ready = new Promise<void>((resolve) =>
      run(
        async (scope) => {
          scopeOf = scope;
          await opening(scope, "thing", closed, stop);
          resolve();
        },
        quiet,
        around,
      ),
    );
    await ready;
    return { around, closed, scope: scopeOf! };
  };

  test("closes and exits 0 at the first signal", async () => {
    const { around, closed } = await started();
    around.listeners.get("SIGTERM")!(undefined);
    expect(await around.exited).toBe(0);
    expect(closed).toEqual(["thing"]);
  });

  test("exits at once at the second", async () => {
    const { around } = await started(() => never);
    around.listeners.get("SIGTERM")!(undefined);
    around.listeners.get("SIGINT")!(undefined);
    expect(await around.exited).toBe(1);
  });

  test("closes and exits 1 when it fails", async () => {
    const { around, closed, scope } = await started();
    scope.fail(new Error("the consumer crashed"));
    expect(await around.exited).toBe(1);
    expect(closed).toEqual(["thing"]);
  });

  test("exits 1 when something could not be closed", async () => {
    const { around } = await started(() => Promise.reject(new Error("no")));
    around.listeners.get("SIGTERM")!(undefined);
    expect(await around.exited).toBe(1);
  });

  test("exits 1 when it cannot start, with what was open closed", async () => {
    const around = surroundings();
    const closed: string[] = [];
    run(
      async (scope) => {
        await opening(scope, "thing", closed);
        throw new Error("no configuration");
      },
      quiet,
      around,
    );
    expect(await around.exited).toBe(1);
    expect(closed).toEqual(["thing"]);
  });

  test("exits 1 at once on an uncaught error", async () => {
    const { around, closed } = await started();
    around.listeners.get("unhandledRejection")!(new Error("?"));
    expect(await around.exited).toBe(1);
    expect(closed).toEqual([]);
  });
});
