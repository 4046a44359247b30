// Sends every request of docs/api.md, the guide of the platform API, and compares the answers with
// the page.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningApi, startApi } from "../support/api.ts";
import { asker } from "../support/ask.ts";
import { exchangesIn, shown } from "../support/exchanges.ts";
import { sharedStack } from "../support/shared-stack.ts";

const exchanges = exchangesIn("docs/api.md");
let running: RunningApi;
const ask = asker(() => running.url);
beforeAll(async () => {
  running = await startApi(sharedStack().env);
});
afterAll(() => running.close());

test("every request is answered as the page says", async () => {
  expect(exchanges.length).toBeGreaterThan(10);
  const token = await running.token("admin@demo.tributary.test");
  const ids = { id: "", partner: "" };
  const filled = (text: string): string => text.replaceAll("{id}", ids.id).replaceAll("{partner}", ids.partner);
  for (const { path, status, answer, body, ...asked } of exchanges) {
    const place = filled(path);
    const got = await ask(place, { ...asked, token, ...(body !== undefined && { body: filled(body) }) });
    expect(got.status, `${asked.method} ${place}: ${got.text}`).toBe(status);
    if (answer.trim() !== "") expect(got.body, `${asked.method} ${place}`).toEqual(shown(JSON.parse(answer)));
    if (asked.method === "POST" && path === "/api/clients" && status === 201) ids.id = String(got.body.id);
    if (asked.method === "POST" && path === "/api/partners") ids.partner = String(got.body.id);
  }
});
