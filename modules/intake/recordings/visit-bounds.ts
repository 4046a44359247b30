// How many recordings may begin: bounds of a client's day, of a network and of an address. They are
// rows of the transaction that begins the visit, so they hold over all processes and restarts.
import { createHmac } from "node:crypto";
import type { PoolClient } from "pg";
import { derive } from "../../../domain/hmac.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** Limits of the visits that begin. */
export interface VisitLimits {
  /** Of a client in 24 hours. */
  readonly visitsADay: number;
  /** Of these, those that begin without a good ticket. */
  readonly ticketlessADay: number;
  /**
   * Of a network in 24 hours, with and without tickets: someone with many addresses has few
   * networks, and one address alone would begin 720 in a day.
   */
  readonly ofNetworkADay: number;
  /** Of an address in an hour of the clock. */
  readonly ofAddressAnHour: number;
  readonly ticketlessOfAddressAnHour: number;
}
export const visitLimits: VisitLimits = {
  visitsADay: 2_000,
  ticketlessADay: 200,
  ofNetworkADay: 200,
  ofAddressAnHour: 30,
  ticketlessOfAddressAnHour: 3,
};

/** Why a visit may not begin. */
export type NotBegun = "too_many_visits" | "too_many_of_network" | "too_many_of_address" | "ticket_needed";

export interface Beginning {
  readonly clientId: number;
  /** The address (senderOf) and its network (networkOf). */
  readonly sender: string;
  readonly network: string;
  /** A good one. */
  readonly hasTicket: boolean;
  readonly receivedAt: UnixMs;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Returns undefined and counts the visit, or returns the bound that it would pass. The caller holds
 * the lock under which visits of the client begin one after another.
 */
export const countBeginning = async (
  tx: PoolClient,
  beginning: Beginning,
  keyring: Pick<Keyring, "newest">,
  limits: VisitLimits = visitLimits,
): Promise<NotBegun | undefined> => {
  const senders = sendersOf(beginning, keyring);
  const bound = await passedBound(tx, beginning, senders, limits);
  if (bound !== undefined) return bound;
  const { clientId, hasTicket, receivedAt } = beginning;
  for (const { sender, endsAt } of [senders.address, senders.network])
    await tx.query(sql`
      insert into recording_senders as known (client_id, sender, hour, visits, ticketless, ends_at)
      values (${clientId}, ${sender}, ${hourOf(receivedAt)}, 1, ${hasTicket ? 0 : 1}, ${new Date(endsAt)})
      on conflict (client_id, sender, hour)
        do update set visits = known.visits + 1, ticketless = known.ticketless + excluded.ticketless`);
  return undefined;
};

const passedBound = async (
  tx: PoolClient,
  { clientId, hasTicket, receivedAt }: Beginning,
  { address, network }: Senders,
  limits: VisitLimits,
): Promise<NotBegun | undefined> => {
  const day = await tx.query<Counts>(sql`
    select count(*)::int as visits, (count(*) filter (where not has_ticket))::int as ticketless from recordings
    where client_id = any (${[clientId]}::int[]) and started_at > ${new Date(receivedAt - DAY_MS)}`);
  const ofDay = day.rows[0]!;
  if (ofDay.visits >= limits.visitsADay) return "too_many_visits";
  const ofNetwork = await countsOf(tx, clientId, network, receivedAt);
  if (ofNetwork.visits >= limits.ofNetworkADay) return "too_many_of_network";
  const ofAddress = await countsOf(tx, clientId, address, receivedAt);
  if (ofAddress.visits >= limits.ofAddressAnHour) return "too_many_of_address";
  if (hasTicket) return undefined;
  const isOver = ofDay.ticketless >= limits.ticketlessADay || ofAddress.ticketless >= limits.ticketlessOfAddressAnHour;
  return isOver ? "ticket_needed" : undefined;
};

interface Counts {
  readonly visits: number;
  readonly ticketless: number;
}
const countsOf = async (tx: PoolClient, clientId: number, { sender }: Sender, receivedAt: UnixMs): Promise<Counts> => {
  const { rows } = await tx.query<Counts>(sql`
    select coalesce(sum(visits), 0)::int as visits, coalesce(sum(ticketless), 0)::int as ticketless
    from recording_senders
    where client_id = any (${[clientId]}::int[]) and sender = ${sender} and ends_at > ${new Date(receivedAt)}`);
  return rows[0]!;
};

interface Sender {
  /** Keyed hash. */
  readonly sender: Buffer;
  /** Until then its row counts. */
  readonly endsAt: UnixMs;
}
interface Senders {
  readonly address: Sender;
  readonly network: Sender;
}
const HASH_BYTES = 12;
const hourOf = (at: UnixMs): number => Math.floor(at / HOUR_MS);

/**
 * No address is stored. The hash of an address has the hour in it, so rows of two hours cannot be
 * joined. After a rotation of the secret counting begins again.
 */
const sendersOf = (
  { clientId, sender, network, receivedAt }: Beginning,
  { newest }: Pick<Keyring, "newest">,
): Senders => {
  const key = derive(newest, "replay-sender:1");
  const hashOf = (text: string): Buffer =>
    createHmac("sha256", key).update(`${clientId} ${text}`).digest().subarray(0, HASH_BYTES);
  const began = hourOf(receivedAt) * HOUR_MS;
  return {
    address: { sender: hashOf(`${hourOf(receivedAt)} ${sender}`), endsAt: began + HOUR_MS },
    network: { sender: hashOf(network), endsAt: began + DAY_MS },
  };
};
