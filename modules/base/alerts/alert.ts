// The format of an alert: the body of POST /api/admin/system-alert (docs/design/contracts.md,
// "System alert") with two more fields.
import { createHash } from "node:crypto";
import { z } from "zod";

export interface Alert {
  /** The name of the component. */
  readonly service: string;
  readonly status: "down" | "recovered";
  readonly reason: string;
  /** The length of the downtime; only on recovery. */
  readonly duration?: string;
  /** ISO 8601 in UTC. */
  readonly timestamp: string;
  /** One mail is sent for each incident, status and severity. */
  readonly incident_id: string;
  /** Critical: the component needs a person, since nothing repairs it automatically. */
  readonly severity: "normal" | "critical";
}

/** Unknown fields are ignored, because a newer sender may send more. */
const body = z.object({
  service: z.string().regex(/^[^\p{Cc}\p{Zl}\p{Zp}]{1,200}$/u, "a name of 1 to 200 characters on one line"),
  status: z.enum(["down", "recovered"]),
  reason: z.string().min(1).max(2_000),
  duration: z.string().min(1).max(100).optional(),
  timestamp: z.iso.datetime({ offset: true }).transform((text) => new Date(text).toISOString()),
  incident_id: z
    .string()
    .regex(/^[A-Za-z0-9._:-]{1,128}$/)
    .optional(),
  severity: z.enum(["normal", "critical"]).default("normal"),
});

export interface Wrong {
  readonly pointer: string;
  readonly code: string;
  readonly detail: string;
}

/**
 * Returns the alert, or the errors in the body. Without an incident_id, equal texts at the same
 * time count as one incident.
 */
export const readAlert = (given: unknown): { readonly alert: Alert } | { readonly wrong: readonly Wrong[] } => {
  const parsed = body.safeParse(given);
  if (!parsed.success)
    return {
      wrong: parsed.error.issues.map(({ path, code, message }) => ({
        pointer: `/${path.join("/")}`,
        code,
        detail: message,
      })),
    };
  const { incident_id, duration, ...rest } = parsed.data;
  const words = JSON.stringify([rest.service, rest.timestamp, rest.reason]);
  return {
    alert: {
      ...rest,
      // A component that is down has no downtime yet, whatever the sender wrote.
      ...(duration === undefined || rest.status === "down" ? {} : { duration }),
      incident_id: incident_id ?? `inc_${createHash("sha256").update(words).digest("hex").slice(0, 24)}`,
    },
  };
};
