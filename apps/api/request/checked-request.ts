// The parts that the steps of a request share: the request as it was checked, and its answer.

import type { Request } from "express";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import type { Role } from "../../../modules/access/users/users.ts";
import { answerOf } from "../contract/contract.ts";
import type { ApiPorts, Caller, Reply, ServedRoute } from "../route.ts";

/** A request that has passed the checks before those of its contract. */
export interface CheckedRequest {
  readonly route: ServedRoute;
  readonly caller: Caller;
  readonly request: Request;
  readonly requestId: string;
  /** The bytes of the body and the JSON in it; undefined when none was sent. */
  readonly bytes: Buffer | undefined;
  readonly json: unknown;
}
export interface AskPorts extends Pick<ApiPorts, "pool" | "cursorKeys"> {
  /** Counts the CSV files that are being written. */
  readonly files: { underWay: number };
}

/** Maps errors of Postgres to 503 while it is away. */
export const away = orUnavailable("this cannot be read or changed now", 2);

export const roleOf = (caller: Caller): Role | undefined => (caller.kind === "user" ? caller.user.role : undefined);

/** The reply as it is sent: fields that the shape of the role does not name are dropped. */
export const rendered = ({ contract }: ServedRoute, caller: Caller, reply: Reply): Reply => {
  if (reply.send !== undefined || reply.text !== undefined) return reply;
  const { status = contract.status, headers = {} } = reply;
  if (status === 204) return { status, headers, text: "" };
  const body = answerOf(contract.answers, roleOf(caller)).parse(reply.body) as { readonly version?: unknown };
  const etag = typeof body?.version === "number" ? { ETag: `"${body.version}"` } : {};
  return {
    status,
    headers: { "Content-Type": "application/json; charset=utf-8", ...etag, ...headers },
    text: JSON.stringify(body),
  };
};
