// Builds the argument of a handler from a request: its parts by the contract, and the transactions
// in which it reads and writes.
import { Problem } from "../../../infra/http/problem.ts";
import { checkTexts } from "../../../infra/http/read-json.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { enterScope } from "../../../modules/access/scope.ts";
import { fieldsOf } from "../contract/contract.ts";
import type { Ask } from "../route.ts";
import { accepted, expectedVersion, inputOf, paramsIn, queryIn } from "./accept.ts";
import { type AskPorts, away, type CheckedRequest, roleOf } from "./checked-request.ts";
import { behindOf, listReply } from "./list.ts";
import { type Writing, writeReply } from "./write.ts";

/**
 * Throws Problem 400 for a query, a cursor, a version or a body that is not valid, and
 * RefusalError: missing for a path without an id. Its `user()` throws Problem 403 for a service.
 */
export const askOf = (ports: AskPorts, arrived: CheckedRequest): Ask => {
  const { caller, request } = arrived;
  const { contract } = arrived.route;
  const role = roleOf(caller);
  checkTexts(request.params);
  const query = queryIn(contract, role, request.query);
  const body = accepted(contract.body, arrived.json, "the body");
  const params = paramsIn(contract, request.params);
  if (contract.list !== undefined) behindOf(ports, arrived, { params, query });
  const expected = expectedVersion(request, body);
  const user = () => {
    if (caller.kind === "user") return caller.user;
    throw new Problem("forbidden", "this is for users");
  };
  const ask: Ask = {
    caller,
    get user() {
      return user();
    },
    role,
    sender: { request_id: arrived.requestId, ip: request.ip ?? null },
    params,
    query,
    body,
    input: inputOf(body),
    bytes: arrived.bytes?.length ?? 0,
    fields: fieldsOf(contract, role),
    version: expected,
    read: (work) =>
      transaction(ports.pool, null, async (tx) => work(tx, await enterScope(tx, user())), { isReadOnly: true }).catch(
        away,
      ),
    write: (useCase: Writing["useCase"], answer: Writing["answer"] = () => ({})) =>
      writeReply(ports, arrived, user(), { useCase, answer }),
    list: (rows, complete = async (found) => found, more = async () => ({})) =>
      listReply(ports, arrived, ask, { rows, complete, more }),
  };
  return ask;
};
