// Joins concurrent commits of one member into one request.

export interface Place {
  readonly topic: string;
  readonly partition: number;
}
interface Offsets {
  readonly topics: { topic: string; partitions: { partition: number; offset: string }[] }[];
}
type Send = (offsets: Offsets) => Promise<void>;

/**
 * A sink writes all partitions of a fetch at once and then commits each. Each request becomes a
 * record in the broker's log, which the broker writes after gathering for some milliseconds. Twelve
 * requests one after the other cost twelve times as much and delay the next fetch.
 */
export class Commits {
  #gathering: { readonly byTopic: Map<string, Map<number, number>>; readonly sent: Promise<void> } | undefined;

  /**
   * Resolves when the coordinator has the offset. Commits that are asked for before the current
   * microtasks are done go out in one request and share its answer; `send` is that of the first
   * commit.
   */
  commit({ topic, partition }: Place, nextOffset: number, send: Send): Promise<void> {
    this.#gathering ??= this.#begin(send);
    const gathering = this.#gathering;
    const partitions = gathering.byTopic.get(topic) ?? new Map<number, number>();
    gathering.byTopic.set(topic, partitions);
    partitions.set(partition, Math.max(nextOffset, partitions.get(partition) ?? 0));
    return gathering.sent;
  }

  #begin(send: Send) {
    const byTopic = new Map<string, Map<number, number>>();
    const sent = Promise.resolve().then(() => {
      this.#gathering = undefined;
      return send(offsetsOf(byTopic));
    });
    return { byTopic, sent };
  }
}

const offsetsOf = (byTopic: ReadonlyMap<string, ReadonlyMap<number, number>>): Offsets => ({
  topics: [...byTopic].map(([topic, partitions]) => ({
    topic,
    partitions: [...partitions].map(([partition, next]) => ({ partition, offset: String(next) })),
  })),
});
