// Checks that every accepted event is in the tables, exactly once.
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import type { Target } from "../target.ts";
import type { Verdict } from "./findings.ts";

/** A batch of a hostile sender that was accepted with 200. */
export interface AcceptedBatch {
  readonly batchId: string;
  readonly accepted: number;
  readonly token: string;
}

/** The number of batches whose receipts are read. */
const RECEIPTS = 300;
const SETTLE_MS = 180_000;

export const storedOnce = async (target: Target, prefix: string, accepted: number): Promise<Verdict> => {
  const says = "every accepted event of the good ones is stored once";
  const count = async () => {
    const [found] = await target.select<{ rows: string; ids: string }>(
      "select count() as rows, uniqExact(sender_event_id) as ids from events_current " +
        `where startsWith(ifNull(sender_event_id, ''), '${prefix}')`,
    );
    return { rows: Number(found!.rows), ids: Number(found!.ids) };
  };
  const stored = await until("all of it is stored", SETTLE_MS, async () => {
    const now = await count();
    if (now.ids < accepted) throw new Error(`${now.ids} of ${accepted}`);
    return now;
  }).catch(count);
  // A request without an answer may still have been stored.
  const isKept = stored.rows === stored.ids && stored.ids >= accepted;
  return { says, isKept, figure: `${accepted} accepted, ${stored.ids} stored in ${stored.rows} rows` };
};

interface Receipt {
  readonly accepted: number;
  readonly events: Readonly<Record<string, number>>;
}
/** Checks a sample of the batches that hostile senders had accepted with 200. */
export const receipts = async (target: Target, batches: readonly AcceptedBatch[]): Promise<Verdict> => {
  const step = Math.max(1, Math.floor(batches.length / RECEIPTS));
  const asked = batches.filter((_, n) => n % step === 0);
  const open: string[] = [];
  let events = 0;
  for (const { batchId, accepted, token } of asked) {
    const ask = async (): Promise<number> => {
      const url = `${target.run().apps.ingest!.url}/ingest/receipts/${batchId}`;
      const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      if (answer.status !== 200) throw new Error(`the receipt is answered ${answer.status}`);
      const receipt = (await answer.json()) as Receipt;
      const { stored = 0, duplicate = 0, rejected_by_fraud: byFraud = 0, in_flight: left = 0 } = receipt.events;
      if (left > 0 || stored + duplicate + byFraud < accepted) throw new Error(JSON.stringify(receipt));
      return stored;
    };
    events += accepted;
    await until("a batch is stored", SETTLE_MS, ask).catch((error: Error) => open.push(`${batchId}: ${error.message}`));
    if (open.length > 3) break;
  }
  return {
    says: "every accepted event of the hostile ones is accounted for",
    isKept: open.length === 0,
    figure: open[0] ?? `${events} events in ${asked.length} of ${batches.length} batches`,
  };
};
