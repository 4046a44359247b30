// Sends hostile bodies one after the other, so that each is measured separately.
import { print, table } from "../../../infra/runtime/output.ts";
import { randomFrom } from "../../../infra/runtime/random.ts";
import type { Target } from "../target.ts";
import { hurtingBody } from "./bodies.ts";
import { longestLagMs } from "./edge-watch.ts";
import { converse } from "./exchange.ts";
import { quantile, statusText, type Verdict } from "./findings.ts";
import { progress } from "./progress.ts";
import { MOST_BYTES, type Sender } from "./senders.ts";

/** A token may send 100 requests a minute. */
export const BODIES_A_TOKEN = 90;

/** Lists the bodies that blocked the event loop longest. */
export const oneByOne = async (
  target: Target,
  senders: readonly Sender[],
  count: number,
  seed: number,
): Promise<readonly Verdict[]> => {
  const { ops_url: opsUrl } = target.run().apps.ingest!;
  const random = randomFrom(seed);
  const found: { readonly n: number; readonly ms: number; readonly what: string }[] = [];
  const statuses = new Map<number, number>();
  await longestLagMs(opsUrl);
  for (let n = 0; n < count; n += 1) {
    const sender = senders[Math.floor(n / BODIES_A_TOKEN)]!;
    const { kind, body } = hurtingBody(random, Math.ceil(MOST_BYTES * random() ** 3), sender.clientId);
    const head = [
      "POST /ingest/batch HTTP/1.1\r\nHost: edge\r\nConnection: close\r\nContent-Type: application/json",
      `Authorization: Bearer ${sender.token}\r\nContent-Length: ${body.length}\r\n\r\n`,
    ].join("\r\n");
    const said = await converse(sender.address, { steps: [head, body], ending: "wait", patienceMs: 60_000 });
    const status = said.statuses[0] ?? 0;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    found.push({ n, ms: await longestLagMs(opsUrl), what: `${kind}, ${body.length} bytes, answered ${status}` });
    if (n % 100 === 99) progress(`${n + 1} bodies, ${statusText(statuses)}`);
  }
  const slowest = [...found].sort((a, b) => b.ms - a.ms).slice(0, 8);
  print(
    table(
      ["body", "blocked ms", "what"],
      slowest.map(({ n, ms, what }) => [n, Math.round(ms), what]),
    ),
  );
  const wrong = [...statuses.keys()].filter((status) => ![200, 400, 413].includes(status));
  return [
    { says: "each body is taken or refused", isKept: wrong.length === 0, figure: statusText(statuses) },
    {
      says: "none blocks the loop for a second of wall time",
      isKept: (slowest[0]?.ms ?? 0) < 1_000,
      figure: `longest ${Math.round(slowest[0]?.ms ?? 0)} ms, p99 ${Math.round(
        quantile(
          found.map(({ ms }) => ms),
          0.99,
        ),
      )} ms`,
    },
  ];
};
