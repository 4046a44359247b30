// What a route of the platform API is: its contract and a function that answers. Who may call it is
// its row in apps/api/routes.yaml.
import type { Response } from "express";
import type { Pool, PoolClient } from "pg";
import type { z } from "zod";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import type { RowsQuery } from "../../infra/postgres/rows.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import type { Role, User } from "../../modules/access/users/users.ts";
import type { Deliver } from "../../modules/base/alerts/delivery.ts";
import type { Act } from "../../modules/base/audit/audit.ts";
import type { OperationPorts } from "../../modules/base/operations/operations.ts";
import type { Scope, ScopedRead, Work } from "../../modules/base/work.ts";
import type { PositionReads } from "../../modules/figures/reads/positions.ts";
import type { Leads } from "../../modules/intake/leads/leads.ts";
import type { LogReads } from "../../modules/log/log-reads.ts";
import type { OpenTrials } from "../../modules/money/trials/open-trials.ts";
import type { Look } from "../../modules/running/repair/probes.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Contract } from "./contract/contract.ts";
import type { Method, RouteRow } from "./route-table.ts";

/** What a route may work with; its file takes what it needs. */
export interface ApiPorts {
  readonly version: string;
  /** Unix milliseconds when this process began to serve. */
  readonly startedAt: number;
  readonly pool: Pool;
  /** Makes and knows the tokens of invitations, and seals what clients sign with. */
  readonly keyring: Keyring;
  /** Where the portal is; undefined: there is none. */
  readonly portal: string | undefined;
  readonly clickhouse: Clickhouse;
  /** Files of imports and their rejected rows. */
  readonly objects: Objects;
  /** All routes of this host, once they are known: for what describes them. */
  readonly served: () => readonly ServedRoute[];
  /** A question is answered 503 while the log is away. */
  readonly log: LogReads;
  /** Sign the plans of moves: the first one does, each is accepted. */
  readonly planKeys: readonly Buffer[];
  /** How far what came is stored: `as_of` of figures. */
  readonly positions: PositionReads;
  /** Sign cursors: the first one does, each is accepted. */
  readonly cursorKeys: readonly Buffer[];
  /** Takes leads that clients have signed, and reads them. */
  readonly leads: Leads;
  readonly analytics: Look;
  readonly cache: Look;
  readonly relational: Look;
  /** Rejects when the alert could be neither kept nor mailed. */
  readonly reportAlert: Deliver;
  /**
   * Opened when first needed; rejects while the log cannot be written: what cannot be audited is
   * not done.
   */
  readonly audit: () => Promise<OperationPorts>;
  /** Writes decisions to the log; rejects while it cannot be written. */
  readonly decide: (decisions: readonly Claim[]) => Promise<void>;
  /** Opened when first needed; rejects while the registry does not answer. */
  readonly trials: OpenTrials;
}

/** Whom the order of checks has let through. */
export type Caller =
  | { readonly kind: "anyone" }
  | { readonly kind: "service" }
  /** A server of the client, which has signed the body. */
  | { readonly kind: "client"; readonly client_id: number }
  | { readonly kind: "user"; readonly user: User };

/** A request that is let through, as its contract reads it. */
export interface Ask<C extends Contract = Contract> {
  readonly caller: Caller;
  /** Throws Problem 403 where the caller is no user. */
  readonly user: User;
  readonly role: Role | undefined;
  /** For the audit of what no user does. */
  readonly sender: Pick<Act, "request_id" | "ip">;
  readonly params: z.output<C["params"]>;
  readonly query: z.output<C["query"]>;
  readonly body: z.output<C["body"]>;
  /**
   * The body as a use case takes it: without `version`, and without the fields that were left out.
   */
  readonly input: Input<z.output<C["body"]>>;
  /** How long the body was as it came. */
  readonly bytes: number;
  /** Names of the fields that the caller is shown, of the answer or of a row of the list. */
  readonly fields: readonly string[];
  /** The version that the caller has seen, of If-Match or the body; undefined: any. */
  readonly version: number | undefined;
  readonly read: ScopedRead;
  /**
   * Runs a use case in one transaction with its audit rows, its outbox rows and the answer to its
   * Idempotency-Key: all of it is there, or nothing. `answer` is built when all is saved; without
   * it, there is nothing to say.
   */
  readonly write: Write;
  /**
   * A page of the list, or all of it as CSV; `complete` adds what comes from elsewhere, `more` what
   * the page has beside its rows, out of the same snapshot.
   */
  readonly list: (query: RowsQuery, complete?: Complete, more?: More) => Promise<Reply>;
}
export type Input<Body> = Body extends object ? InputFields<Omit<Body, "version">> : object;
type InputFields<T> = { readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};
interface Write {
  (useCase: (work: Work) => Promise<void>): Promise<Reply>;
  <Result>(
    useCase: (work: Work) => Promise<Result>,
    answer: (result: Result, work: Work) => Reply | Promise<Reply>,
  ): Promise<Reply>;
}
type Row = Readonly<Record<string, any>>;
/**
 * `tx` is the snapshot that the rows come from. A file lacks nothing because a store is slow: it
 * throws in place of that.
 */
export type Complete = (
  rows: readonly Row[],
  scope: Scope,
  from: { readonly tx: PoolClient; readonly isFile: boolean },
) => Promise<readonly Row[]>;
export type More = (tx: PoolClient, scope: Scope) => Promise<object>;

export interface Reply {
  /** Without it, that of the contract. */
  readonly status?: number;
  /** As the answer of the contract takes it; nothing is sent with 204. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** What a repeat of the request is answered, where secrets are shown once. */
  readonly repeat?: unknown;
  /** The body in bytes of its own, e.g. as it was answered before; its type is in `headers`. */
  readonly text?: string;
  /** Sends a body that is not in memory. What it throws midway breaks the connection. */
  readonly send?: (response: Response) => Promise<void>;
}

export interface Route {
  readonly contract: Contract;
  /** Without a limit of requests. */
  readonly isUnlimited?: boolean;
  /** Throws Problem for what is wrong with row or state. */
  readonly answer: (ask: Ask<any>) => Promise<Reply>;
}

/** A route, its handler typed by its contract. */
export const route = <C extends Contract>(
  contract: C,
  answer: (ask: Ask<C>) => Promise<Reply>,
  more: Pick<Route, "isUnlimited"> = {},
): Route => ({ contract, answer, ...more });

/** A route with its row. */
export interface ServedRoute extends Route {
  readonly method: Method;
  /** As express takes it. */
  readonly path: string;
  readonly auth: "none" | "user" | "service-token" | "invitation" | "hmac";
  /** Of users; every other role is answered 403. */
  readonly roles: readonly Role[];
  readonly row: RouteRow;
}
