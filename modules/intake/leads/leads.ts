// Receives the lead pushes of clients: checks signatures, stores leads and reads them.
import type { Pool, PoolClient } from "pg";
import { acrossPepperOf, identifyFor, pepperOf } from "../../../domain/device-id.ts";
import type { Identify } from "../../../domain/personal/identify.ts";
import type { Reference } from "../../../domain/reference/reference.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { admitLead, type SentLead } from "../../../processors/admit/outbox/lead.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import type { ClickKeys } from "../../../processors/attribute/facts.ts";
import { hasGoodClick } from "../../../processors/attribute/good-click.ts";
import { BadBody, type UnixMs } from "../../../stream/flow.ts";
import { openSigning } from "../../access/secrets/signing.ts";
import { clientFactsOf } from "../path/facts.ts";
import { type LeadContent, nameOf, subjectsIn, unsealLead } from "./lead-cipher.ts";
import { openLeadKeys } from "./lead-keys.ts";
import { openLeadQueue } from "./lead-queue.ts";
import { type Lead, type PushResult, storeLeads } from "./lead-store.ts";

interface Opening {
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly pepper: () => string;
  readonly reference: () => Reference | undefined;
  readonly clickKeys: ClickKeys;
}

const HASHES_OF_A_READ = 8;

/** A pushed lead, including fields that have no meaning here. */
interface PushedLead extends SentLead {
  readonly first_name?: string | null | undefined;
  readonly last_name?: string | null | undefined;
  readonly extra: Readonly<Record<string, unknown>>;
}
export interface Leads {
  /** Whether the client has signed these bytes; always false for an archived client. */
  readonly isSigned: (clientId: number, bytes: Buffer, signature: string | undefined) => Promise<boolean>;
  /** Call it when this process has replaced the client's secret. */
  readonly forgetSecret: (clientId: number) => void;
  /**
   * Resolves when the lead is durable. `bytes` is its length. Throws BadBody with the place of the
   * problem, Unavailable, and errors of Postgres.
   */
  readonly push: (clientId: number, lead: PushedLead, bytes: number) => Promise<PushResult>;
  /**
   * Returns the personal data of these leads by id, inside a transaction that sees the client;
   * erased leads are absent.
   */
  readonly read: (
    tx: PoolClient,
    clientId: number,
    leadIds: readonly string[],
  ) => Promise<ReadonlyMap<string, LeadContent>>;
  /** The hash functions for identifiers of a client's leads. Throws Unavailable. */
  readonly identify: (clientId: number) => Identify;
}

export const openLeads = ({ pool, keyring, pepper, reference, clickKeys }: Opening): Leads => {
  const clientFacts = clientFactsOf(pepper, reference);
  const signing = openSigning(pool, keyring);
  const keys = openLeadKeys(keyring);
  const queue = openLeadQueue((clientId, leads) => storeLeads({ pool, keys }, clientId, leads));
  const factsOf = (clientId: number, now: UnixMs): RequestFacts => {
    const facts = clientFacts(clientId, now);
    if (!facts) throw new Unavailable("this client is not known here yet", 1);
    return facts;
  };
  return {
    isSigned: async (clientId, bytes, signature) =>
      (await signing.isSigned(clientId, bytes, signature)) && clientFacts(clientId, Date.now()) !== null,
    forgetSecret: signing.forget,
    push: async (clientId, sent, bytes) => {
      const receivedAt = Date.now();
      const facts = factsOf(clientId, receivedAt);
      const lead = leadOf(sent, receivedAt, facts);
      const { event } = lead;
      const at = Math.min(event.ts, receivedAt);
      const known = reference()!.at(at, receivedAt);
      const isGood = hasGoodClick(event, { at, receivedAt }, { reference: known, clickOf: clickKeys.clickOf });
      return queue.push(clientId, { ...lead, hasGoodClick: isGood }, bytes);
    },
    read: async (tx, clientId, leadIds) => {
      const { rows } = await tx.query<SealedLead>({
        text: `select lead_id, email, phone, sealed from lead_people
          where client_id = any ($1::int[]) and lead_id = any ($2)`,
        values: [[clientId], leadIds],
      });
      if (rows.length === 0) return new Map();
      const found = await keys.find(tx, clientId, rows.flatMap(subjectsIn));
      return new Map(
        rows.flatMap((row) => {
          const own = subjectsIn(row).flatMap((subject) => found.get(nameOf(subject)) ?? []);
          const isWhole = own.length === subjectsIn(row).length;
          return isWhole ? [[row.lead_id, unsealLead(own, clientId, row.lead_id, row.sealed)] as const] : [];
        }),
      );
    },
    identify: (clientId) => identifyFor(pepperOf(pepper(), clientId), HASHES_OF_A_READ, acrossPepperOf(pepper())),
  };
};

interface SealedLead {
  readonly lead_id: string;
  readonly email: string | null;
  readonly phone: string | null;
  readonly sealed: Buffer;
}

/** Throws BadBody. */
const leadOf = (sent: PushedLead, receivedAt: UnixMs, facts: RequestFacts): Omit<Lead, "hasGoodClick"> => {
  const admitted = admitLead(sent, receivedAt, facts);
  if (admitted.kind === "refused") {
    const { code, field, message } = admitted.refusal;
    throw new BadBody(code, field === null ? "" : `/${field}`, message);
  }
  const { client_lead_id, first_name, last_name, email, phone, extra } = sent;
  const content = {
    ...{ client_lead_id, extra },
    ...{ first_name: first_name ?? null, last_name: last_name ?? null, email: email ?? null, phone: phone ?? null },
  };
  const { event, subjects } = admitted;
  const { lead, lead_before, ...people } = subjects;
  return { lead_id: lead, lead_before, event, content, ...people, receivedAt };
};
