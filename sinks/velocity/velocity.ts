// What hints are made of: which events, devices and clicks have an address, a click id or a person
// in common.
import { hash } from "node:crypto";
import { addressOfVisitor } from "../../domain/visitor.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded, Table, UnixMs } from "../../stream/flow.ts";

/** One member of one set, or one field that is set once. */
export interface VelocityRow {
  readonly client_id: number;
  readonly set: string;
  readonly member: string;
  /** Orders the members, where the newest are asked for. */
  readonly at: UnixMs | null;
}

const conversions: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "lead_submit", "install"]);
const hourMs = 3_600_000;
const hashLength = 32;

/**
 * Addresses and click ids are kept as hashes: whoever reads the sets learns nothing of a visitor.
 */
const short = (...parts: readonly string[]): string => hash("sha256", parts.join("\n"), "hex").slice(0, hashLength);

/**
 * Names of the sets; every one holds its client, so equal values of two clients never meet (law
 * T6).
 */
export const sets = {
  conversionsOf: (clientId: number, address: string, at: UnixMs): string =>
    `${clientId}:address:${short(String(clientId), address)}:${Math.floor(at / hourMs)}`,
  devicesOf: (clientId: number, clickId: string): string => `${clientId}:devices:${short(clickId)}`,
  countriesOf: (clientId: number, clickId: string): string => `${clientId}:countries:${short(clickId)}`,
  devicesOfPerson: (clientId: number, person: string): string => `${clientId}:person:${person}`,
  clicksOf: (clientId: number, did: string): string => `${clientId}:clicks:${did}`,
} as const;

/**
 * Rows of clicks, conversions and known persons; none for a page view of somebody unknown. A click
 * id counts when attribute has found its MAC good (it then says when the click was): ids that
 * anybody can make up fill no set.
 */
export const velocityRows = ({ at, data }: Recorded<EventAttributed>): readonly VelocityRow[] => {
  const { event, enrichment, credit } = data;
  const isConversion = conversions.has(event.t);
  const isClick = event.t === "click";
  if (!isConversion && !isClick && enrichment.person === null) return none;
  const client_id = event.client_id;
  const rows: VelocityRow[] = [];
  const add = (set: string, member: string, order: UnixMs | null = null): void =>
    void rows.push({ client_id, set, member, at: order });
  const address = isConversion ? addressOfVisitor(event) : null;
  if (address !== null) add(sets.conversionsOf(client_id, address, at), event.event_id);
  if (
    (isConversion || isClick) &&
    event.click_id !== null &&
    credit.clicked_at !== null &&
    credit.method !== "identity"
  ) {
    add(sets.devicesOf(client_id, event.click_id), event.did);
    add(sets.clicksOf(client_id, event.did), event.click_id, credit.clicked_at);
    if (isClick && enrichment.country !== null)
      add(sets.countriesOf(client_id, event.click_id), enrichment.country, at);
  }
  if (enrichment.person !== null) add(sets.devicesOfPerson(client_id, enrichment.person), event.did, at);
  return rows;
};
const none: readonly VelocityRow[] = [];

/** Sets: writing a row twice leaves them as writing it once. */
export const velocity: Table<VelocityRow> = {
  name: "velocity",
  store: "redis",
  key: ["client_id", "set", "member"],
  tenantOf: (row) => row.client_id,
  write: (rows, write) => write("velocity", rows),
};
