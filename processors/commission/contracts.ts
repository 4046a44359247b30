// The facts of commission: the contract of a sale as known when the claim was received, and the
// client's hold period.

import { type Month, monthOf } from "../../domain/calendar.ts";
import { type Contract, contractTypeOf, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import type { FactsFor, UnixMs } from "../../stream/flow.ts";

export interface Contracts {
  /**
   * The contract in force at the time of the sale; one for the exact segment takes precedence.
   * Undefined if there is none.
   */
  readonly contract: Contract | undefined;
  /** The number of days from the sale until its commission is payable. */
  readonly holdDays: number;
  /**
   * Where the entry is booked if the month of the sale is closed: the first later month that is
   * open. Null if the sale's month is open.
   */
  readonly openMonth: Month | null;
  /** The same for another line of the sale's order, by the time of that line. */
  readonly openMonthAt: (occurredAt: UnixMs) => Month | null;
}

type Whose = Pick<Conversion, "client_id" | "partner_id">;
const openMonthOf = (then: ReferenceAt, { client_id, partner_id }: Whose, occurred_at: UnixMs): Month | null => {
  const own = monthOf(occurred_at);
  let { year, month } = own;
  while (then.isClosed({ client_id, partner_id, year, month }))
    [year, month] = month === 12 ? [year + 1, 1] : [year, month + 1];
  return year === own.year && month === own.month ? null : { year, month };
};

export const contracts: FactsFor<Conversion, Contracts> = {
  name: "contracts",
  load: async (batch, read) => {
    const known = await read(
      reference,
      batch.reduce((newest, event) => Math.max(newest, event.receivedAt), 0),
    );
    return ({ at, receivedAt, data }) => {
      const then = known.at(at, data.known_at ?? receivedAt);
      const holds = then.client(data.client_id)?.hold_days ?? {};
      return {
        contract: then.contract(data),
        holdDays: holds[contractTypeOf(data.event_type)] ?? 0,
        openMonth: openMonthOf(known.at(at, receivedAt), data, data.occurred_at),
        openMonthAt: (occurredAt) => openMonthOf(known.at(at, receivedAt), data, occurredAt),
      };
    };
  },
};
