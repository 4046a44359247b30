// Sends the events of the generator, one request after the other, and writes each to the journal
// before and after. A request without an answer is repeated or given up.
import { setTimeout as sleep } from "node:timers/promises";
import type { Generator, SentEvent, Tenant } from "./generator.ts";
import type { Ending, Journal } from "./journal.ts";

export interface LoadShape {
  /** Events in a request. */
  readonly batch: number;
  readonly pauseMs: number;
  /** Requests go to every edge in turn instead of the first that answers. */
  readonly spreads: boolean;
}
export interface LoadSettings extends LoadShape {
  /** Addresses of the edges; read before each request and tried in order. */
  readonly urls: () => readonly string[];
  readonly tokens: ReadonlyMap<number, readonly string[]>;
  readonly tenants: readonly Tenant[];
  readonly generator: Generator;
  readonly journal: Journal;
  readonly random: () => number;
}
export interface Load {
  readonly answers: () => Readonly<Record<string, number>>;
  /** Accepted events so far. */
  readonly acknowledged: () => number;
  /** Runs once, right after the next 200 is in the journal, with the ids of the accepted events. */
  readonly afterNextOk: (then: (ids: readonly string[]) => void) => void;
  readonly pace: (pauseMs: number) => void;
  /** Resolves when the request under way has ended. Rejects if an answer broke the contract. */
  readonly stop: () => Promise<void>;
}

const DEADLINE_MS = 12_000;
/** The share of batches without an answer that are sent again instead of given up. */
const PATIENCE = 0.8;

interface Answer {
  readonly status: number;
  readonly accepted: number;
  readonly rejected: number;
  readonly refused: readonly string[];
  readonly errors: number;
}
const post = async (url: string, token: string, body: string): Promise<Answer> => {
  const response = await fetch(`${url}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", connection: "close" },
    body,
    signal: AbortSignal.timeout(DEADLINE_MS),
  });
  const said = (await response.json()) as {
    accepted?: number;
    rejected?: number;
    errors?: readonly { event_id: string | null }[];
  };
  const errors = said.errors ?? [];
  return {
    status: response.status,
    accepted: said.accepted ?? 0,
    rejected: said.rejected ?? 0,
    refused: errors.flatMap(({ event_id: id }) => id ?? []),
    errors: errors.length,
  };
};

const endingOf = (answer: Answer, submitted: number): Ending => {
  const { status, accepted, rejected, refused, errors } = answer;
  if (status === 200) return { outcome: "ok", refused, said: { submitted, accepted, rejected, errors } };
  // A 5xx says that the edge could not store it, but it may be stored all the same.
  return { outcome: status < 500 ? "fail" : "unknown" };
};

/** Sends bodies, writes each to the journal before and after, and counts the answers. */
const openAttempts = (journal: Journal) => {
  const answers: Record<string, number> = {};
  let acknowledged = 0;
  let afterOk: ((ids: readonly string[]) => void) | undefined;

  const onOk = (events: readonly SentEvent[], { said, refused }: Ending): void => {
    acknowledged += said?.accepted ?? 0;
    const then = afterOk;
    afterOk = undefined;
    const isRefused = new Set(refused);
    then?.(events.map(({ event_id: id }) => id).filter((id) => !isRefused.has(id)));
  };
  /** True if the answer says that the events are stored. */
  const attempt = async (op: string, url: string, token: string, events: readonly SentEvent[]): Promise<boolean> => {
    const body = JSON.stringify({ events });
    journal.intend(
      op,
      body,
      events.map(({ event_id: id }) => id),
    );
    let ending: Ending = { outcome: "unknown" };
    let said = "no answer";
    try {
      const answer = await post(url, token, body);
      said = String(answer.status);
      ending = endingOf(answer, events.length);
    } catch {
      // Without an answer the outcome stays unknown.
    }
    answers[said] = (answers[said] ?? 0) + 1;
    journal.end(op, ending);
    if (ending.outcome !== "ok") return false;
    onOk(events, ending);
    return true;
  };
  return {
    attempt,
    answers: () => answers,
    acknowledged: () => acknowledged,
    afterNextOk: (then: (ids: readonly string[]) => void) => {
      afterOk = then;
    },
  };
};

/** Starts at once. */
export const startLoad = (settings: LoadSettings): Load => {
  const { urls, tokens, tenants, generator, journal, random, batch, spreads } = settings;
  const { attempt, answers, acknowledged, afterNextOk } = openAttempts(journal);
  let pauseMs = settings.pauseMs;
  let isStopping = false;
  let turn = 0;
  const started = Date.now().toString(36);

  const running = (async () => {
    while (!isStopping) {
      turn += 1;
      const tenant = tenants[turn % tenants.length]!;
      const events = generator.next(tenant, batch);
      const own = tokens.get(tenant.id)!;
      for (let tries = 0; ; tries += 1) {
        const known = urls();
        const isStored = await attempt(
          `${started}-${turn}.${tries}`,
          known[(tries + (spreads ? turn : 0)) % known.length]!,
          own[(turn + tries) % own.length]!,
          events,
        );
        await sleep(pauseMs);
        if (isStored || isStopping || random() > PATIENCE) break;
      }
    }
  })();
  running.catch(() => undefined);
  return {
    answers,
    acknowledged,
    afterNextOk,
    pace: (ms) => {
      pauseMs = ms;
    },
    stop: () => {
      isStopping = true;
      return running;
    },
  };
};
