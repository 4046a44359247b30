// What a route of the platform API is: who may call it is data beside its answer, held against
// apps/api/routes.yaml by a test.
import type { Pool } from "pg";
import type { Role, User } from "../../modules/access/users.ts";
import type { Alert } from "../../modules/alerts/alert.ts";
import type { OperationPorts } from "../../modules/operations/operations.ts";
import type { Look } from "../../modules/repair/probes.ts";

/** What a route may work with; its file takes what it needs. */
export interface ApiPorts {
  readonly version: string;
  /** Unix milliseconds when this process began to serve. */
  readonly startedAt: number;
  readonly pool: Pool;
  readonly analytics: Look;
  readonly cache: Look;
  readonly relational: Look;
  /** True when the mail has been taken; rejects when the alert could be neither kept nor mailed. */
  readonly reportAlert: (alert: Alert) => Promise<boolean>;
  /**
   * Opened when first needed; rejects while the log cannot be written: what cannot be audited is
   * not done.
   */
  readonly audit: () => Promise<OperationPorts>;
}

/** Whom the order of checks has let through. */
export type Caller =
  | { readonly kind: "anyone" }
  | { readonly kind: "service" }
  | { readonly kind: "user"; readonly user: User };

export interface Ask {
  readonly caller: Caller;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The parsed JSON of a POST; undefined when none was sent. */
  readonly body: unknown;
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route {
  readonly method: "GET" | "POST";
  /** As express takes it. */
  readonly path: string;
  readonly auth: "none" | "user" | "service-token";
  /** Of users; every other role is answered 403. */
  readonly roles?: readonly Role[];
  /** Without a limit of requests. */
  readonly isUnlimited?: boolean;
  /** Throws Problem for whatever is wrong with query, body, row or state. */
  readonly answer: (ask: Ask) => Promise<Reply>;
}
