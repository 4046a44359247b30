// What commission looks up: the contract of a sale as it was known when the claim came, and the
// client's hold.

import { type Month, monthOf } from "../../domain/calendar.ts";
import { contractTypeOf } from "../../domain/reference/event-types.ts";
import { type Contract, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";

export interface Contracts {
  /** In force at the time of the sale, exact segment first; undefined: nothing was promised. */
  readonly contract: Contract | undefined;
  /** Days from the sale until its commission is payable. */
  readonly holdDays: number;
  /** Where it is booked when the month of the sale is closed: the first one behind that is not. */
  readonly openMonth: Month | null;
}

const openMonthOf = (then: ReferenceAt, { client_id, partner_id, occurred_at }: Conversion): Month | null => {
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
        openMonth: openMonthOf(known.at(at, receivedAt), data),
      };
    };
  },
};
