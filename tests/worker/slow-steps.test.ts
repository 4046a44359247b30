// Which steps of a batch a worker repeats, and which end so that the batch comes again in pieces.
import { expect, test } from "vitest";
import { retrying } from "../../apps/worker/runners.ts";
import { isTimeLimit } from "../../infra/runtime/errors.ts";
import { SlowBatch } from "../../stream/pace/pieces.ts";

const late = (text = "Query read timeout"): Error => new Error(text);
const canceled = { code: "57014", severity: "ERROR", message: "canceling statement due to statement timeout" };

const opened = (signal = new AbortController().signal) => {
  const counted: string[] = [];
  const retry = retrying({ countRetry: (step) => counted.push(step) }, { warn: () => undefined }, signal);
  let tries = 0;
  /** Fails once with this error. */
  const run = (error: unknown, isCuttable?: boolean) =>
    retry(
      "remember",
      async () => {
        tries += 1;
        if (tries === 1) throw error;
        return "done";
      },
      async () => undefined,
      isCuttable,
    );
  return { run, counted, tries: () => tries };
};

test("a cuttable step that a time limit ends is not repeated: it is slow, and is counted", async () => {
  const { run, counted, tries } = opened();
  const error = await run(late(), true).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SlowBatch);
  expect((error as Error).message).toBe("remember: Query read timeout");
  expect([tries(), counted]).toEqual([1, ["remember"]]);
});

test("a step of a single record is repeated, and so is one that failed otherwise", async () => {
  expect(await opened().run(late())).toBe("done");
  expect(await opened().run(Object.assign(new Error("away"), { code: "ECONNREFUSED" }), true)).toBe("done");
});

test("a worker that closes is not held up by smaller pieces", async () =>
  expect(await opened(AbortSignal.abort()).run(late(), true).catch(String)).toBe("Error: Query read timeout"));

test.each([
  [canceled, true],
  [late("Command timed out"), true],
  [late("Timeout error."), true],
  [{ code: "159", type: "TIMEOUT_EXCEEDED", message: "Timeout exceeded" }, true],
  [{ code: "57P01", severity: "FATAL", message: "terminating connection" }, false],
  [{ code: "241", type: "MEMORY_LIMIT_EXCEEDED", message: "Memory limit exceeded" }, false],
  [late("timeout exceeded when trying to connect"), false],
  [null, false],
])("%o is a time limit of a statement: %s", (error, is) => expect(isTimeLimit(error)).toBe(is));
