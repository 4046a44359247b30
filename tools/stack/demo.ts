// Demo traffic through the batch edge, at a gentle rate, until stopped. While an edge is down, the
// batch is tried again each second.
import { setTimeout as pause } from "node:timers/promises";
import { clickIdKey } from "../../domain/click-id.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { type Shop, visit } from "./visitors.ts";

export interface DemoOptions {
  readonly url: string;
  readonly secret: string;
  readonly shops: readonly (Shop & { readonly token: string })[];
  /** Visits a second over all shops; one visit has about 3.5 events. */
  readonly visitsPerSecond: number;
  readonly seed: number;
}
export interface Demo {
  readonly seed: number;
  /** Events that the edge has accepted since the start. */
  readonly accepted: () => number;
  readonly lastProblem: () => string | undefined;
  readonly stop: () => Promise<void>;
}

export const startDemo = (options: DemoOptions): Demo => {
  const random = randomFrom(options.seed);
  const key = clickIdKey(options.secret, 1);
  const run = `demo-${options.seed}`;
  const stopping = new AbortController();
  let visits = 0;
  let accepted = 0;
  let problem: string | undefined;

  const post = async (shop: DemoOptions["shops"][number], now: number) => {
    const count = Math.max(1, Math.round(options.visitsPerSecond / options.shops.length));
    const first = visits + 1;
    visits += count;
    const events = Array.from({ length: count }, (_, n) => visit(shop, run, first + n, now, random, key)).flat();
    try {
      const response = await fetch(`${options.url}/ingest/batch`, {
        method: "POST",
        headers: { authorization: `Bearer ${shop.token}`, "content-type": "application/json" },
        body: JSON.stringify({ events }),
        signal: AbortSignal.timeout(10_000),
      });
      const answer = (await response.json()) as { accepted?: number; detail?: string };
      accepted += answer.accepted ?? 0;
      problem = response.ok ? undefined : `${response.status} ${answer.detail ?? ""}`;
    } catch (error) {
      problem = (error as Error).message;
    }
  };
  /** One batch a shop and second stays below the 100 requests a minute of a token. */
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const started = performance.now();
      await Promise.all(options.shops.map((shop) => post(shop, Date.now())));
      await pause(Math.max(0, 1_000 - (performance.now() - started)), undefined, { signal: stopping.signal }).catch(
        () => undefined,
      );
    }
  })();
  return {
    seed: options.seed,
    accepted: () => accepted,
    lastProblem: () => problem,
    stop: async () => {
      stopping.abort();
      await loop;
    },
  };
};
