// The table of conversions: each as its newest record left it.
import { bytes, oneOf, type StoredRow, type WrittenRow } from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";
import { fieldColumns } from "./generated.ts";
import { statementsOf } from "./statements.ts";

const conversionColumns = { ...fieldColumns, status: oneOf<"credited" | "reversed">(), content_hash: bytes };
export type ConversionRow = WrittenRow<typeof conversionColumns>;
export type StoredConversion = StoredRow<typeof conversionColumns>;

const declared = {
  name: "conversions",
  key: ["client_id", "conversion_id"],
  columns: conversionColumns,
} as const;

/**
 * The newest version of a conversion wins; another content under a version that is there is
 * refused.
 */
export const conversions = postgresTable<ConversionRow>(declared, statementsOf(declared));
