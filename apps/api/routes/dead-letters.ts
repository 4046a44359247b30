// The routes of dead letters: listed, made due again, given up. For administrators: a letter may
// belong to no client.
import { z } from "zod";
import { orUnavailable, Problem } from "../../../infra/http/problem.ts";
import { discardLetter, retryLetter } from "../../../modules/dead-letters/actions.ts";
import type { Letter } from "../../../modules/dead-letters/letter.ts";
import { type LetterCursor, listLetters } from "../../../modules/dead-letters/letter-reads.ts";
import type { ApiPorts, Caller, Reply, Route } from "../route.ts";

const filters = z.strictObject({
  kind: z.enum(["clicks", "pixel", "s2s"]).optional(),
  state: z.enum(["waiting", "retrying", "parked", "reprocessed", "discarded"]).optional(),
  stage: z.string().min(1).max(100).optional(),
  code: z.string().min(1).max(100).optional(),
  client_id: z.coerce.number().int().min(1).max(2_147_483_647).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(50),
  cursor: z.string().min(1).max(1_000).optional(),
});
const discard = z.strictObject({ reason: z.string().trim().min(1).max(500) });

export const routes = ({ pool, audit }: ApiPorts): readonly Route[] => {
  const common = { auth: "user", roles: ["admin"] } as const;
  return [
    {
      ...common,
      method: "GET",
      path: "/api/dead-letters",
      answer: async ({ query }) => {
        const { limit, cursor, kind, state, stage, code, client_id } = acceptable(filters, query);
        const filter = {
          ...(kind && { kind }),
          ...(state && { states: [state] }),
          ...(stage && { stage }),
          ...(code && { code }),
          ...(client_id && { client_id }),
        };
        const after = cursor === undefined ? undefined : cursorOf(cursor);
        // One more than asked for shows whether there are more.
        const found = await stored(() =>
          listLetters(pool, filter, { scope: null, limit: limit + 1, ...(after && { after }) }),
        );
        const data = found.slice(0, limit);
        const last = found.length > limit ? data.at(-1) : undefined;
        return {
          status: 200,
          body: { data: data.map(shown), has_more: last !== undefined, next_cursor: last ? textOf(last) : null },
        };
      },
    },
    {
      ...common,
      method: "POST",
      path: "/api/dead-letters/:id/retry",
      answer: async ({ params, caller }) => {
        const ports = { pool, audit: await stored(audit) };
        return answerOf(await stored(() => retryLetter(ports, params.id!, { actor: actorOf(caller), scope: null })));
      },
    },
    {
      ...common,
      method: "POST",
      path: "/api/dead-letters/:id/discard",
      answer: async ({ params, caller, body }) => {
        const { reason } = acceptable(discard, body);
        const ports = { pool, audit: await stored(audit) };
        return answerOf(
          await stored(() => discardLetter(ports, params.id!, { actor: actorOf(caller), reason, scope: null })),
        );
      },
    },
  ];
};

const actorOf = (caller: Caller): string => (caller.kind === "user" ? caller.user.email : caller.kind);

const answerOf = (found: Letter | "wrong_state" | undefined): Reply => {
  if (found === undefined) throw new Problem("not_found", "there is no dead letter of this id");
  if (found === "wrong_state") throw new Problem("conflict", "this letter is not open, or is on its way just now");
  return { status: 200, body: shown(found) };
};

const acceptable = <T>(schema: z.ZodType<T>, given: unknown): T => {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const errors = parsed.error.issues.map(({ path, code, message }) => ({
    pointer: `/${path.join("/")}`,
    code,
    detail: message,
  }));
  throw new Problem("validation_failed", "the query or the body is not acceptable", { errors });
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

const textOf = ({ last_failed_at, letter_id }: Letter): string =>
  Buffer.from(JSON.stringify([last_failed_at, letter_id])).toString("base64url");
/** The end of the year 9999: later ones are no dates to a store. */
const LATEST = 253_402_300_799_999;
const cursorOf = (text: string): LetterCursor => {
  try {
    const [at, id] = z
      .tuple([z.number().int().min(0).max(LATEST), z.string().regex(/^\w{1,200}$/)])
      .parse(JSON.parse(Buffer.from(text, "base64url").toString()));
    return { last_failed_at: at, letter_id: id };
  } catch {
    throw new Problem("validation_failed", "the cursor is none of ours", {
      errors: [{ pointer: "/cursor", code: "bad_cursor", detail: "take next_cursor of the answer before" }],
    });
  }
};
