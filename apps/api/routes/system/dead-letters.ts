// The routes of dead letters: listed, made due again, given up. For administrators: a letter may
// belong to no client.
import { orUnavailable, Problem } from "../../../../infra/http/problem.ts";
import type { Behind } from "../../../../infra/postgres/rows.ts";
import * as letters from "../../../../modules/dead-letters/actions.ts";
import type { Letter } from "../../../../modules/dead-letters/letter.ts";
import * as reads from "../../../../modules/dead-letters/letter-reads.ts";
import { discardLetter, listLetters, retryLetter } from "../../contract/system/dead-letters.ts";
import { notFound } from "../../request/accept.ts";
import { cursorText, listKey, readCursor } from "../../request/cursor.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

export const routes = ({ pool, audit, cursorKeys }: ApiPorts): readonly Route[] => {
  const ports = async () => ({ pool, audit: await stored(audit) });
  return [
    route(listLetters, (ask) => pageOfLetters({ pool, cursorKeys }, ask)),
    route(retryLetter, async ({ params, user }) => {
      const by = { actor: user.email, scope: null };
      const opened = await ports();
      return replyOf(await stored(() => letters.retryLetter(opened, params.id, by)));
    }),
    route(discardLetter, async ({ params, user, body }) => {
      const by = { actor: user.email, reason: body.reason, scope: null };
      const opened = await ports();
      return replyOf(await stored(() => letters.discardLetter(opened, params.id, by)));
    }),
  ];
};

/** Letters of no client have no tenant: the module reads them under a role of its own. */
const pageOfLetters = async (
  { pool, cursorKeys }: Pick<ApiPorts, "pool" | "cursorKeys">,
  { query, params }: Ask<typeof listLetters>,
): Promise<Reply> => {
  const { limit, cursor, kind, state, stage, code, client_id } = query;
  const filter = {
    ...(kind && { kind }),
    ...(state && { states: [state] }),
    ...(stage && { stage }),
    ...(code && { code }),
    ...(client_id && { client_id }),
  };
  const list = listKey(listLetters.route, params, query);
  const after = cursor === undefined ? undefined : placeOf(readCursor(cursorKeys, list, cursor));
  // One more than asked for shows whether there are more.
  const found = await stored(() =>
    reads.listLetters(pool, filter, { scope: null, limit: limit + 1, ...(after && { after }) }),
  );
  const data = found.slice(0, limit);
  const last = found.length > limit ? data.at(-1) : undefined;
  const next = last && cursorText(cursorKeys, list, [String(last.last_failed_at), last.letter_id]);
  return { body: { data: data.map(shown), has_more: last !== undefined, next_cursor: next ?? null } };
};
const placeOf = ([at, letter_id]: Behind): reads.LetterCursor => ({ last_failed_at: Number(at), letter_id });

const replyOf = (found: Letter | "wrong_state" | undefined): Reply => {
  if (found === undefined) throw notFound();
  if (found === "wrong_state") throw new Problem("conflict", "this letter is not open, or is on its way just now");
  return { body: shown(found) };
};

const stored = <T>(work: () => Promise<T>): Promise<T> =>
  work().catch(orUnavailable("dead letters cannot be read or changed now", 2));

const TIMES = new Set(["first_failed_at", "last_failed_at", "next_attempt_at", "sent_at", "closed_at"]);
/** Times as RFC 3339; without the keeper's lease, and without what links letters of one event. */
const shown = ({ lease_until: _, root: __, subject: ___, ...letter }: Letter) =>
  Object.fromEntries(
    Object.entries(letter).map(([name, value]) => [
      name,
      TIMES.has(name) && typeof value === "number" ? new Date(value).toISOString() : value,
    ]),
  );
