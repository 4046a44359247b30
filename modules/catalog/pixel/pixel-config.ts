// The pixel settings of each client. Unset settings have defaults; jurisdiction and default consent
// are stored in the client's row.
import { domainToASCII } from "node:url";
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

export interface PixelConfig {
  /** Hosts, or `*.host` for all hosts below it; empty: every host. */
  readonly allowed_domains: readonly string[];
  /** The types that the client expects; the findings report those that do not come. */
  readonly tracked_events: readonly string[];
  readonly replay_enabled: boolean;
  /** Percentage of visits, 0 to 100. */
  readonly replay_sample_rate: number;
  readonly consent_replay: boolean;
  readonly jurisdiction: "MX" | "EU" | "UK" | "BR";
  /** A mask of consents, 0 to 255. */
  readonly consent_default: number;
  /** Where the client sends from: its pages, both, its server, its app. Findings compare it. */
  readonly tracking_type: "PIXEL" | "HYBRID" | "S2S" | "APP";
  readonly auto_signals: boolean;
}
export type SavedPixelConfig = PixelConfig & { readonly version: number };

/** The defaults while a client has set nothing; the statement below repeats them. */
export const defaultPixel: Omit<PixelConfig, "jurisdiction" | "consent_default"> = {
  allowed_domains: [],
  tracked_events: ["page_view", "purchase", "lead_submit"],
  replay_enabled: false,
  replay_sample_rate: 0,
  consent_replay: false,
  tracking_type: "PIXEL",
  auto_signals: true,
};

/** Undefined if the client is none of these. A client that has set nothing has version 1. */
export const readPixelConfig = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
): Promise<SavedPixelConfig | undefined> => {
  const { rows } = await tx.query<SavedPixelConfig>(sql`
    select coalesce(p.allowed_domains, '{}') as allowed_domains,
      coalesce(p.tracked_events, array['page_view', 'purchase', 'lead_submit']) as tracked_events,
      coalesce(p.replay_enabled, false) as replay_enabled, coalesce(p.replay_sample_rate, 0) as replay_sample_rate,
      coalesce(p.consent_replay, false) as consent_replay, c.jurisdiction, c.consent_default,
      coalesce(p.tracking_type, 'PIXEL') as tracking_type, coalesce(p.auto_signals, true) as auto_signals,
      coalesce(p.version, 1) as version
    from clients c left join pixel_configs p on p.client_id = c.client_id
    where c.client_id = ${clientId} and c.client_id = any (${clients}::int[])
    order by c.version desc limit 1`);
  return rows[0];
};

/**
 * Saves the next version of the settings that are not columns of the client. The transaction must
 * see the client and hold a lock that keeps out other changes.
 */
export const savePixelConfig = async (tx: PoolClient, clientId: number, config: PixelConfig): Promise<void> => {
  await tx.query(sql`
    insert into pixel_configs as known (client_id, version, allowed_domains, tracked_events, replay_enabled,
      replay_sample_rate, consent_replay, tracking_type, auto_signals)
    values (${clientId}, 2, ${config.allowed_domains}, ${config.tracked_events}, ${config.replay_enabled},
      ${config.replay_sample_rate}, ${config.consent_replay}, ${config.tracking_type}, ${config.auto_signals})
    on conflict (client_id) do update set version = known.version + 1, allowed_domains = excluded.allowed_domains,
      tracked_events = excluded.tracked_events, replay_enabled = excluded.replay_enabled,
      replay_sample_rate = excluded.replay_sample_rate, consent_replay = excluded.consent_replay,
      tracking_type = excluded.tracking_type, auto_signals = excluded.auto_signals,
      updated_at = clock_timestamp()`);
};

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const HOST = new RegExp(`^(?:${LABEL}\\.)*${LABEL}$`);

/**
 * Returns a host, or `*.host`, in the form of browsers: lower case and ASCII. Undefined for a text
 * with a scheme, a port or a path, and for an address.
 */
export const hostOf = (given: string): string | undefined => {
  const text = given.trim().toLowerCase();
  const wildcard = text.startsWith("*.") ? "*." : "";
  const bare = text.slice(wildcard.length);
  if (/[:/@?#%\\[\]]/.test(bare)) return undefined;
  const host = domainToASCII(bare);
  const isAddress = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(host);
  return HOST.test(host) && host.length <= 251 && !isAddress ? wildcard + host : undefined;
};

/** Whether the URL is on one of these hosts; an empty list means every host. */
export const isAllowed = (url: string, domains: readonly string[]): boolean => {
  const { hostname } = new URL(url);
  return (
    domains.length === 0 ||
    domains.some((domain) => (domain.startsWith("*.") ? hostname.endsWith(domain.slice(1)) : hostname === domain))
  );
};
