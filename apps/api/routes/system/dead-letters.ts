// The routes of dead letters. Only admins see them, because a letter may belong to no client.
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { spanOf } from "../../../../modules/base/days.ts";
import * as letters from "../../../../modules/log/dead-letters/actions.ts";
import { letterDepth } from "../../../../modules/log/dead-letters/letter-index.ts";
import { letterRows } from "../../../../modules/log/dead-letters/letter-list.ts";
import { discardLetter, listLetters, retryLetter } from "../../contract/system/dead-letters.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/**
 * A letter is changed before the transaction of its audit row, because the change takes a
 * connection of its own. A crash between the two leaves only the entry in the topic `operations`,
 * which is written first.
 */
export const routes = ({ pool, audit }: ApiPorts): readonly Route[] => [
  route(listLetters, async ({ list, query }) => {
    const { from, to, ...filter } = query;
    // Without days all letters are listed, because a parked letter waits for a person without
    // limit.
    const span = from === undefined && to === undefined ? {} : { failed: spanOf({ from, to }, Date.now()) };
    const { body, ...reply } = await list(letterRows({ ...filter, ...span }));
    return { ...reply, body: { ...(body as object), depth: await stored(() => letterDepth(pool)) } };
  }),

  route(retryLetter, async ({ user, params: { id }, write }) => {
    const by = { actor: user.email, scope: null };
    const letter = await stored(async () => letters.retryLetter({ pool, audit: await audit() }, id, by));
    return write(
      (work) => letters.recordLetter(work, "dead_letter.retried", letter),
      () => ({ body: { id, status: "queued" } }),
    );
  }),

  route(discardLetter, async ({ user, params: { id }, body: { reason }, write }) => {
    const by = { actor: user.email, reason, scope: null };
    const letter = await stored(async () => letters.discardLetter({ pool, audit: await audit() }, id, by));
    return write(
      (work) => letters.recordLetter(work, "dead_letter.discarded", letter),
      () => ({ body: { id, status: "discarded" } }),
    );
  }),
];

const stored = <T>(work: () => Promise<T>): Promise<T> =>
  work().catch(orUnavailable("dead letters cannot be read or changed now", 2));
