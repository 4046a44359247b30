// The senders of a run: separate clients, with tokens that the edge accepts until the run ends.
import { openPool } from "../../../infra/postgres/sql.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { createToken, revokeToken } from "../../../modules/access/tokens/tokens.ts";
import { type Target, urlsOf } from "../target.ts";
import type { Tenant } from "./generator.ts";
import { openOwnClients } from "./own-clients.ts";

/** Each token may send 100 requests a minute. */
const TOKENS_EACH = 5;

export interface Senders {
  readonly tenants: readonly Tenant[];
  readonly tokens: ReadonlyMap<number, readonly string[]>;
  /** Revokes the tokens and archives the clients. */
  readonly leave: () => Promise<void>;
  /** Closes without tidying up, for an installation that ends with the run. */
  readonly close: () => Promise<void>;
}

/** Resolves once every edge accepts the tokens. `name` marks the names of the clients. */
export const openSenders = async (target: Target, name: string): Promise<Senders> => {
  const pool = openPool(target.env.POSTGRES_URL!, { name: "tributary-chaos-senders", max: 1 });
  const tokens = new Map<number, readonly string[]>();
  const ids: number[] = [];
  let archive = async (): Promise<void> => undefined;
  const leave = async (): Promise<void> => {
    try {
      for (const id of ids) await revokeToken(target.pool, id);
      await archive();
    } finally {
      await pool.end();
    }
  };
  try {
    const clients = await openOwnClients(pool, name);
    archive = clients.archive;
    for (const { id } of clients.tenants) {
      const made: string[] = [];
      for (let n = 0; n < TOKENS_EACH; n += 1) {
        const { token, token_id: tokenId } = await createToken(pool, {
          kind: "ingest",
          label: `chaos ${n}`,
          client_id: id,
        });
        made.push(token);
        ids.push(tokenId);
      }
      tokens.set(id, made);
    }
    await known(target, [...tokens.values()].at(-1)!.at(-1)!);
    return { tenants: clients.tenants, tokens, leave, close: () => pool.end() };
  } catch (error) {
    await leave();
    throw error;
  }
};

/** A new token is known within a second; until then it would be refused. */
const known = (target: Target, newest: string): Promise<void> =>
  until("the edge knows the newest token", 15_000, async () => {
    const headers = { authorization: `Bearer ${newest}`, "content-type": "application/json" };
    const { status } = await fetch(`${urlsOf(target)[0]}/ingest/batch`, { method: "POST", headers, body: "{}" });
    if (status !== 400) throw new Error(`the edge answers ${status}`);
  });
