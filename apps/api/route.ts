// What a route of the platform API is: who may call it is data beside its answer, held against
// apps/api/routes.yaml by a test.
import type { Role, User } from "../../modules/access/users.ts";

/** Whom the order of checks has let through. */
export type Caller =
  | { readonly kind: "nobody" }
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
