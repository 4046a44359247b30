// Small bodies with many events are read a few at a time, like large ones, because parsed they take
// fifty times their bytes.
import { expect, test } from "vitest";
import { clientId } from "../support/builders.ts";
import { openEdgeHost } from "../support/edge-host.ts";

/** The number of these that a lane for small bodies holds. */
const MOST = 10;
const view = (did: string) => ({ t: "page_view", ts: Date.now(), cid: clientId, did, url: "https://shop.example/" });
/**
 * A body that is admitted in several turns of the loop; one event of the first turn and one of the
 * last are valid.
 */
const bodyOf = (did: string): string =>
  JSON.stringify({ events: [view(did), ...Array.from({ length: 5_000 }, () => ({})), view(did)] });

test("bodies of 16 KiB that take several turns of the loop are read a few at a time", async () => {
  const begun = new Set<unknown>();
  let most = 0;
  const host = await openEdgeHost(async ([message]) => {
    // The first part of a body is stored, then the last.
    const { key } = message!;
    if (!begun.delete(key)) begun.add(key);
    most = Math.max(most, begun.size);
  });
  const answers = await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      const response = await fetch(`http://127.0.0.1:${host.port}/ingest/batch`, {
        method: "POST",
        headers: { authorization: "Bearer 1", "content-type": "application/json" },
        body: bodyOf(`device-${n}`),
      });
      const { accepted } = (await response.json()) as { readonly accepted: number };
      return accepted;
    }),
  );
  await host.close();
  expect(answers.every((accepted) => accepted === 2)).toBe(true);
  expect(bodyOf("device-1").length).toBeLessThan(16_384);
  expect(most).toBeLessThanOrEqual(MOST);
});
