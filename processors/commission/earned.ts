// processors/commission/earned.ts - what commission remembers of a conversion: what it earned and what of that was taken back.
import { remembersBy, type UnixMs } from "../../stream/flow.ts";

export interface Earned {
  /** The entry that a reversal names; null when nothing was earned, for `reason`. */
  readonly entry_id: string | null;
  readonly reason: string | null;
  readonly earned_minor: bigint;
  readonly reversed_minor: bigint;
  readonly held: boolean;
  readonly payable_from: UnixMs | null;
  readonly contract_id: number | null;
  readonly contract_version: number | null;
  readonly commission_type: string | null;
}
export type CommissionMemory = Readonly<Record<string, Earned>>;

export const subKeyOf = (conversionId: string): string => `cnv:${conversionId}`;

/** The only form so far; an older one is recognised by its number, whatever fields come later. */
const FORMAT = 1;
const decoder = new TextDecoder();

const encode = (earned: Earned): Uint8Array =>
  Buffer.from(
    JSON.stringify({
      format: FORMAT,
      entry_id: earned.entry_id,
      reason: earned.reason,
      earned_minor: earned.earned_minor.toString(),
      reversed_minor: earned.reversed_minor.toString(),
      held: earned.held,
      payable_from: earned.payable_from,
      contract_id: earned.contract_id,
      contract_version: earned.contract_version,
      commission_type: earned.commission_type,
    }),
  );

const decode = (bytes: Uint8Array): Earned => {
  const kept = JSON.parse(decoder.decode(bytes));
  if (kept.format !== FORMAT) throw new Error(`a commission was remembered in format ${kept.format}, and only ${FORMAT} is known`);
  return {
    entry_id: kept.entry_id,
    reason: kept.reason,
    earned_minor: BigInt(kept.earned_minor),
    reversed_minor: BigInt(kept.reversed_minor),
    held: kept.held,
    payable_from: kept.payable_from,
    contract_id: kept.contract_id,
    contract_version: kept.contract_version,
    commission_type: kept.commission_type,
  };
};

/** One value a conversion, so none grows with the number of a partner's sales. */
export const earned = remembersBy<Earned>({
  name: "earned",
  keyedBy: "client_id:partner_id",
  driver: "durable",
  keysOf: (event) => [subKeyOf(event.data.conversion_id)],
  encode,
  decode,
});
