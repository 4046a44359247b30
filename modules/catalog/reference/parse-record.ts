// Validates a record before a use case sees it.
import { z } from "zod";
import { type Refusal, RefusalError } from "../../base/refusal.ts";
import { merged } from "./draft.ts";
import { type EntityName, entities } from "./entities.ts";
import type { Columns } from "./problem.ts";
import { segmentRecord } from "./records.ts";

/**
 * Returns the saved record with the given fields, validated; without a saved record only the given
 * fields. Throws RefusalError with every field that is wrong, or that cannot change once saved.
 */
export const parseRecord = (entity: EntityName, saved: Columns | undefined, fields: Columns): any => {
  const { record, fixed } = entities[entity];
  const parsed = parse(record, saved === undefined ? fields : merged(saved, fields));
  const moved = fixed.filter((name) => saved !== undefined && parsed[name] !== saved[name]);
  if (moved.length > 0)
    throw new RefusalError(
      moved.map((name) => ({
        ...{ kind: "conflict", code: "conflict", path: `/${name}` },
        message: `cannot be changed once saved; it is ${JSON.stringify(saved![name])}`,
      })),
    );
  return parsed;
};

/** A segment with its client; both ids together identify it. */
const segmentOfClient = segmentRecord.extend({ client_id: z.int("give an integer id") });

/** Does the same for a segment. */
export const parseSegment = (saved: Columns | undefined, fields: Columns): z.output<typeof segmentOfClient> =>
  parse(segmentOfClient, { ...saved, ...fields });

const parse = <S extends z.ZodType>(schema: S, given: unknown): z.output<S> => {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new RefusalError(
    parsed.error.issues.map((issue): Refusal => {
      const path = issue.path.map((part) => `/${String(part)}`).join("");
      const message = issue.code === "unrecognized_keys" ? `there is no field ${issue.keys.join(", ")}` : issue.message;
      return { kind: "invalid", code: "invalid", path, message };
    }),
  );
};
