// A sender with a journal: it writes its intent to disk before each request, and the outcome after
// it.
import { createHash } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";

/**
 * A new seed for every run, unless TEST_SEED repeats an earlier one. It is printed for that
 * purpose.
 */
export const newSeed = (name: string): number => {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 1_000_000);
  console.log(`${name}: seed ${seed} (TEST_SEED=${seed} repeats it)`);
  return seed;
};

export interface SentEvent {
  readonly event_id: string;
  readonly t: string;
  readonly ts: number;
  readonly cid: number;
  readonly did: string;
  readonly props: { readonly order_id?: string; readonly revenue?: string; readonly [name: string]: unknown };
}

/**
 * Events of aurora-music: half are sales of CDs, which its rule credits with 10 %. Some sales come
 * a second time under another id, as from a shop's own server.
 */
export const eventsOf = (random: () => number, run: string, clientId: number) => {
  let number = 0;
  const sales: SentEvent[] = [];
  const one = (): SentEvent => {
    number += 1;
    const base = {
      event_id: `${run}-${number}`,
      ts: Date.now() - 60_000,
      cid: clientId,
      did: `${run}-device-${Math.floor(random() * 200)}`,
    };
    const kind = random();
    if (kind < 0.5) return { ...base, t: "page_view", props: { url: `https://shop.example/${number}` } };
    const earlier = sales[Math.floor(random() * sales.length)];
    if (kind < 0.55 && earlier !== undefined) return { ...earlier, ...base, did: `${run}-shop-server` };
    const cents = Math.floor(random() * 20_000);
    const revenue = `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}`;
    const sale = {
      ...base,
      t: "purchase",
      props: { order_id: `${run}-order-${number}`, product_id: "cd", quantity: 1, revenue, currency: "USD" },
    };
    sales.push(sale);
    return sale;
  };
  return (count: number): readonly SentEvent[] => Array.from({ length: count }, one);
};

export type Outcome = "ok" | "fail" | "unknown";
export interface Journal {
  readonly intend: (op: string, events: readonly SentEvent[]) => void;
  readonly end: (op: string, outcome: Outcome) => void;
  /**
   * Read from the file: event ids by the outcome of the last attempt that held them. An `ok` is
   * final.
   */
  readonly outcomes: () => ReadonlyMap<string, Outcome>;
  readonly close: () => void;
}
export const openJournal = (file: string): Journal => {
  const fd = openSync(file, "a");
  const write = (line: object): void => {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    fdatasyncSync(fd);
  };
  return {
    intend: (op, events) =>
      write({
        op,
        hash: createHash("sha256").update(JSON.stringify(events)).digest("hex"),
        ids: events.map(({ event_id }) => event_id),
      }),
    end: (op, outcome) => write({ op, outcome }),
    outcomes: () => {
      const lines = readFileSync(file, "utf8").trim().split("\n");
      const idsOf = new Map<string, readonly string[]>();
      const found = new Map<string, Outcome>();
      for (const line of lines.map((text) => JSON.parse(text) as { op: string; ids?: string[]; outcome?: Outcome })) {
        if (line.ids !== undefined) idsOf.set(line.op, line.ids);
        // An attempt without a written outcome is unknown.
        const outcome = line.outcome ?? "unknown";
        for (const id of idsOf.get(line.op)!) {
          const before = found.get(id);
          if (before === undefined || outcome === "ok" || (before === "unknown" && line.outcome === undefined))
            found.set(id, outcome);
          else if (before !== "ok" && outcome === "unknown") found.set(id, "unknown");
        }
      }
      return found;
    },
    close: () => closeSync(fd),
  };
};

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly accepted: number;
  readonly rejected: number;
}
/** Sends one request on its own connection. Rejects if no answer comes. */
export const post = async (
  url: string,
  token: string,
  events: readonly SentEvent[],
  deadlineMs = 15_000,
): Promise<Answer> => {
  const response = await fetch(`${url}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", connection: "close" },
    body: JSON.stringify({ events }),
    signal: AbortSignal.timeout(deadlineMs),
  });
  const body = (await response.json()) as { accepted?: number; rejected?: number };
  return {
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    accepted: body.accepted ?? 0,
    rejected: body.rejected ?? 0,
  };
};

export interface LoadSettings {
  readonly url: string;
  readonly tokens: readonly string[];
  readonly next: (count: number) => readonly SentEvent[];
  readonly random: () => number;
  readonly journal: Journal;
  readonly batch: number;
  readonly pauseMs: number;
  /** The probability that the sender retries a batch without an answer. */
  readonly patience?: number;
}
export interface Load {
  readonly sent: ReadonlyMap<string, SentEvent>;
  readonly answers: () => Readonly<Record<string, number>>;
  readonly stop: () => Promise<void>;
}
const underWay = new Set<Load>();
/** Stops what a failed test has left sending, which would fail every later file of the process. */
export const stopLoads = async (): Promise<void> => {
  await Promise.allSettled([...underWay].map((load) => load.stop()));
};

/**
 * Sends batch after batch until it is stopped. A batch without an answer is retried with the same
 * ids, or given up, and then its outcome stays unknown.
 */
export const startLoad = (settings: LoadSettings): Load => {
  const { url, tokens, next, random, journal, batch, pauseMs, patience = 0.7 } = settings;
  const sent = new Map<string, SentEvent>();
  const answers: Record<string, number> = {};
  let isStopping = false;
  const pause = () => new Promise((resolve) => setTimeout(resolve, pauseMs));
  const attempt = async (op: string, token: string, events: readonly SentEvent[]): Promise<Outcome> => {
    journal.intend(op, events);
    let outcome: Outcome = "unknown";
    let said = "no answer";
    try {
      const { status, accepted, rejected } = await post(url, token, events);
      said = String(status);
      if (status === 200) {
        if (accepted !== events.length || rejected !== 0)
          throw new Error(`${op}: ${accepted} accepted of ${events.length}`);
        outcome = "ok";
      } else if (status < 500) outcome = "fail";
    } finally {
      answers[said] = (answers[said] ?? 0) + 1;
      journal.end(op, outcome);
    }
    return outcome;
  };
  const running = (async () => {
    for (let number = 0; !isStopping; number += 1) {
      const events = next(batch);
      for (const event of events) sent.set(event.event_id, event);
      for (let tries = 1; ; tries += 1) {
        const outcome = await attempt(`${number}.${tries}`, tokens[(number + tries) % tokens.length]!, events).catch(
          (error: Error) => {
            if (error.message.includes("accepted of")) throw error;
            return "unknown" as const;
          },
        );
        await pause();
        if (outcome === "ok" || isStopping || random() > patience) break;
      }
    }
  })();
  // Every caller awaits stop(), which throws this error.
  running.catch(() => undefined);
  const load: Load = {
    sent,
    answers: () => answers,
    stop: () => {
      isStopping = true;
      underWay.delete(load);
      return running;
    },
  };
  underWay.add(load);
  return load;
};
