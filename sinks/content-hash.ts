// Distinguishes two contents of one id (law R11).
import { createHash } from "node:crypto";

/**
 * Hex SHA-256 of these values; bigints are written as their digits. Stored rows keep it, so a sink
 * names what it hashes, in one order for good: a field that is added to a schema counts only where
 * it differs from its default, else every record of before would be another content.
 */
export const contentHash = (values: readonly unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value)))
    .digest("hex");
