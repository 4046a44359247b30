// What the devices of a subject did, and which of them the subject only claims: anyone can send a
// page's event with an address of his own and the device of another person.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { isOfMoney } from "../scrub.ts";
import { personTexts } from "./events.ts";
import { type ErasureTarget, peopleOf } from "./target.ts";

/** A device that the subject was seen on and, as far as edges say, no other person. */
export interface DeviceUse {
  readonly did: string;
  readonly events: number;
  /** Orders, refunds, leads and installs. */
  readonly sales: number;
  /**
   * Only pages said that it is the subject's, and a sender with a credential uses it without saying
   * so. Then only what names the subject goes there.
   */
  readonly is_claimed: boolean;
}

/** Devices that an earlier erasure took are decided: what spoke for them may be gone. */
export const usesOf = async (clickhouse: Clickhouse, target: ErasureTarget): Promise<readonly DeviceUse[]> => {
  const { clientId, devices, since, taken, subject } = target;
  if (devices.length === 0) return [];
  const answer = await clickhouse.query({
    query: `select did, uniqExact(event_id), uniqExactIf(event_id, ${isOfMoney}),
        countIf(not client_side and says), countIf(not client_side and not says and not startsWith(t, 'click'))
      from (select *, multiSearchAny(${personTexts}, {people:Array(String)}) as says from events
        where client_id = {client:UInt32} and did in {devices:Array(String)}
          and least(ts, received_at) <= fromUnixTimestamp64Milli({since:Int64}))
      group by did`,
    query_params: { client: clientId, devices, since, people: peopleOf(target) },
    format: "JSONCompactEachRow",
  });
  const rows = await answer.json<readonly [did: string, ...counts: string[]]>();
  const found = new Map(rows.map(([did, ...counts]) => [did, counts.map(Number)] as const));
  return devices.map((did) => {
    const [events = 0, sales = 0, said = 0, used = 0] = found.get(did) ?? [];
    const is_claimed = subject.kind !== "did" && !taken.includes(did) && said === 0 && used > 0;
    return { did, events, sales, is_claimed };
  });
};

/** The subject with its own devices alone. */
export const withoutClaimed = (target: ErasureTarget, uses: readonly DeviceUse[]): ErasureTarget => {
  const claimed = new Set(uses.flatMap(({ did, is_claimed }) => (is_claimed ? [did] : [])));
  const isClaimed = (did: string): boolean => claimed.has(did);
  const [devices, shared] = [target.devices.filter((did) => !isClaimed(did)), target.devices.filter(isClaimed)];
  return { ...target, devices, shared: [...target.shared, ...shared] };
};
