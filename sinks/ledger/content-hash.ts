// Tells two contents of one id apart (law R11).
import { createHash } from "node:crypto";

/**
 * Hex SHA-256 of a row's values; bigints are written as their digits. The order of the fields is
 * the row's own, which one function writes.
 */
export const contentHash = (values: readonly unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? `${value}` : value)))
    .digest("hex");
