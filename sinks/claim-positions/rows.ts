// Turns a claim into its row of the index.
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { type ClaimPositionRow, orderHash } from "./table.ts";

/** One row for a claim. Claims begin a chain, so their position is the one in their own topic. */
export const claimPositionRows = ({
  data: { client_id, order_key, kind },
  receivedAt: received_at,
  position: { partition: log_partition, offset: log_offset },
}: Recorded<Claim>): readonly ClaimPositionRow[] => {
  const order_hash = orderHash(order_key);
  const is_conversion = kind === "conversion";
  const values = [client_id, order_hash, log_partition, log_offset, is_conversion, received_at] as const;
  return [{ client_id, order_hash, log_partition, log_offset, is_conversion, received_at, values }];
};
