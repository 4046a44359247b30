// Distinguishes two contents of one id (law R11).
import { hash } from "node:crypto";

/**
 * Hex SHA-256 of these values; bigints are written as their digits, and none lies deeper. Stored
 * rows keep it, so the values have one order for good: a field that is added to a schema counts
 * only where it differs from its default (`"hashed": "unless_default"`), else every record of
 * before would be another content.
 */
export const contentHash = (values: readonly unknown[]): string =>
  // A replacer of JSON.stringify would be called for each value, and for each of those inside.
  hash("sha256", JSON.stringify(values.map((value) => (typeof value === "bigint" ? `${value}` : value))), "hex");
