// The guide of the platform API: every request of docs/api.md is sent, and answered as it says.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningApi, startApi } from "../support/api.ts";
import { asker } from "../support/ask.ts";
import { sharedStack } from "../support/shared-stack.ts";

interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly status: number;
  readonly answer: string;
}
const exchanges: readonly Exchange[] = [
  ...readFileSync("docs/api.md", "utf8").matchAll(/^```http\n([\s\S]*?)^```\n\n^```(?:json)? (\d+)\n([\s\S]*?)^```$/gm),
].map(([, request, status, answer]) => {
  const [head, body] = request!.trimEnd().split("\n\n");
  const [first, ...lines] = head!.split("\n");
  const [method, path] = first!.split(" ");
  return {
    method: method!,
    path: path!,
    headers: Object.fromEntries(lines.map((line) => line.split(": ") as [string, string])),
    body,
    status: Number(status),
    answer: answer!,
  };
});

let running: RunningApi;
const ask = asker(() => running.url);
beforeAll(async () => {
  running = await startApi(sharedStack().env);
});
afterAll(() => running.close());

/** `"..."` is any value; objects and lists may have more than is shown. */
const shown = (value: unknown): unknown => {
  if (value === "...") return expect.anything();
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value !== "object" || value === null) return value;
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shown(part)])));
};

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
