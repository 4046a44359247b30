// No body may hold up other requests: law X3 of docs/design/laws.md, on generated bodies that are
// expensive.
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { hurtingBody } from "../../tools/chaos/fuzz/bodies.ts";
import { clientId } from "../support/builders.ts";
import { type EdgeHost, openEdgeHost } from "../support/edge-host.ts";
import { longestBlock } from "../support/loop-blocks.ts";

const MIB = 1024 * 1024;
const LIMIT_MS = 200;
/**
 * The first turns run before V8 has compiled their code, so a body counts as slow only if it is
 * slow every time.
 */
const ATTEMPTS = 3;
const seed = Date.now() % 1_000_000;
const random = randomFrom(seed);

let edge: EdgeHost;
beforeAll(async () => {
  edge = await openEdgeHost();
});
afterAll(() => edge.close());

const post = async (body: Buffer): Promise<number> => {
  const answer = await fetch(`http://127.0.0.1:${edge.port}/ingest/batch`, {
    method: "POST",
    headers: { authorization: "Bearer 1", "content-type": "application/json" },
    body: body as unknown as string,
  });
  await answer.text();
  return answer.status;
};

test.each([
  ["200 bodies of up to 1 MiB", 200, MIB],
  ["12 bodies of up to 25 MiB", 12, 24 * MIB],
])("%s: each blocks the loop for less than 200 ms, and is answered", { timeout: 300_000 }, async (_, count, most) => {
  const slow: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { kind, body } = hurtingBody(random, Math.ceil(most * random() ** 2), clientId);
    let least = Number.POSITIVE_INFINITY;
    for (let attempt = 0; attempt < ATTEMPTS && least > LIMIT_MS; attempt += 1) {
      const block = await longestBlock(async () => expect([200, 400, 413]).toContain(await post(body)));
      least = Math.min(least, block);
    }
    if (least > LIMIT_MS) slow.push(`${Math.round(least)} ms: body ${n} of ${body.length} bytes, ${kind}`);
  }
  expect(slow, `seed ${seed}`).toEqual([]);
});
