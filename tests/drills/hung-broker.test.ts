// A broker hangs, on the product's own intervals: the alarm is in the mailbox within 3 minutes, the
// broker is restarted, and status says both. `npm run drills` prints the seconds.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Control, controlOf } from "../../infra/runtime/stack-control.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

const ALARM_MS = 180_000;

let product: Product;
let control: Control;
beforeAll(async () => {
  product = await startProduct(undefined, ["identity", "mail"]);
  control = controlOf(product.stack.run);
}, 240_000);
afterAll(() => product?.clear());

const said = async (...args: readonly string[]): Promise<string> => (await product.tributary(...args).done).stdout;
const lastLine = (text: string): string => text.trimEnd().split("\n").at(-1)!;
const mailsSaying = async (subject: string): Promise<number> =>
  (await said("mail")).split("\n").filter((line) => line.includes(subject)).length;
const broker = async () => (await control.status()).find(({ name }) => name === "kafka")!;
const stateOfLog = async (): Promise<string> => {
  const { probes } = JSON.parse(await said("status", "--json")) as { probes: { name: string; state: string }[] };
  return probes.find(({ name }) => name === "event_log")!.state;
};

test.each([1, 2])(
  "hung, time %i: the alarm comes within 3 minutes, the broker is restarted, and status is right throughout",
  async (time) => {
    await until("all is well", 180_000, async () => expect(lastLine(await said("status"))).toBe("ready"));
    const { pid } = await broker();
    await control.signal("kafka", "SIGSTOP");
    await until("the broker is paused", 10_000, async () => expect((await broker()).state).toBe("paused"));
    const began = performance.now();
    const passed = (what: string): number => {
      const ms = performance.now() - began;
      console.log(`${what}: ${(ms / 1_000).toFixed(0)} s after the broker hung`);
      return ms;
    };
    await until("status names the broker", ALARM_MS, async () =>
      expect(lastLine(await said("status"))).toMatch(/^not well: .*kafka \(paused\)/),
    );
    passed("status says that kafka is paused");
    await until("the keeper knows", ALARM_MS, async () => expect(await stateOfLog()).not.toBe("healthy"));
    passed("the first probe of the keeper has failed");
    await until("the alarm is in the mailbox", 2 * ALARM_MS, async () =>
      expect(await mailsSaying("event_log is down")).toBe(time),
    );
    expect(passed("the alarm is in the mailbox")).toBeLessThan(ALARM_MS);
    await until("another broker runs", ALARM_MS, async () => {
      const now = await broker();
      expect([now.pid === pid, now.state]).toEqual([false, "running"]);
    });
    passed("the broker runs again");
    await until("the keeper says that it is back", ALARM_MS, async () =>
      expect(await mailsSaying("event_log has recovered")).toBe(time),
    );
    passed("its return is in the mailbox");
    await until("status is well", ALARM_MS, async () => expect(lastLine(await said("status"))).toBe("ready"));
    passed("status says ready");
  },
  900_000,
);
