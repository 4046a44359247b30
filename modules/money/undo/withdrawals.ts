// What settle has answered to the withdrawal of rows of files, from its recorded outcomes.
import type { Pool } from "pg";
import { decodeOutcome } from "../../../infra/avro/outcome.ts";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { UNDONE } from "../../../processors/settle/undo/undone-row.ts";
import type { Conversion, EventAttributed } from "../../../schemas/generated.ts";
import type { RecordedMessage, Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";

export interface Withdrawal {
  /** False: the decision has changed nothing. */
  readonly isWithdrawn: boolean;
  /** What the row was: a credited sale, one that earned nothing, a copy of another, or no sale. */
  readonly was: "taken_back" | "uncredited" | "copies" | "no_sale";
  /** By currency: what its partner lost by it. */
  readonly taken: ReadonlyMap<string, bigint>;
}
type Ports = { readonly pool: Pool; readonly wire: Pick<Wire, "decode"> };

/** The outcomes of these decisions, as far as settle has processed them; they are final. */
export const withdrawalsOf = async (
  { pool, wire }: Ports,
  decisions: readonly string[],
): Promise<ReadonlyMap<string, Withdrawal>> => {
  const { rows } = await transaction(
    pool,
    null,
    (tx) =>
      tx.query<{ event_id: string; outcome: Buffer }>(sql`
        select event_id, outcome from memory_outcome where stage = 'settle' and event_id = any (${decisions})`),
    { isReadOnly: true },
  );
  return new Map(
    rows.map(({ event_id, outcome }) => [
      event_id,
      withdrawalIn(wire, event_id, decodeOutcome(unpacked(outcome)).messages),
    ]),
  );
};

const withdrawalIn = (wire: Ports["wire"], decisionId: string, messages: readonly RecordedMessage[]): Withdrawal => {
  const nowhere = { partition: -1, offset: -1 };
  const of = (name: string) => messages.filter(({ topic }) => topic === name);
  const conversions = of(topics.conversions.name).map(
    ({ topic, value }): Conversion => wire.decode(topics.conversions, value, { topic, ...nowhere }).data,
  );
  const rows = of(topics.eventsAttributed.name).map(
    ({ topic, value }): EventAttributed => wire.decode(topics.eventsAttributed, value, { topic, ...nowhere }).data,
  );
  const own = rows.find(({ credit }) => credit.reason === UNDONE);
  const taken = takenIn(conversions);
  const isCopy = own !== undefined && own.merged_into !== decisionId;
  const was = own?.event.t === "refund" ? "no_sale" : taken.size > 0 ? "taken_back" : isCopy ? "copies" : "uncredited";
  return { isWithdrawn: messages.length > 0, was, taken };
};

/** What was reversed of partners who were not credited with as much again. */
const takenIn = (conversions: readonly Conversion[]): ReadonlyMap<string, bigint> => {
  const lost = new Map<string, { readonly currency: string; minor: bigint }>();
  for (const { kind, partner_id, currency, value_minor } of conversions) {
    const key = `${partner_id} ${currency}`;
    const one = lost.get(key) ?? { currency, minor: 0n };
    one.minor += kind === "credited" ? -value_minor : value_minor;
    lost.set(key, one);
  }
  const taken = new Map<string, bigint>();
  for (const { currency, minor } of lost.values())
    if (minor > 0n) taken.set(currency, (taken.get(currency) ?? 0n) + minor);
  return taken;
};
