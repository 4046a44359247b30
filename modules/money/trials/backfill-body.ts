// The request body of a backfill, for every host that accepts one.
import { z } from "zod";

const isMoment = (text: string): boolean =>
  (z.iso.date().safeParse(text).success || z.iso.datetime({ offset: true }).safeParse(text).success) &&
  text >= "2000" &&
  text < "2101";
const moment = z
  .string()
  .max(40)
  .refine(isMoment, "give a day as YYYY-MM-DD, or an RFC 3339 time, which means its day");
const eventType = z.string().regex(/^[a-z][a-z0-9_.:-]{0,63}$/, "give an event name");

/** Selects the events of history. */
export const historyFields = {
  from: moment.optional().describe("the first day, of America/Mexico_City; 30 days ago when left out"),
  to: moment.optional().describe("the last day; today when left out"),
  event_types: z.array(eventType).min(1, "name a type, or leave it out for all").max(50).optional(),
};

/** Every field may be left out, so no body at all is a body without fields. */
export const backfillBody = z
  .strictObject({
    ...historyFields,
    dry_run: z.boolean().default(true),
    trigger_recalc: z.boolean().default(false),
    version: z.int().min(1).optional(),
  })
  .prefault({});
