// What the steps of one request share: what has arrived, and how an answer goes out.

import type { Request } from "express";
import { orUnavailable } from "../../../infra/http/problem.ts";
import type { Role } from "../../../modules/access/users/users.ts";
import { answerOf } from "../contract/contract.ts";
import type { ApiPorts, Caller, Reply, ServedRoute } from "../route.ts";

/** What was checked before the contract is looked at. */
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
  /** CSV files that are being written now. */
  readonly files: { underWay: number };
}

/** For what Postgres was asked: 503 while it is away. */
export const away = orUnavailable("this cannot be read or changed now", 2);

export const roleOf = (caller: Caller): Role | undefined => (caller.kind === "user" ? caller.user.role : undefined);

/** The body as it goes out: what the shape of the role does not name is not sent. */
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
