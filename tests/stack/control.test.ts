// The control door of a stack: the actions that another process may request for a named process,
// and the callers that are refused.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Run } from "../../infra/embedded/supervisor.ts";
import { controlOf } from "../../infra/runtime/stack-control.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { workshop } from "./home-for-test.ts";

const here = workshop();
afterAll(() => here.clear());
const runOf = (): Run => JSON.parse(readFileSync(join(here.home, "run.json"), "utf8"));

test("a process is paused, shown as paused, and well again after a restart, as another process", async () => {
  const stack = await here.start({ services: ["redis"] });
  const control = controlOf(runOf());
  const before = stack.pid("redis");
  expect(await control.status()).toEqual([{ name: "redis", pid: before, state: "running" }]);
  expect(await control.signal("redis", "SIGSTOP")).toBe(true);
  await until("redis is paused", 30_000, async () => expect((await control.status())[0]?.state).toBe("paused"));
  await Promise.all([control.restart("redis"), control.restart("redis")]);
  const [after] = await control.status();
  expect(after).toEqual({ name: "redis", pid: stack.pid("redis"), state: "running" });
  expect(after?.pid).not.toBe(before);
  await stack.ready("redis");
});

test("a process that was killed while it is restarted is there once, and watched again", async () => {
  const control = controlOf(runOf());
  await control.signal("redis", "SIGKILL");
  await control.restart("redis");
  const between = (await control.status())[0]!.pid;
  await control.signal("redis", "SIGKILL");
  await until("redis is back by itself", 30_000, async () => {
    const [redis] = await control.status();
    expect(redis).toMatchObject({ state: "running" });
    expect(redis!.pid).not.toBe(between);
  });
});

test("what was stopped stays down until it is started", async () => {
  const control = controlOf(runOf());
  await control.stop("redis");
  expect(await control.status()).toEqual([{ name: "redis", pid: null, state: "stopped" }]);
  const before = here.lines.length;
  const starts = Promise.all([control.start("redis"), control.start("redis")]);
  await until("redis is being started", 30_000, async () =>
    expect((await control.status())[0]?.state).not.toBe("stopped"),
  );
  await starts;
  expect(await control.status()).toMatchObject([{ name: "redis", state: "running" }]);
  expect(runOf().services.redis?.pid).toBe((await control.status())[0]?.pid);
  expect(here.lines.slice(before).filter((text) => text.includes("starts as process"))).toHaveLength(1);
});

test("an unknown name is answered with the known ones, a wrong token with nothing", async () => {
  const { control } = runOf();
  await expect(controlOf({ control }).restart("kafka")).rejects.toThrow(
    "Nothing of the name kafka runs in this stack; there are redis.",
  );
  await expect(controlOf({ control: { ...control, token: "no" } }).stop("redis")).rejects.toThrow(
    "the token of run.json is needed",
  );
  expect(() => controlOf({})).toThrow("start it again: npm start");
});
