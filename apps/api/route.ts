// A route of the platform API is a contract and a function that answers. Its row in
// apps/api/routes.yaml says who may call it.
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
import type { PublicHosts } from "../../modules/base/public-hosts.ts";
import type { Scope, ScopedRead, Work } from "../../modules/base/work.ts";
import type { PositionReads } from "../../modules/figures/reads/positions.ts";
import type { Leads } from "../../modules/intake/leads/leads.ts";
import type { LogReads } from "../../modules/log/log-reads.ts";
import type { OpenTrials } from "../../modules/money/trials/open-trials.ts";
import type { Look } from "../../modules/running/repair/probes.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Contract } from "./contract/contract.ts";
import type { Method, RouteRow } from "./route-table.ts";

/** The ports of all routes; each file of routes picks those that it needs. */
export interface ApiPorts {
  readonly version: string;
  /** Unix milliseconds when this process began to serve. */
  readonly startedAt: number;
  readonly pool: Pool;
  /** Makes and checks the tokens of invitations, and seals the signing secrets of clients. */
  readonly keyring: Keyring;
  /** The address of the portal; undefined: there is none. */
  readonly portal: string | undefined;
  /** Where people reach the other hosts. */
  readonly hosts: PublicHosts;
  readonly clickhouse: Clickhouse;
  /** Stores the files of imports and their rejected rows. */
  readonly objects: Objects;
  /** All routes of this host, for its documentation. */
  readonly served: () => readonly ServedRoute[];
  /** A question is answered 503 while the log is away. */
  readonly log: LogReads;
  /** Keys of plan tokens: the first key signs, every key is accepted. */
  readonly planKeys: readonly Buffer[];
  /** How far the log is stored; figures return it as `as_of`. */
  readonly positions: PositionReads;
  /** Keys of cursors: the first key signs, every key is accepted. */
  readonly cursorKeys: readonly Buffer[];
  /** Takes leads that clients have signed, and reads them. */
  readonly leads: Leads;
  readonly analytics: Look;
  readonly cache: Look;
  readonly relational: Look;
  /** Rejects when the alert could be neither kept nor mailed. */
  readonly reportAlert: Deliver;
  /**
   * Opened by the first use. Rejects while the log cannot be written, since an action that cannot
   * be audited must not happen.
   */
  readonly audit: () => Promise<OperationPorts>;
  /** Writes decisions to the log; rejects while it cannot be written. */
  readonly decide: (decisions: readonly Claim[]) => Promise<void>;
  /** Opened by the first use; rejects while the registry does not answer. */
  readonly trials: OpenTrials;
}

/** The sender of a request that has passed the checks. */
export type Caller =
  | { readonly kind: "anyone" }
  | { readonly kind: "service" }
  /** A server of the client, which has signed the body. */
  | { readonly kind: "client"; readonly client_id: number }
  | { readonly kind: "user"; readonly user: User };

/** A request that has passed the checks, parsed by the contract of its route. */
export interface Ask<C extends Contract = Contract> {
  readonly caller: Caller;
  /** Throws Problem 403 where the caller is no user. */
  readonly user: User;
  readonly role: Role | undefined;
  /** The sender, for the audit of actions without a user. */
  readonly sender: Pick<Act, "request_id" | "ip">;
  readonly params: z.output<C["params"]>;
  readonly query: z.output<C["query"]>;
  readonly body: z.output<C["body"]>;
  /**
   * The body as a use case takes it: without `version` and without fields that are undefined.
   */
  readonly input: Input<z.output<C["body"]>>;
  /** Length of the body before it is parsed. */
  readonly bytes: number;
  /** Names of the fields that the caller may see, of the answer or of a row of the list. */
  readonly fields: readonly string[];
  /** The version that the caller has seen, from If-Match or the body; undefined: any. */
  readonly version: number | undefined;
  readonly read: ScopedRead;
  /**
   * Runs a use case in one transaction with its audit rows, its outbox rows and the answer to its
   * Idempotency-Key: all of it is saved, or nothing. `answer` is called last, in the same
   * transaction; without it the answer has no body.
   */
  readonly write: Write;
  /**
   * Answers a page of the list, or all of it as CSV. `complete` adds fields of other stores to the
   * rows, `more` adds fields beside the rows of a page. Both use the snapshot of the rows.
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
 * `tx` is the snapshot of the rows. For a file it throws while a store is slow, because a file must
 * not lack fields.
 */
export type Complete = (
  rows: readonly Row[],
  scope: Scope,
  from: { readonly tx: PoolClient; readonly isFile: boolean },
) => Promise<readonly Row[]>;
export type More = (tx: PoolClient, scope: Scope) => Promise<object>;

export interface Reply {
  /** Undefined: the status of the contract. */
  readonly status?: number;
  /** The input of the answer shape of the contract; not sent with 204. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body for a repeat of the request, where secrets are shown once. */
  readonly repeat?: unknown;
  /** A body that is already text, e.g. a stored answer; `headers` has its type. */
  readonly text?: string;
  /** Streams a body. An error after the first byte breaks the connection. */
  readonly send?: (response: Response) => Promise<void>;
}

export interface Route {
  readonly contract: Contract;
  /** The route has no limit of requests. */
  readonly isUnlimited?: boolean;
  /** Throws Problem, RefusalError and Unavailable. */
  readonly answer: (ask: Ask<any>) => Promise<Reply>;
}

/** Makes a route whose handler is typed by its contract. */
export const route = <C extends Contract>(
  contract: C,
  answer: (ask: Ask<C>) => Promise<Reply>,
  more: Pick<Route, "isUnlimited"> = {},
): Route => ({ contract, answer, ...more });

/** A route with its row. */
export interface ServedRoute extends Route {
  readonly method: Method;
  /** The path in the syntax of express. */
  readonly path: string;
  readonly auth: "none" | "user" | "service-token" | "invitation" | "hmac";
  /** Roles of users that may call it; every other role is answered 403. */
  readonly roles: readonly Role[];
  readonly row: RouteRow;
}
