// The routes of dead letters. For administrators: a letter may belong to no client.
import { orUnavailable, Problem } from "../../../../infra/http/problem.ts";
import * as letters from "../../../../modules/log/dead-letters/actions.ts";
import type { Letter } from "../../../../modules/log/dead-letters/letter.ts";
import { letterDepth } from "../../../../modules/log/dead-letters/letter-index.ts";
import { letterRows } from "../../../../modules/log/dead-letters/letter-list.ts";
import { discardLetter, listLetters, retryLetter } from "../../contract/system/dead-letters.ts";
import { notFound } from "../../request/accept.ts";
import { spanOf } from "../../request/range.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

export const routes = ({ pool, audit }: ApiPorts): readonly Route[] => {
  const opened = async () => ({ pool, audit: await stored(audit) });
  return [
    route(listLetters, async ({ list, query }) => {
      const { from, to, ...filter } = query;
      // Without days every letter is meant: what is parked waits for a person, however long.
      const span = from === undefined && to === undefined ? {} : { failed: spanOf({ from, to }, Date.now()) };
      const { body, ...reply } = await list(letterRows({ ...filter, ...span }));
      return { ...reply, body: { ...(body as object), depth: await stored(() => letterDepth(pool)) } };
    }),
    route(retryLetter, async (ask) => {
      const by = { actor: ask.user.email, scope: null };
      const ports = await opened();
      return recorded(ask, "dead_letter.retried", "queued", () => letters.retryLetter(ports, ask.params.id, by));
    }),
    route(discardLetter, async (ask) => {
      const by = { actor: ask.user.email, reason: ask.body.reason, scope: null };
      const ports = await opened();
      return recorded(ask, "dead_letter.discarded", "discarded", () => letters.discardLetter(ports, ask.params.id, by));
    }),
  ];
};

/**
 * The letter is changed before the transaction of its audit row, for within it a second connection
 * would be waited for: dying in between leaves what the topic `operations` says, which came first.
 */
const recorded = async (
  { write }: Pick<Ask, "write">,
  action: string,
  status: "queued" | "discarded",
  change: () => Promise<Letter | "wrong_state" | undefined>,
): Promise<Reply> => {
  const letter = await stored(change);
  if (letter === undefined) throw notFound();
  if (letter === "wrong_state") throw new Problem("conflict", "this letter is not open, or is on its way just now");
  const { letter_id, client_id, kind, stage, code, state, close_reason } = letter;
  const after = { kind, stage, code, state, ...(close_reason !== null && { reason: close_reason }) };
  return write(async ({ audit }) => {
    await audit({ action, client_id, entity: `dead_letter:${letter_id}`, after });
    return { body: { id: letter_id, status } };
  });
};

const stored = <T>(work: () => Promise<T>): Promise<T> =>
  work().catch(orUnavailable("dead letters cannot be read or changed now", 2));
