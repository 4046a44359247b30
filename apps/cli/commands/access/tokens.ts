// Opaque tokens, which are made once, shown once, and revoked everywhere within a second.

import type { Command } from "commander";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { issueToken } from "../../../../modules/access/tokens/issue.ts";
import { changeTokenLimit } from "../../../../modules/access/tokens/limit.ts";
import { endToken } from "../../../../modules/access/tokens/revoke.ts";
import { everyToken } from "../../../../modules/access/tokens/token-reads.ts";
import type { TokenKind } from "../../../../modules/access/tokens/tokens.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { RefusalError } from "../../../../modules/base/refusal.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { inWork, operatorAct } from "../../work.ts";

const kinds: readonly TokenKind[] = ["ingest", "admin", "upload", "service"];

/** Redis remembers at most 10,000 requests of a token. */
const requestsOf = (text: string): number => {
  const requests = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (requests < 1 || requests > 10_000)
    throw new UsageError(`--requests-a-minute: ${text} is not a whole number from 1 to 10000`);
  return requests;
};

/** Replaces a refusal of the kind missing by `words`. */
const orMissing =
  (words: Error) =>
  (error: unknown): never => {
    const isMissing = error instanceof RefusalError && error.refusals.some(({ kind }) => kind === "missing");
    throw isMissing ? words : error;
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
    const wanted = {
      kind,
      label: options.label ?? `${kind} token made on the command line`,
      ...(client && { client_id: client.client_id }),
      ...(options.partner !== undefined && { partner_id: Number(options.partner) }),
      ...(options.clientSide && { client_side: true }),
      ...(options.requestsAMinute !== undefined && { requests_a_minute: requestsOf(options.requestsAMinute) }),
    };
    const made = await inWork(pool, operatorAct(actorOf()), (work) => issueToken(work, wanted)).catch(
      orMissing(
        new UsageError(`--partner: there is no partner ${options.partner}; see: tributary reference list partners`),
      ),
    );
    if (options.json) return printJson({ ...made, kind, client_id: client?.client_id ?? null });
    print(made.token);
    tell(`token ${made.token_id}; it is not shown again, only its hash is kept`);
  });

const list = ({ json }: { json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const tokens = await everyToken(pool);
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
    const wanted = { token_id: idOf(id), requests_a_minute: requestsOf(requestsAMinute) };
    await inWork(pool, operatorAct(actorOf()), (work) => changeTokenLimit(work, wanted)).catch(
      orMissing(new UsageError(`there is no live ingest token ${id}; see: tributary tokens list`)),
    );
    tell(`token ${id} may send ${requestsAMinute} requests a minute, in every process within a second`);
  });

const revoke = (id: string): Promise<void> =>
  withPool(async (pool) => {
    const tokenId = idOf(id);
    await inWork(pool, operatorAct(actorOf()), (work) => endToken(work, tokenId)).catch(
      orMissing(new Error(`there is no live token ${id}; see: tributary tokens list`)),
    );
    tell(`token ${id} is dead in every process within a second`);
  });

const idOf = (text: string): number => {
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${text} is not a token id; see: tributary tokens list`);
  return Number(text);
};

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
