// Prints ranges of offsets that the archive lacks or holds twice, one a line.
import { archiving } from "../../../../modules/log/groups/archive-group.ts";

interface OffsetRange {
  readonly partition: number;
  readonly from: number;
  readonly until: number;
  readonly hour: string;
}

export const rangeLines = (what: string, ranges: readonly OffsetRange[]): readonly string[] =>
  ranges.map(
    ({ partition, from, until, hour }) =>
      `${what}: ${archiving.topic}/${partition} from ${from} to ${until - 1}, at ${hour}`,
  );
