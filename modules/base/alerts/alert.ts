// An alert as it travels: the body of POST /api/admin/system-alert (docs/design/contracts.md,
// "System alert") and two fields of ours.
import { createHash } from "node:crypto";
import { z } from "zod";

export interface Alert {
  /** Name of the component. */
  readonly service: string;
  readonly status: "down" | "recovered";
  readonly reason: string;
  /** Of the downtime; only on recovery. */
  readonly duration?: string;
  /** ISO 8601 UTC. */
  readonly timestamp: string;
  /** One mail an incident, status and severity. */
  readonly incident_id: string;
  /** Critical: nothing repairs this by itself. */
  readonly severity: "normal" | "critical";
}

/** Unknown fields are left out: a later sender may know more than this release. */
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
 * An alert, or what is wrong with the body. Without an incident the same words at the same time are
 * one.
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
      // A component that is down has no downtime yet, whatever its sender wrote.
      ...(duration === undefined || rest.status === "down" ? {} : { duration }),
      incident_id: incident_id ?? `inc_${createHash("sha256").update(words).digest("hex").slice(0, 24)}`,
    },
  };
};
