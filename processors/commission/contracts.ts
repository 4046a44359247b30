// What commission looks up: the contract of a sale as it was known when the claim came, and the
// client's hold.

import { contractTypeOf } from "../../domain/reference/event-types.ts";
import { type Contract, reference } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";

export interface Contracts {
  /** In force at the time of the sale, exact segment first; undefined: nobody promised anything. */
  readonly contract: Contract | undefined;
  /** Days from the sale until its commission is payable. */
  readonly holdDays: number;
}

export const contracts: FactsFor<Conversion, Contracts> = {
  name: "contracts",
  load: async (batch, read) => {
    const known = await read(
      reference,
      batch.reduce((newest, event) => Math.max(newest, event.receivedAt), 0),
    );
    return ({ at, receivedAt, data }) => {
      const then = known.at(at, receivedAt);
      const holds = then.client(data.client_id)?.hold_days ?? {};
      return { contract: then.contract(data), holdDays: holds[contractTypeOf(data.event_type)] ?? 0 };
    };
  },
};
