// Opens the doors of one client as far as they can be open to strangers: a token for pages, a
// source without a signature, and recordings of every visit.
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { json as asJson } from "node:stream/consumers";
import { sql, transaction } from "../../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../../infra/runtime/keyring.ts";
import { until } from "../../../../infra/runtime/timing/wait-until.ts";
import { createToken, revokeToken } from "../../../../modules/access/tokens/tokens.ts";
import { insertSource, type SourceSettings } from "../../../../modules/intake/sources/save-source.ts";
import type { Target } from "../../target.ts";
import { json, type World } from "./door.ts";
import { addressOf } from "./send.ts";

const KNOWN_WITHIN_MS = 20_000;
const REQUESTS_A_MINUTE = 10_000;

/** The ticket of a page whose visitor has one of the addresses that shapes are sent from. */
const ticketAt = async (url: string): Promise<string> => {
  const [answer] = (await once(get(url, { localAddress: addressOf(0) }), "response")) as [IncomingMessage];
  const { replay_ticket: ticket } = (await asJson(answer)) as { readonly replay_ticket?: string };
  if (ticket === undefined) throw new Error(`${url} gives no ticket`);
  return ticket;
};

export interface OpenWorld extends World {
  /** Shuts the doors again. */
  readonly close: () => Promise<void>;
}

export const openWorld = async (
  { env, pool, run }: Target,
  { clientId, code }: Pick<World, "clientId" | "code">,
): Promise<OpenWorld> => {
  const id = Date.now().toString(36);
  const { token, token_id: tokenId } = await createToken(pool, {
    ...{ kind: "ingest", label: `storage ${id}`, client_id: clientId, client_side: true },
    requests_a_minute: REQUESTS_A_MINUTE,
  });
  const slug = `storage-${id}`;
  const settings: SourceSettings = {
    slug,
    name: "Storage",
    kind: "generic",
    mode: null,
    state: "active",
    mapping: { event_name: "e", dedup_key: "id", url: "url" },
    constants: {},
    event_names: {},
    allow_ips: [],
    unsigned: true,
    unsigned_money: true,
    pull: null,
  };
  const isConfigured = await transaction(pool, [clientId], async (tx) => {
    await insertSource(tx, clientId, settings, {}, keyringOf(env.TRIBUTARY_SECRET!));
    const { rowCount } = await tx.query(sql`
      insert into pixel_configs (client_id, version, allowed_domains, tracked_events, replay_enabled,
        replay_sample_rate, consent_replay, tracking_type, auto_signals)
      values (${clientId}, 2, '{}', '{}', true, 100, false, 'PIXEL', true)
      on conflict (client_id) do nothing`);
    return rowCount === 0;
  });
  const close = async (): Promise<void> => {
    await revokeToken(pool, tokenId);
    await pool.query(sql`update sources set state = 'paused', version = version + 1
      where client_id = ${clientId} and slug = ${slug}`);
    // A configuration that was there before was left as it is.
    if (!isConfigured) await pool.query(sql`delete from pixel_configs where client_id = ${clientId}`);
  };
  const ingest = run().apps.ingest!.url;
  const isKnown = async (path: string, headers = {}): Promise<void> => {
    const answer = await fetch(`${ingest}${path}`, { method: "POST", body: "{}", headers: { ...json, ...headers } });
    if (answer.status !== 400) throw new Error(`${path} answers ${answer.status}`);
  };
  await until("the edges know the doors", KNOWN_WITHIN_MS, async () => {
    await isKnown("/ingest/batch", { authorization: `Bearer ${token}` });
    await isKnown(`/postback/generic?client_id=${clientId}&source=${slug}`);
  });
  const ticket = await until("the pages of the client get a ticket", KNOWN_WITHIN_MS, () =>
    ticketAt(`${run().apps.pixel!.url}/config?cid=${clientId}`),
  );
  return { clientId, code, token, source: slug, ticket, run: id, close };
};
