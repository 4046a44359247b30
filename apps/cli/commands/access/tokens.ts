// Opaque tokens: made once, shown once, revoked everywhere within a second.

import { randomUUID } from "node:crypto";
import type { Command } from "commander";
import type pg from "pg";
import { sql, transaction } from "../../../../infra/postgres/sql.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { UsageError } from "../../../../infra/runtime/refused.ts";
import {
  createTokenWithin,
  limitTokenWithin,
  newToken,
  revokeTokenWithin,
  type TokenKind,
} from "../../../../modules/access/tokens/tokens.ts";
import { type AuditEntry, writeAudit } from "../../../../modules/base/audit/audit.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";

const kinds: readonly TokenKind[] = ["ingest", "admin", "upload", "service"];

/** 10,000 are what Redis remembers of a token at most. */
const requestsOf = (text: string): number => {
  const requests = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (requests < 1 || requests > 10_000)
    throw new UsageError(`--requests-a-minute: ${text} is not a whole number from 1 to 10000`);
  return requests;
};

/** In the transaction of the change: who has done it. What is called a token is redacted. */
const audited = (tx: pg.PoolClient, entry: AuditEntry): Promise<void> =>
  writeAudit(tx, { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null }, entry);

interface KnownToken {
  readonly kind: TokenKind;
  readonly prefix: string | null;
  readonly client_id: number | null;
  readonly partner_id: number | null;
  readonly label: string;
  readonly requests_a_minute: number;
}

/** Runs `work` on a token with its client as the tenant. False when there is no live one. */
const changed = async (
  pool: pg.Pool,
  id: number,
  work: (tx: pg.PoolClient, token: KnownToken) => Promise<boolean>,
): Promise<boolean> => {
  const token = await transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<KnownToken>(sql`
          select kind, prefix, client_id, partner_id, label, requests_a_minute from tokens
          where token_id = ${id} and revoked_at is null`)
      ).rows[0],
    { role: "tributary_tokens", isReadOnly: true },
  );
  if (token === undefined) return false;
  return transaction(pool, token.client_id === null ? null : [token.client_id], (tx) => work(tx, token));
};

const create = (options: {
  kind: string;
  client?: string;
  partner?: string;
  clientSide?: boolean;
  requestsAMinute?: string;
  label?: string;
  json?: boolean;
}): Promise<void> =>
  withPool(async (pool) => {
    const kind = kinds.find((known) => known === options.kind);
    if (kind === undefined) throw new UsageError(`--kind: ${options.kind} is none of ${kinds.join(", ")}`);
    if (kind === "ingest" && options.client === undefined)
      throw new UsageError("--client: an ingest token belongs to a client; name it by slug or id");
    if (kind === "upload" && !/^\d+$/.test(options.partner ?? ""))
      throw new UsageError("--partner: an upload token belongs to a partner; name it by id");
    if (options.requestsAMinute !== undefined && kind !== "ingest")
      throw new UsageError("--requests-a-minute: only an ingest token has a limit of its own");
    const client = options.client === undefined ? undefined : await clientOf(pool, options.client);
    const token = newToken(kind);
    const wanted = {
      kind,
      label: options.label ?? `${kind} token made on the command line`,
      ...(client && { client_id: client.client_id }),
      ...(options.partner !== undefined && { partner_id: Number(options.partner) }),
      ...(options.clientSide && { client_side: true }),
      ...(options.requestsAMinute !== undefined && { requests_a_minute: requestsOf(options.requestsAMinute) }),
    };
    const made = await transaction(pool, client === undefined ? null : [client.client_id], async (tx) => {
      const { token_id } = await createTokenWithin(tx, wanted, token);
      const client_id = client?.client_id ?? null;
      await audited(tx, { action: "token.created", client_id, entity: `token:${token_id}`, after: wanted });
      return { token_id, token };
    });
    if (options.json) return printJson({ ...made, kind, client_id: client?.client_id ?? null });
    print(made.token);
    tell(`token ${made.token_id}; it is not shown again, only its hash is kept`);
  });

/** Tokens of every client, under the role that may see them. */
const listed = (pool: pg.Pool) =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query(
          sql`select token_id, kind, client_id, partner_id, requests_a_minute, label, created_at, last_used_at,
            revoked_at from tokens order by token_id`,
        )
      ).rows,
    {
      role: "tributary_tokens",
      isReadOnly: true,
    },
  );

const list = ({ json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const tokens = await listed(pool);
    if (json) return printJson({ data: tokens });
    print(
      table(
        ["id", "kind", "client", "partner", "a minute", "created", "last used", "revoked", "label"],
        tokens.map((token) => [
          token.token_id,
          token.kind,
          token.client_id,
          token.partner_id,
          token.kind === "ingest" ? token.requests_a_minute : null,
          minuteOf(token.created_at),
          minuteOf(token.last_used_at),
          minuteOf(token.revoked_at),
          token.label,
        ]),
      ),
    );
  });

const limit = (id: string, { requestsAMinute }: { requestsAMinute: string }): Promise<void> =>
  withPool(async (pool) => {
    const requests = requestsOf(requestsAMinute);
    const limited = async (tx: pg.PoolClient, { client_id, requests_a_minute }: KnownToken) => {
      if (!(await limitTokenWithin(tx, Number(id), requests))) return false;
      const [before, after] = [{ requests_a_minute }, { requests_a_minute: requests }];
      await audited(tx, { action: "token.limited", client_id, entity: `token:${id}`, before, after });
      return true;
    };
    if (!/^\d{1,9}$/.test(id) || !(await changed(pool, Number(id), limited)))
      throw new UsageError(`there is no live ingest token ${id}; see: tributary tokens list`);
    tell(`token ${id} may send ${requests} requests a minute, in every process within a second`);
  });

const revoke = (id: string): Promise<void> =>
  withPool(async (pool) => {
    const revoked = async (tx: pg.PoolClient, token: KnownToken) => {
      // Another process may have revoked it since it was read.
      if (!(await revokeTokenWithin(tx, Number(id)))) return false;
      const { client_id } = token;
      await audited(tx, { action: "token.revoked", client_id, entity: `token:${id}`, before: token });
      return true;
    };
    if (!/^\d{1,9}$/.test(id)) throw new UsageError(`${id} is not a token id; see: tributary tokens list`);
    if (!(await changed(pool, Number(id), revoked)))
      throw new Error(`there is no live token ${id}; see: tributary tokens list`);
    tell(`token ${id} is dead in every process within a second`);
  });

export const tokenCommands = (program: Command): void => {
  const tokens = program.command("tokens").description("opaque tokens of senders, operators and partners");
  tokens
    .command("create")
    .description("makes a token and shows it once")
    .option("--kind <kind>", kinds.join(", "), "ingest")
    .option("--client <slug or id>", "of an ingest token")
    .option("--partner <id>", "of an upload token")
    .option("--client-side", "sent by the visitor's own app, so address and user agent are the visitor's")
    .option("--requests-a-minute <n>", "of an ingest token; 100 unless more was arranged, at most 10000")
    .option("--label <text>", "what it is for")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary tokens create --client casa-verde\n  $ tributary tokens create --kind " +
        "admin --label 'night shift'\n",
    )
    .action(create);
  tokens.command("list").description("all tokens, never their text").option("--json", "as JSON").action(list);
  tokens
    .command("limit <id>")
    .description("gives an ingest token another limit of requests")
    .requiredOption("--requests-a-minute <n>", "1 to 10000; 100 is what every token has by contract")
    .addHelpText("before", "Examples:\n  $ tributary tokens limit 12 --requests-a-minute 600\n")
    .action(limit);
  tokens.command("revoke <id>").description("ends a token").action(revoke);
};
