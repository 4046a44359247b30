// Stores pushed leads in one transaction: the first push of an id counts, its personal data is
// sealed, and the outbox announces it to the log.

import type { Pool, PoolClient } from "pg";
import { hit } from "#failpoint";
import { shareUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Announcement, announce } from "../../base/outbox/outbox.ts";
import { type LeadContent, nameOf, sealLead, subjectsIn } from "./lead-cipher.ts";
import type { LeadKeys } from "./lead-keys.ts";

/** An admitted push. */
export interface Lead {
  readonly lead_id: string;
  /** The id of the lead under its own spelling. Null if that is the same. */
  readonly lead_before: string | null;
  readonly event: EventReceived;
  readonly content: LeadContent;
  /** Keyed hashes of the person's e-mail and phone. */
  readonly email: string | null;
  readonly phone: string | null;
  readonly hasGoodClick: boolean;
  readonly receivedAt: UnixMs;
}
export interface PushResult {
  readonly status: "created" | "duplicate";
  readonly lead_id: string;
  /** True if credited; for a lead that is not settled yet, whether its click could be credited. */
  readonly attributed: boolean;
}

/** The lock under which a push and an erasure of one client's leads exclude each other. */
export const leadsLock = (clientId: number): string => `tributary.leads:${clientId}`;

/**
 * Stores up to some hundred leads of one client. Of leads with one id the first counts, unless one
 * is stored already. Commits the lead, its keys, its sealed data, its event and the notices for
 * webhooks together. Before the commit nothing is stored and the sender sends again; after it a
 * repeated push is a duplicate.
 */
export const storeLeads = async (
  { pool, keys }: { readonly pool: Pool; readonly keys: LeadKeys },
  clientId: number,
  leads: readonly Lead[],
): Promise<readonly PushResult[]> => {
  const pushed = await transaction(pool, [clientId], async (tx) => {
    const written = await writeLeads({ tx, keys }, clientId, leads);
    hit("lead-written");
    return written;
  });
  hit("lead-stored");
  return pushed;
};

const writeLeads = async (
  { tx, keys }: { readonly tx: PoolClient; readonly keys: LeadKeys },
  clientId: number,
  pushed: readonly Lead[],
): Promise<readonly PushResult[]> => {
  await shareUntilCommit(tx, leadsLock(clientId));
  const leads = await asStoredBefore(tx, clientId, pushed);
  const firsts = [...new Map(leads.toReversed().map((lead) => [lead.lead_id, lead])).values()];
  const created = await insertLeads(tx, clientId, firsts);
  const fresh = new Set(firsts.filter(({ lead_id }) => created.has(lead_id)));
  if (fresh.size > 0) await insertPeople(tx, { clientId, keys }, [...fresh]);
  await announce(
    tx,
    leads.flatMap((lead) => announcedBy(clientId, lead, fresh.has(lead))),
  );
  const others = leads.filter((lead) => !fresh.has(lead));
  const credited = others.length === 0 ? new Map<string, boolean>() : await creditOf(tx, clientId, others);
  return leads.map((lead) => ({
    status: fresh.has(lead) ? "created" : "duplicate",
    lead_id: lead.lead_id,
    attributed: fresh.has(lead) ? lead.hasGoodClick : (credited.get(lead.lead_id) ?? false),
  }));
};

/** Leads that were stored before ids had one spelling keep their id, so a push finds them. */
const asStoredBefore = async (tx: PoolClient, clientId: number, leads: readonly Lead[]): Promise<readonly Lead[]> => {
  const asked = leads.flatMap(({ lead_before }) => lead_before ?? []);
  if (asked.length === 0) return leads;
  const { rows } = await tx.query<{ lead_id: string; event_id: string }>(sql`
    select lead_id, event_id from leads where client_id = any (${[clientId]}::int[]) and lead_id = any (${asked})`);
  const known = new Map(rows.map(({ lead_id, event_id }) => [lead_id, event_id]));
  return leads.map((lead) => {
    const event_id = known.get(lead.lead_before ?? "");
    return event_id === undefined ? lead : { ...lead, lead_id: lead.lead_before!, event: { ...lead.event, event_id } };
  });
};

/** Returns the ids that no earlier push has brought. Waits for concurrent pushes of the same id. */
const insertLeads = async (tx: PoolClient, clientId: number, leads: readonly Lead[]): Promise<ReadonlySet<string>> => {
  const rows = leads.map(({ lead_id, event, hasGoodClick, receivedAt }) => {
    const { client_lead_id, product, stage } = JSON.parse(event.props) as Readonly<Record<string, string | undefined>>;
    const { event_id, value_minor, currency, ts } = event;
    return {
      ...{ lead_id, event_id, client_lead_id, product, stage, currency },
      ...{ value_minor: value_minor?.toString(), has_good_click: hasGoodClick, event_at: ts, received_at: receivedAt },
    };
  });
  const { rows: created } = await tx.query<{ lead_id: string }>(sql`
    insert into leads (client_id, lead_id, event_id, client_lead_id, product, stage, value_minor, currency,
      has_good_click, event_at, received_at)
    select ${clientId}, lead_id, event_id, client_lead_id, product, stage, value_minor, currency,
      has_good_click, to_timestamp(event_at / 1000.0), to_timestamp(received_at / 1000.0)
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given (lead_id text, event_id uuid,
      client_lead_id text, product text, stage text, value_minor bigint, currency text, has_good_click boolean,
      event_at bigint, received_at bigint)
    order by lead_id on conflict do nothing returning lead_id`);
  return new Set(created.map(({ lead_id }) => lead_id));
};

const insertPeople = async (
  tx: PoolClient,
  { clientId, keys }: { readonly clientId: number; readonly keys: LeadKeys },
  leads: readonly Lead[],
): Promise<void> => {
  const known = await keys.findOrMake(tx, clientId, leads.flatMap(subjectsIn));
  const rows = leads.map((lead) => {
    const own = subjectsIn(lead).map((subject) => known.get(nameOf(subject))!);
    const sealed = sealLead(own, clientId, lead.lead_id, lead.content).toString("base64");
    return { lead_id: lead.lead_id, email: lead.email, phone: lead.phone, sealed };
  });
  await tx.query(sql`
    insert into lead_people (client_id, lead_id, email, phone, sealed)
    select ${clientId}, lead_id, email, phone, decode(sealed, 'base64')
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      as given (lead_id text, email text, phone text, sealed text)`);
};

/** Announces the event once, and notices for webhooks each time; neither contains personal data. */
const announcedBy = (
  client_id: number,
  { lead_id, event, receivedAt }: Lead,
  isNew: boolean,
): readonly Announcement[] => [
  ...(isNew
    ? [
        {
          topic: "events.raw" as const,
          client_id,
          record: { received_at: receivedAt, event: { ...event, value_minor: event.value_minor?.toString() ?? null } },
        },
      ]
    : []),
  {
    topic: "domain.changes" as const,
    client_id,
    record: {
      ...{ client_id, entity: `lead:${lead_id}`, version: 1, change_id: null },
      type: isNew ? "lead.created" : "lead.duplicate",
      data: JSON.stringify({ lead_id, event_id: event.event_id }),
    },
  },
];

/** Within this time a lead without a credit may still get one. */
const SETTLED_MS = 15 * 60_000;

const creditOf = async (
  tx: PoolClient,
  clientId: number,
  leads: readonly Lead[],
): Promise<ReadonlyMap<string, boolean>> => {
  const { rows } = await tx.query<{ lead_id: string; attributed: boolean }>(sql`
    select lead_id, (has_good_click and received_at > clock_timestamp() - ${SETTLED_MS} * interval '1 millisecond')
        or exists (select 1 from conversions c where c.client_id = l.client_id and c.status = 'credited'
          and (c.event_id = l.event_id or c.cause_event_id = l.event_id)) as attributed
    from leads l
    where client_id = any (${[clientId]}::int[]) and lead_id = any (${leads.map(({ lead_id }) => lead_id)})`);
  return new Map(rows.map(({ lead_id, attributed }) => [lead_id, attributed]));
};
