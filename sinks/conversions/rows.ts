// Turns a change of a conversion into a row: the conversion after this change.
import type { Conversion } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contentHash } from "../shared-columns.ts";
import { contentOf, rowOf } from "./generated.ts";
import type { ConversionRow } from "./table.ts";

/** A line that is only partly reversed stays credited. */
const statusOf = ({ kind, refunded_minor, line_value_minor }: Conversion): ConversionRow["status"] =>
  kind === "reversed" && refunded_minor >= line_value_minor ? "reversed" : "credited";

export const conversionRows = ({ data }: Recorded<Conversion>): readonly ConversionRow[] => [
  rowOf(data, { status: statusOf(data), content_hash: contentHash(contentOf(data)) }),
];
